"""
This process's place in the job: what the coordinator says, kept where the training loop can ask.

`Membership` owns the side thread that talks to the coordinator. Every method may be called from any
thread; none of them waits on the network save `start`, `wait_for_form` and `left`, which are told
how long they may.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from ebbtide.runtime import canary
from ebbtide.runtime.link import Connect, Link, connect_from
from ebbtide.runtime.reporting import Waiting
from ebbtide.runtime.standing import Identity, Leave, MustLeave, Phase, Standing, Timings
from ebbtide.wire.messages import (
    MAX_TEXT,
    Beat,
    Broken,
    Canary,
    CheckpointCommitted,
    CheckpointFailed,
    Configure,
    Dismissed,
    Expelled,
    Form,
    Formed,
    Heartbeat,
    Idle,
    Leaving,
    Left,
    Message,
    Reached,
    Reform,
    Released,
    SaveNow,
    ServerMap,
    Stop,
    ToWorker,
    Welcome,
    WorkSpec,
)

__all__ = ["Identity", "Leave", "Membership", "MustLeave", "Timings"]

GRACE: Final = 600.0
AWAY_NOTICE: Final = 5.0  # seconds to go once the coordinator stayed away for the whole grace
ASK_SHARE: Final = 0.5  # of a leaver's time, spent at most on hearing whether it must save ...
ASK_SHARE_AWAY: Final = 0.1  # ... and while there is no coordinator to ask
POLL_SECONDS: Final = 0.1  # how often a wait looks at the clock

log = logging.getLogger("ebbtide.runtime")


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
        connect: Connect | None = None,
    ) -> None:
        """
        Prepare only: `start` connects to `coordinator`, host:port, looked up at every try.

        `on_break(generation)` is called from the side thread, and must be quick. Where the state is
        on parameter servers, a change of members needs nobody to hold still: the side thread then
        answers for the loop, which asks `is_member` at each step boundary.
        """
        self._identity = identity
        self._token = token
        self._coordinator = coordinator
        self._on_break = on_break
        self._grace = grace
        self._now = Standing(away_since=time.monotonic())
        self._changed = threading.Condition()
        self._link = Link(
            coordinator=coordinator,
            token=token,
            ear=self,
            connect=connect or connect_from(identity.address),
        )

    def start(self) -> WorkSpec:
        """Connect and wait for Welcome; `MustLeave` when told to go or after `grace` seconds."""
        self._link.start()
        waiting = Waiting()
        with self._changed:
            while True:
                if self._now.leave is not None:
                    raise MustLeave(self._now.leave)
                if self._now.work is not None:
                    return self._now.work
                self._changed.wait(POLL_SECONDS)
                waiting.look(self._now.waits_for)

    def close(self) -> None:
        """End the side thread; the connection closes."""
        with self._changed:
            self._now.is_closed = True
        self._link.close()

    def look(self) -> Standing:
        """Return a copy of where this process stands now."""
        with self._changed:
            return replace(self._now)

    # ------------------------------------------------------------ what the loop asks

    @property
    def work(self) -> WorkSpec:
        """The newest working fields."""
        with self._changed:
            if self._now.work is None:
                raise RuntimeError("the working fields are known after start()")
            return self._now.work

    def reform_pending(self, generation: int) -> bool:
        """Tell whether this process wants the generation to end at the next boundary."""
        with self._changed:
            return self._now.leave is not None or self._now.reform >= generation

    def ending(self, generation: int, *, seconds: float = 0.0) -> Reform | None:
        """Return the word that ended this generation, waiting at most so long for it, or None."""
        until = time.monotonic() + seconds
        with self._changed:
            while (word := self._now.reform_word) is None or word.generation != generation:
                left = until - time.monotonic()
                if left <= 0:
                    return None
                self._changed.wait(min(left, POLL_SECONDS))
            return word

    @property
    def _is_detached(self) -> bool:
        return self._now.work is not None and self._now.work.servers > 0

    def is_member(self) -> bool:
        """Tell whether this process is in a generation now."""
        with self._changed:
            return self._now.phase is Phase.BUSY

    def servers(self) -> ServerMap | None:
        """Return the newest map of parameter servers."""
        with self._changed:
            return self._now.servers

    def leave_requested(self) -> Leave | None:
        """Return why and until when this process must leave, or None."""
        with self._changed:
            return self._now.leave

    def duty(self) -> bool:
        """Tell whether this process holds checkpoint duty and the lease is valid right now."""
        with self._changed:
            return time.monotonic() < self._now.lease_until

    def save_requested(self) -> bool:
        """Tell whether the operator asked for a checkpoint; true once per request."""
        with self._changed:
            wanted, self._now.save_wanted = self._now.save_wanted, False
            return wanted

    def wait_for_form(self, timeout: float | None = None) -> Form | Released | Leave | None:
        """
        Wait, after `idle` or `reached`, for what comes next; None when `timeout` passed.

        A leaver comes here like all others: `Leave` is returned as soon as the coordinator said
        whether its state must be saved first (`Leave.save`), or when there is no time to ask.
        """
        until = math.inf if timeout is None else time.monotonic() + timeout
        with self._changed:
            while True:
                found = self._take()
                if found is not None:
                    return found
                left = until - time.monotonic()
                if left <= 0:
                    return None
                self._changed.wait(min(left, POLL_SECONDS))

    def _take(self) -> Form | Released | Leave | None:
        now = self._now
        if isinstance(now.offer, Released):
            return now.offer
        if now.leave is not None:
            return self._take_leave(now.leave)
        offer, now.offer = now.offer, None
        return offer

    def _take_leave(self, leave: Leave) -> Leave | None:
        now = self._now
        if now.leave_at_once or now.dismissed is False:
            return leave
        if now.dismissed:
            return leave.to_save()
        if time.monotonic() < self._ask_limit(leave):
            return None
        return leave.to_save() if self._may_hold_newest() else leave

    def _ask_limit(self, leave: Leave) -> float:
        share = ASK_SHARE if self._now.away_since is None else ASK_SHARE_AWAY
        return self._now.asked_at + share * max(0.0, leave.deadline - self._now.asked_at)

    def _may_hold_newest(self) -> bool:
        return self._now.holds_state and self._identity.local_rank == 0

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
        with self._changed:
            now = self._now
            if isinstance(now.offer, Form):
                return  # it was put into a generation meanwhile; `wait_for_form` has the news
            now.phase = Phase.IDLE
            now.generation, now.step, now.holds_state = generation, step, holds_state
            now.checkpoint_step = max(checkpoint_step, now.commit.step if now.commit else -1)
            now.checkpoint_error = checkpoint_error[:MAX_TEXT]
            self._hold_still()
            self._link.send(self._idle())

    def _hold_still(self) -> None:
        self._now.is_formed = False
        self._now.broken = None
        self._now.members = ()
        self._now.asked_at = time.monotonic()
        self._changed.notify_all()

    def _idle(self) -> Idle:
        now = self._now
        return Idle(
            generation=now.generation,
            step=now.step,
            holds_state=now.holds_state,
            step_age=now.step_age(),
            checkpoint_step=now.checkpoint_step,
            checkpoint_error=now.checkpoint_error,
        )

    def formed(self, *, generation: int, step: int) -> None:
        """Say that the group of this generation stands and the state is the source's."""
        with self._changed:
            now = self._now
            now.is_formed, now.holds_state, now.step = True, True, step
            self._link.send(Formed(generation=generation, step=step))

    def broken(self, *, generation: int, error: str = "") -> None:
        """Say that a collective of this generation failed here."""
        with self._changed:
            if self._now.phase is Phase.BUSY and self._now.generation == generation:
                self._now.broken = error[:MAX_TEXT]
            self._link.send(Broken(generation=generation, error=error[:MAX_TEXT]))

    def progress(
        self, *, step: int, timings: Timings | None = None, loss: float | None = None
    ) -> None:
        """Note the applied step; the next heartbeat carries it."""
        with self._changed:
            now = self._now
            is_first = now.is_formed and not now.has_stepped
            now.has_stepped = True
            now.step, now.stepped_at = step, time.monotonic()
            now.timings = timings or now.timings
            if loss is not None and math.isfinite(loss):
                now.loss = loss
        if is_first:
            self._link.beat_now()

    def committed(self, *, step: int, seconds: float, num_bytes: int) -> None:
        """Say that a checkpoint is durable and visible."""
        with self._changed:
            commit = CheckpointCommitted(step=step, seconds=seconds, bytes=num_bytes)
            self._now.commit = commit
            self._now.checkpoint_step = max(self._now.checkpoint_step, step)
            self._link.send(commit)

    def failed(self, *, step: int, error: str) -> None:
        """Say that a save did not come through."""
        with self._changed:
            self._link.send(CheckpointFailed(step=step, error=error[:MAX_TEXT]))

    def reached(self, *, step: int) -> None:
        """Say that the last step is applied; then `wait_for_form` until Released."""
        with self._changed:
            now = self._now
            now.phase, now.step, now.holds_state = Phase.REACHED, step, True
            self._hold_still()
            self._link.send(Reached(step=step))

    def request_leave(self, *, reason: str, seconds: float) -> None:
        """Begin to leave: called by whoever caught SIGTERM, from any thread."""
        with self._changed:
            self._begin_leave(reason=reason, seconds=seconds)
            self._link.send(Leaving(seconds_left=max(0.0, seconds)))

    def left(self, *, step: int, saved_step: int = -1, flush: float = 0.5) -> None:
        """Say the last word and wait at most `flush` seconds until it is on the wire."""
        with self._changed:
            self._now.lease_until = 0.0  # the coordinator may hand duty on at once
            self._link.send(Left(step=step, saved_step=saved_step))
        self._link.flush(seconds=flush)
        self._link.close(seconds=flush)

    def _begin_leave(self, *, reason: str, seconds: float) -> None:
        """Note it; of two reasons the one with less time counts."""
        now = self._now
        deadline = time.monotonic() + max(0.0, seconds)
        if now.leave is None:
            now.asked_at = time.monotonic()
            log.info("leaving within %.1f s: %s", seconds, reason)
        if now.leave is None or deadline < now.leave.deadline:
            now.leave = Leave(reason=reason, deadline=deadline)
        self._changed.notify_all()

    # ------------------------------------------------------------ what the side thread brings

    def introduce(self) -> Sequence[Message]:
        """Return what to say first on a new connection."""
        with self._changed:
            now = self._now
            said: list[Message] = [now.register(self._identity)]
            if now.phase is Phase.IDLE:
                said.append(self._idle())
            elif now.phase is Phase.REACHED:
                said.append(Reached(step=now.step))
            elif now.phase is Phase.BUSY and now.is_formed:
                said.append(Formed(generation=now.generation, step=now.step))
            if now.phase is Phase.BUSY and now.broken is not None:
                said.append(Broken(generation=now.generation, error=now.broken))
            if now.commit is not None:
                said.append(now.commit)
            if now.leave is not None:
                said.append(Leaving(seconds_left=now.leave.seconds_left))
            return said

    def beat(self, *, beats: int) -> Heartbeat:
        """Return the heartbeat to send now."""
        with self._changed:
            now = self._now
            return Heartbeat(
                generation=now.generation if now.phase is Phase.BUSY else 0,
                step=now.step,
                beats=beats,
                step_age=now.step_age(),
                step_seconds=now.timings.step_seconds,
                compute_seconds=now.timings.compute_seconds,
                communication_seconds=now.timings.communication_seconds,
                data_seconds=now.timings.data_seconds,
                idle_seconds=now.timings.idle_seconds,
                local_batch=now.timings.local_batch,
                gradient_bytes=now.timings.gradient_bytes,
                gradient_tensors=now.timings.gradient_tensors,
                peak_memory_bytes=now.timings.peak_memory_bytes,
                loss=now.loss,
            )

    def grant(self, beat: Beat, *, asked_at: float) -> None:
        """Take the answer to a heartbeat: the lease counts from when that was sent."""
        with self._changed:
            self._now.lease_until = asked_at + beat.valid_seconds if beat.duty else 0.0

    def heartbeat_seconds(self) -> float:
        """Return how often to beat."""
        with self._changed:
            return self._now.work.heartbeat if self._now.work else 0.25

    def away(self, why: str) -> None:
        """Note that there is no connection."""
        with self._changed:
            now = self._now
            if now.away_since is None:
                now.away_since = time.monotonic()
            if why != now.away_why:
                now.away_why = why
                log.warning("no coordinator: %s", why)
        self.wait()

    def wait(self) -> None:
        """Leave when the coordinator has stayed away for too long."""
        with self._changed:
            now = self._now
            grace = now.work.coordinator_grace if now.work else self._grace
            if now.away_since is None or now.leave_at_once:
                return
            if time.monotonic() - now.away_since > grace:
                now.leave_at_once = True
                reason = f"no coordinator for {grace:.0f} s: {now.away_why}"
                self._begin_leave(reason=reason, seconds=AWAY_NOTICE)

    def hear(self, message: ToWorker) -> None:
        """Take in what the coordinator says."""
        broken = 0
        with self._changed:
            match message:
                case Welcome() | Configure():
                    self._hear_work(message)
                case Form():
                    self._hear_form(message)
                case Reform():
                    broken = self._hear_reform(message)
                case Stop():
                    self._begin_leave(reason=message.reason, seconds=message.seconds)
                case Expelled():
                    broken = self._hear_expelled(message)
                case _:
                    self._hear_word(message)
            self._changed.notify_all()
        if broken:
            self._on_break(broken)
        if isinstance(message, Welcome):
            self._release_canary()

    def _release_canary(self) -> None:
        """Let this process's end be noticed at once by the coordinator that just took it in."""
        host, _, port = self._coordinator.rpartition(":")
        canary.release(
            coordinator=(host, int(port)),
            token=self._token,
            address=self._identity.address,
            hello=Canary(worker=self._identity.worker, local_rank=self._identity.local_rank),
        )

    def _hear_work(self, message: Welcome | Configure) -> None:
        self._now.work = message.work
        if isinstance(message, Welcome):
            self._now.away_since = None
            self._now.away_why = ""

    def _hear_word(self, message: ToWorker) -> None:
        match message:
            case SaveNow():
                self._now.save_wanted = True
            case Dismissed():
                self._now.dismissed = message.save
            case Released():
                self._now.offer = message
            case ServerMap():
                if self._now.servers is None or message.number > self._now.servers.number:
                    self._now.servers = message
            case _:
                log.warning("a %s was not expected", type(message).__name__)

    def _hear_form(self, form: Form) -> None:
        now = self._now
        if form.generation <= now.newest_generation:
            log.warning("generation %d is an old one: refused", form.generation)
            return
        if now.phase not in {Phase.IDLE, Phase.REACHED}:
            log.warning("generation %d came while busy: refused", form.generation)
            return
        now.newest_generation = form.generation
        now.phase, now.generation, now.offer = Phase.BUSY, form.generation, form
        now.members = tuple(member.worker for member in form.members)
        now.is_formed = now.has_stepped = False
        if self._is_detached:
            now.is_formed = now.holds_state = True
            self._link.send(Formed(generation=form.generation, step=now.step))

    def _hear_reform(self, message: Reform) -> int:
        """Note it; return the generation whose collective must be broken, 0 = none."""
        now = self._now
        if now.phase is not Phase.BUSY or message.generation != now.generation:
            return 0
        # The loop has not seen it, so it still holds still; or it never has to.
        if self._is_detached or isinstance(now.offer, Form):
            now.offer = None
            now.phase = Phase.IDLE
            self._hold_still()
            self._link.send(self._idle())
            return 0
        now.reform, now.reform_word = message.generation, message
        return message.generation if message.hard else 0

    def _hear_expelled(self, message: Expelled) -> int:
        now = self._now
        now.leave_at_once = True
        now.lease_until = 0.0
        self._begin_leave(reason=f"expelled: {message.reason}", seconds=0.0)
        return now.generation if now.phase is Phase.BUSY else 0
