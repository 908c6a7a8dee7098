"""What the coordinator knows: workers and their processes, the generation, the lease."""

import enum
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from ebbtide.wire.messages import (
    Form,
    Heartbeat,
    Member,
    Recovery,
    Register,
    RegisterServer,
    ServerMap,
    WorkSpec,
)

SILENT_BEATS: Final = 4  # heartbeats missed until a process counts as lost
ADOPTION_SECONDS: Final = 2.0  # beyond the silent beats: how long members may take to come back
LEASE_SECONDS: Final = 4.0  # how long one beat lets its receiver save
MAX_RECOVERIES: Final = 20


class Phase(enum.Enum):
    """What a process is doing."""

    NEW = "new"  # connected, not yet ready to be put into a generation
    IDLE = "idle"  # holds still
    BUSY = "busy"  # in a generation


class Ending(enum.Enum):
    """How a generation was told to end."""

    SOFT = "soft"
    HARD = "hard"


@dataclass(slots=True, kw_only=True)
class Process:
    """One connected rank-to-be."""

    link: int
    said: Register
    heard_at: float
    phase: Phase = Phase.NEW
    generation: int = 0  # the one it is busy in, or came from
    step: int = 0
    holds_state: bool = False
    checkpoint_step: int = -1
    checkpoint_error: str = ""
    formed: bool = False
    reached: bool = False
    left: bool = False  # said its last word
    dismissed: bool | None = None  # what `Dismissed.save` it was told; None = not yet
    beats_sent: int = 0
    beat: Heartbeat | None = None  # the newest from inside a generation

    def is_busy_in(self, generation: int) -> bool:
        """Tell whether it is in that generation now."""
        return self.phase is Phase.BUSY and self.generation == generation


@dataclass(slots=True, kw_only=True)
class Worker:
    """One pod; its processes come and go with their connections."""

    name: str
    index: int
    attempt: int
    num_processes: int
    processes: dict[int, Process] = field(default_factory=dict)  # by local rank
    warned: bool = False
    leave_by: float | None = None  # told to stop or leaving: gone by then
    was_complete: bool = False
    left: bool = False
    gone_at: float | None = None  # when the last of its processes went
    generation: int = 0  # the last one it was a member of
    step: int = 0

    @property
    def is_complete(self) -> bool:
        """All its processes are connected."""
        return len(self.processes) == self.num_processes

    @property
    def is_eligible(self) -> bool:
        """It may be counted on: all there, all ready, and staying."""
        return (
            self.is_complete
            and self.leave_by is None
            and all(process.phase is not Phase.NEW for process in self.processes.values())
        )

    @property
    def is_idle(self) -> bool:
        """All its processes are there and hold still."""
        return self.is_complete and all(
            process.phase is Phase.IDLE for process in self.processes.values()
        )

    @property
    def first(self) -> Process | None:
        """The process that holds the worker's duty."""
        return self.processes.get(0)

    @property
    def state_step(self) -> int:
        """Steps applied to the state that all its processes hold; -1 = they hold none."""
        if not self.is_complete:
            return -1
        return min(p.step if p.holds_state else -1 for p in self.processes.values())


@dataclass(slots=True, kw_only=True)
class Generation:
    """Workers that were told to train together."""

    number: int
    members: tuple[Member, ...]
    step: int  # steps applied when it was formed
    top: int = 0  # the furthest step heard of before: its own members may step before it stands
    form: Form | None = None  # None: taken over from a former coordinator
    cause: str = ""
    cause_worker: str = ""
    stopped_at: float = 0.0  # when the last step before it was applied
    noticed_at: float = 0.0  # when it was known that a change is due
    ordered_at: float = 0.0
    formed_at: float | None = None
    stepping_at: float | None = None
    ending: Ending | None = None
    broken: str = ""  # why it must end now
    cause_of_end: str = ""  # the worker on whose account it ends

    @property
    def names(self) -> tuple[str, ...]:
        """Its workers, in rank order."""
        return tuple(member.worker for member in self.members)


@dataclass(slots=True, kw_only=True)
class Adoption:
    """A generation of a former coordinator that may still be whole."""

    number: int
    names: tuple[str, ...]
    until: float


@dataclass(slots=True, kw_only=True)
class Lease:
    """Checkpoint duty: who may save, surely nobody else before `expires`."""

    holder: str = ""
    expires: float = 0.0  # by then every grant to the holder has run out
    told_link: int = -1  # where the holder was told that it is over ...
    told_beat: int = 0  # ... and with which beat of that connection


