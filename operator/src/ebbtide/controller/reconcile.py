"""
One pass over one job: look, decide, act, write the status once, tell.

Running it twice on the same state does nothing the second time. Nothing is remembered between
passes.
"""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, Protocol

from typing_extensions import override

from ebbtide.cluster.errors import ConflictError
from ebbtide.core.planner.knowledge import Knowledge
from ebbtide.core.step import step
from ebbtide.core.values.decision import Action, Decision, Event
from ebbtide.core.values.job import JobKey
from ebbtide.core.values.observed import Observed
from ebbtide.core.values.settings import Settings
from ebbtide.core.values.status import JobStatus

logger = logging.getLogger(__name__)

AT_ONCE: Final = timedelta(0)
NOT_SO_FAST: Final = timedelta(seconds=1)


class OutcomeLike(Protocol):
    """What the cluster said to our actions."""

    @property
    def rejected(self) -> str:
        """Why the API server refuses our pod."""

    @property
    def foreign(self) -> AbstractSet[str]:
        """Names of ours that somebody else has."""

    @property
    def again(self) -> bool:
        """Something must be looked at again at once."""


class Cluster(Protocol):
    """What a pass needs of the cluster."""

    async def observe(self, key: JobKey) -> Observed | None:
        """Return what there is of a job; None when it is gone."""

    async def act(self, observed: Observed, actions: Sequence[Action]) -> OutcomeLike:
        """Carry out what was decided."""

    async def write_status(self, observed: Observed, status: JobStatus) -> bool:
        """Write what changed; tell whether anything was."""

    async def tell(self, observed: Observed, events: Sequence[Event]) -> None:
        """Write events on the job."""


class _Shown:
    """A decision in a few words, put together only when somebody reads them."""

    def __init__(self, decision: Decision) -> None:
        self._decision = decision

    @override
    def __str__(self) -> str:
        actions = Counter(type(action).__name__ for action in self._decision.actions)
        done = ", ".join(f"{count} {name}" for name, count in actions.items()) or "nothing to do"
        after = self._decision.requeue_after
        return f"{done}; again " + ("when called" if after is None else f"after {after}")


class Reconciler:
    """Passes over jobs of one cluster."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        settings: Settings,
        knowledge: Knowledge | None = None,
        clock: Callable[[], datetime],
        seen: Callable[[Observed, JobStatus], None] = lambda _observed, _status: None,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._knowledge = knowledge
        self._clock = clock
        self._seen = seen

    async def reconcile(self, key: JobKey) -> timedelta | None:
        """
        Make one pass; return when to come back without being called, None = never.

        Raises:
            ConflictError: something changed since the look: look again.
        """
        observed = await self._cluster.observe(key)
        if observed is None:
            return None
        now = self._clock()
        decision = self._decide(observed, now)
        logger.debug("%s: %s", key, _Shown(decision))
        outcome = await self._cluster.act(observed, decision.actions)
        if outcome.rejected or outcome.foreign:
            # What the server refused belongs into the status; nothing is tried again in this pass.
            observed = replace(
                observed,
                rejected=outcome.rejected,
                foreign=observed.foreign | outcome.foreign,
            )
            decision = self._decide(observed, now)
        written = False
        if decision.status is not None:
            written = await self._cluster.write_status(observed, decision.status)
            self._seen(observed, decision.status)
        await self._cluster.tell(observed, decision.events)
        if outcome.again:
            raise ConflictError(f"{key}: something of it is not as it was looked at")
        if decision.requeue_after == AT_ONCE and not written:
            return NOT_SO_FAST  # the next pass would see what this one saw
        return decision.requeue_after

    def _decide(self, observed: Observed, now: datetime) -> Decision:
        return step(observed, now=now, settings=self._settings, knowledge=self._knowledge)
