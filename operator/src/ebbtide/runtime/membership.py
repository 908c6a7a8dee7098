"""This process's place in the job: what the coordinator says, kept where the training loop can ask.

`Membership` owns the side thread that talks to the coordinator. Every method may be called from any
thread; none of them waits on the network save `start`, `wait_for_form` and `left`, which are told
how long they may.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ebbtide.wire.messages import Form, Released, WorkSpec

GRACE: Final = 600.0


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
    """How one step's time was spent, in seconds."""

    step_seconds: float = 0.0
    compute_seconds: float = 0.0
    communication_seconds: float = 0.0


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


class MustLeave(Exception):  # noqa: N818 -- an instruction, not an error
    """There will be no Welcome: the process must go."""

    def __init__(self, leave: Leave) -> None:
        super().__init__(leave.reason)
        self.leave = leave


class Membership:
    """One per rank process; owns the side thread."""

    def __init__(
        self,
        identity: Identity,
        *,
        token: bytes,
        coordinator: str,
        on_break: Callable[[int], None],
        grace: float = GRACE,
    ) -> None:
        """Prepare only. `on_break(generation)` is called from the side thread, and must be quick."""
        raise NotImplementedError

    def start(self) -> WorkSpec:
        """Connect and wait for Welcome; `MustLeave` when told to go or after `grace` seconds."""
        raise NotImplementedError

    def close(self) -> None:
        """End the side thread; the connection closes."""
        raise NotImplementedError

    # ------------------------------------------------------------ what the loop asks

    @property
    def work(self) -> WorkSpec:
        """The newest working fields."""
        raise NotImplementedError

    def reform_pending(self, generation: int) -> bool:
        """Tell whether this process wants the generation to end at the next boundary."""
        raise NotImplementedError

    def leave_requested(self) -> Leave | None:
        """Return why and until when this process must leave, or None."""
        raise NotImplementedError

    def duty(self) -> bool:
        """Tell whether this process holds checkpoint duty and the lease is valid right now."""
        raise NotImplementedError

    def save_requested(self) -> bool:
        """Tell whether the operator asked for a checkpoint; true once per request."""
        raise NotImplementedError

    def wait_for_form(self, timeout: float | None = None) -> Form | Released | Leave | None:
        """
        Wait, after `idle`, for what comes next; None when `timeout` passed.

        A leaver comes here like all others: `Leave` is returned as soon as the coordinator said
        whether its state must be saved first (`Leave.save`), or when there is no time to ask.
        """
        raise NotImplementedError

    # ------------------------------------------------------------ what the loop tells

    def idle(
        self,
        *,
        generation: int,
        step: int,
        holds_state: bool,
        checkpoint_step: int = -1,
        checkpoint_error: str = "",
    ) -> None:
        """Say that this process holds still: at the start, and after each generation."""
        raise NotImplementedError

    def formed(self, *, generation: int, step: int) -> None:
        """Say that the group of this generation stands and the state is the source's."""
        raise NotImplementedError

    def broken(self, *, generation: int, error: str = "") -> None:
        """Say that a collective of this generation failed here."""
        raise NotImplementedError

    def progress(
        self, *, step: int, timings: Timings | None = None, loss: float | None = None
    ) -> None:
        """Note the applied step; the next heartbeat carries it."""
        raise NotImplementedError

    def committed(self, *, step: int, seconds: float, num_bytes: int) -> None:
        """Say that a checkpoint is durable and visible."""
        raise NotImplementedError

    def failed(self, *, step: int, error: str) -> None:
        """Say that a save did not come through."""
        raise NotImplementedError

    def reached(self, *, step: int) -> None:
        """Say that the last step is applied; then `wait_for_form` until Released."""
        raise NotImplementedError

    def request_leave(self, *, reason: str, seconds: float) -> None:
        """Begin to leave: called by whoever caught SIGTERM, from any thread."""
        raise NotImplementedError

    def left(self, *, step: int, saved_step: int = -1, flush: float = 0.5) -> None:
        """Say the last word and wait at most `flush` seconds until it is on the wire."""
        raise NotImplementedError