@dataclass(slots=True, kw_only=True)
class Checkpoints:
    """What is known of saved state."""

    step: int = -1
    time: float = 0.0  # epoch seconds
    bytes: int = 0
    seconds: float = 0.0  # that the save took
    error: str = ""
    wanted: bool = False  # the operator asked for one and the holder does not know yet
    is_proved: bool = False  # a member loaded one: what seemed newer then could not be read


@dataclass(slots=True, kw_only=True)
class Progress:
    """Steps heard of."""

    top: int = 0
    stepped_at: float | None = None  # when the last step anybody told of was applied
    loss: float | None = None
    samples: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=40))


@dataclass(slots=True, kw_only=True)
class Resumption:
    """The newest start from a checkpoint."""

    generation: int = 0
    step: int = 0
    steps_redone: int = 0


@dataclass(slots=True, kw_only=True)
class Trouble:
    """Why training stands still, kept until it goes on."""

    cause: str
    worker: str
    since: float


@dataclass(slots=True, kw_only=True)
class ParameterServer:
    """One connected parameter server."""

    link: int
    said: RegisterServer
    heard_at: float
    since: float  # when it first connected
    is_released: bool = False


@dataclass(slots=True, kw_only=True)
class State:
    """All of it. Owned by one `Ledger`."""

    attempt: int
    work: WorkSpec
    started_at: float
    epoch: float  # epoch seconds minus our clock
    last_number: int  # the largest generation number given out or heard of
    hold_until: float  # form nothing before: members of a former coordinator may come back
    workers: dict[str, Worker] = field(default_factory=dict)
    links: dict[int, tuple[str, int]] = field(default_factory=dict)
    warnings: dict[str, None] = field(default_factory=dict)  # names, also of those not here yet
    stops: dict[str, float] = field(default_factory=dict)  # name -> gone by
    expelled: dict[str, None] = field(default_factory=dict)
    current: Generation | None = None  # forming, training or ending
    formed: Generation | None = None  # the newest one that stood
    adoption: Adoption | None = None
    lease: Lease = field(default_factory=Lease)
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    progress: Progress = field(default_factory=Progress)
    resumption: Resumption = field(default_factory=Resumption)
    trouble: Trouble | None = None
    recoveries: deque[Recovery] = field(default_factory=lambda: deque(maxlen=MAX_RECOVERIES))
    paces: dict[str, float] = field(default_factory=dict)  # samples/s of one rank, by kind of GPU
    rebalanced: int = 0  # how often a generation was formed anew for its shares alone
    failed_forms: int = 0  # in a row
    gathering_since: float | None = None  # enough are here for the first generation, not yet all
    form_after: float = 0.0
    finished: bool = False
    servers: dict[str, ParameterServer] = field(default_factory=dict)  # by name
    server_map: ServerMap | None = None
    last_map: int = 0  # the largest number given out or heard of

    @property
    def has_steps(self) -> bool:
        """Whether members count steps: a script that runs on its own terms only starts and ends."""
        return self.work.steps > 0

    @property
    def adoption_window(self) -> float:
        """How long the members of a former coordinator may take to come back."""
        return SILENT_BEATS * self.work.heartbeat + ADOPTION_SECONDS

    def processes(self) -> Iterator[Process]:
        """Every connected process."""
        for worker in self.workers.values():
            yield from worker.processes.values()

    def connected(self) -> Iterator["Process | ParameterServer"]:
        """Everybody with a connection."""
        yield from self.processes()
        yield from self.servers.values()

    def eligible(self) -> list[Worker]:
        """Workers that may be counted on."""
        return [worker for worker in self.workers.values() if worker.is_eligible]

    def busy_in(self, generation: int) -> list[Process]:
        """Connected processes that are in this generation now."""
        return [p for p in self.processes() if p.is_busy_in(generation)]

    def find(self, link: int) -> tuple[Worker, Process] | None:
        """Whose connection this is."""
        key = self.links.get(link)
        if key is None:
            return None
        worker = self.workers[key[0]]
        return worker, worker.processes[key[1]]

    def checkpoint_step(self) -> int:
        """The newest checkpoint anybody knows of; -1 = none."""
        seen = [p.checkpoint_step for p in self.processes()]
        return max([self.checkpoints.step, *seen])
