"""Where one process stands: what the coordinator told it, and what it told the coordinator."""

import enum
import time
from dataclasses import dataclass, field, replace

from ebbtide.wire.messages import (
    CheckpointCommitted,
    Form,
    Reform,
    Register,
    Released,
    ServerMap,
    WorkSpec,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a process says of itself when it registers and that never changes."""

    worker: str
    index: int
    attempt: int
    local_rank: int
    processes: int
    address: str
    store_port: int
    pool: str = ""
    node: str = ""
    gpu: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """How one step's time was spent, in seconds, and what it worked on."""

    step_seconds: float = 0.0
    compute_seconds: float = 0.0
    communication_seconds: float = 0.0
    data_seconds: float = 0.0
    idle_seconds: float = 0.0
    local_batch: int = 0
    gradient_bytes: int = 0
    gradient_tensors: int = 0
    peak_memory_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """This process must go now."""

    reason: str
    deadline: float  # on the monotonic clock: gone by then
    save: bool = False  # nobody who stays holds this state: save it first, if that fits

    @property
    def seconds_left(self) -> float:
        """How long until the deadline; never below zero."""
        return max(0.0, self.deadline - time.monotonic())

    def to_save(self) -> "Leave":
        """The same, with the order to save first."""
        return replace(self, save=True)


class MustLeave(Exception):  # noqa: N818 -- an instruction, not an error
    """There will be no Welcome: the process must go."""

    def __init__(self, leave: Leave) -> None:
        super().__init__(leave.reason)
        self.leave = leave


class Phase(enum.Enum):
    """What the training loop does."""

    NEW = "new"  # not yet ready
    IDLE = "idle"  # holds still
    BUSY = "busy"  # was put into a generation
    REACHED = "reached"  # holds still, with the last step applied


@dataclass(slots=True, kw_only=True)
class Standing:
    """All that `Membership` keeps under its lock."""

    work: WorkSpec | None = None
    phase: Phase = Phase.NEW
    generation: int = 0  # busy in it, or came from it
    members: tuple[str, ...] = ()
    step: int = 0
    stepped_at: float | None = None
    holds_state: bool = False
    checkpoint_step: int = -1
    checkpoint_error: str = ""
    is_formed: bool = False
    has_stepped: bool = False  # since it was formed
    broken: str | None = None
    timings: Timings = field(default_factory=Timings)
    loss: float | None = None
    offer: Form | Released | None = None  # not yet taken by the loop
    newest_generation: int = 0  # smaller ones are refused
    reform: int = 0  # the generation that was told to end
    reform_word: Reform | None = None  # ... and the word itself
    leave: Leave | None = None
    leave_at_once: bool = False  # nobody needs to be asked
    asked_at: float = 0.0  # when the leaver held still, or was told while it did
    dismissed: bool | None = None  # whether to save first, once that is known
    lease_until: float = 0.0
    save_wanted: bool = False
    commit: CheckpointCommitted | None = None
    away_since: float | None = None
    away_why: str = ""
    servers: ServerMap | None = None  # the newest one
    is_closed: bool = False  # nothing is heard any more

    def waits_for(self) -> str:
        """Say, in words, what a process that holds still is waiting for."""
        if self.away_since is not None:
            return f"the coordinator ({self.away_why or 'not yet connected'})"
        if self.phase is Phase.REACHED:
            return "the final checkpoint"
        least = self.work.min_replicas if self.work else 1
        return f"a generation of at least {least} workers"

    def step_age(self) -> float:
        """Seconds since the last applied step; 0 when there was none."""
        return 0.0 if self.stepped_at is None else max(0.0, time.monotonic() - self.stepped_at)

    def register(self, identity: Identity) -> Register:
        """Describe this process to a coordinator that may know nothing of it."""
        is_busy = self.phase is Phase.BUSY
        return Register(
            worker=identity.worker,
            index=identity.index,
            attempt=identity.attempt,
            local_rank=identity.local_rank,
            processes=identity.processes,
            address=identity.address,
            store_port=identity.store_port,
            pool=identity.pool,
            node=identity.node,
            gpu=identity.gpu,
            generation=self.generation if is_busy else 0,
            members=self.members if is_busy else (),
            step=self.step,
            holds_state=self.holds_state,
            checkpoint_step=self.checkpoint_step,
            checkpoint_error=self.checkpoint_error,
        )
