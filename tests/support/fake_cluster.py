"""A cluster for the control loop alone: it keeps one picture, and what was done to it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ebbtide.core.values.decision import Action, ApplyService, CreatePod, CreateSecret, Event
from ebbtide.core.values.job import JobKey
from ebbtide.core.values.observed import Observed, PodPhase
from ebbtide.core.values.status import JobStatus
from support.builders import make_pod


@dataclass(slots=True)
class Answer:
    """What the cluster says to actions."""

    rejected: str = ""
    foreign: set[str] = field(default_factory=set)
    again: bool = False


class FakeCluster:
    """Stores what is written, so that a second pass sees what the first one left."""

    def __init__(self, *pictures: Observed) -> None:
        self.pictures = {picture.job.key: picture for picture in pictures}
        self.answer = Answer()
        self.log: list[str] = []
        self.actions: list[Action] = []
        self.events: list[Event] = []
        self.written: list[JobStatus] = []
        self.error: Exception | None = None  # of the next write of a status

    async def observe(self, key: JobKey) -> Observed | None:
        """Return the picture."""
        self.log.append("observe")
        return self.pictures.get(key)

    async def act(self, observed: Observed, actions: Sequence[Action]) -> Answer:
        """Keep what was to be done, and show what was made in the next picture."""
        self.log.append("act")
        self.actions += actions
        if not (self.answer.rejected or self.answer.foreign):
            self._make(observed.job.key, actions)
        return self.answer

    def _make(self, key: JobKey, actions: Sequence[Action]) -> None:
        picture = self.pictures[key]
        made = tuple(
            make_pod(
                action.index,
                action.attempt,
                role=action.role,
                node="",
                phase=PodPhase.PENDING,
                ready=False,
                started=False,
                pool="" if action.pool is None else action.pool.name,
            )
            for action in actions
            if isinstance(action, CreatePod)
        )
        service = next((a.attempt for a in actions if isinstance(a, ApplyService)), None)
        self.pictures[key] = replace(
            picture,
            pods=(*picture.pods, *made),
            has_secret=picture.has_secret or any(isinstance(a, CreateSecret) for a in actions),
            service_attempt=picture.service_attempt if service is None else service,
        )

    async def write_status(self, observed: Observed, status: JobStatus) -> bool:
        """Store the status, unless it says nothing new."""
        self.log.append("status")
        error, self.error = self.error, None
        if error is not None:
            raise error
        key = observed.job.key
        if self.pictures[key].status == status:
            return False
        self.pictures[key] = replace(self.pictures[key], status=status)
        self.written.append(status)
        return True

    async def tell(self, observed: Observed, events: Sequence[Event]) -> None:
        """Keep what was told."""
        del observed
        self.log.append("tell")
        self.events += events
