"""
Members without processes: a ledger, worker processes as plain objects, and a clock that is turned.

Messages wait in queues until they are delivered, so every order of events can be tried. What the
processes do with a message is what `Membership` and the training loop do.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ebbtide.coordinator.ledger import Ledger
from ebbtide.coordinator.outbox import Outbox
from ebbtide.wire.messages import (
    Beat,
    Broken,
    Call,
    CheckpointCommitted,
    CheckpointFailed,
    Dismissed,
    Expelled,
    Form,
    Formed,
    FromWorker,
    Heartbeat,
    Idle,
    Leaving,
    Left,
    Message,
    Reached,
    Reform,
    Register,
    Released,
    SaveNow,
    Stop,
    WorkSpec,
)

Watch = Callable[[Form], None]


@dataclass(slots=True, kw_only=True)
class Proc:
    """One rank-to-be."""

    worker: str
    index: int
    attempt: int
    local_rank: int
    processes: int
    link: int = 0  # 0: not connected
    phase: str = "new"
    generation: int = 0
    newest: int = 0
    members: tuple[str, ...] = ()
    step: int = 0
    holds_state: bool = False
    checkpoint_step: int = -1
    is_formed: bool = False
    strayed: int = 0  # the generation in which its connection was cut last
    pending: bool = False  # told to end softly
    is_leaving: bool = False
    told_leaving: bool = False  # the coordinator knows
    is_gone: bool = False
    exit: str = ""
    lease_until: float = 0.0
    beats: int = 0
    asked: deque[float] = field(default_factory=deque)
    inbox: deque[Message] = field(default_factory=deque)
    outbox: deque[FromWorker] = field(default_factory=deque)
    forms: list[Form] = field(default_factory=list)
    saves_asked: int = 0

    def register(self) -> Register:
        """Describe it to a coordinator that may know nothing of it."""
        is_busy = self.phase == "busy"
        return Register(
            worker=self.worker,
            index=self.index,
            attempt=self.attempt,
            local_rank=self.local_rank,
            processes=self.processes,
            address=f"10.0.0.{self.index}",
            store_port=1000 + self.local_rank,
            generation=self.generation if is_busy else 0,
            members=self.members if is_busy else (),
            step=self.step,
            holds_state=self.holds_state,
            checkpoint_step=self.checkpoint_step,
        )

    def idle(self) -> Idle:
        """Say that it holds still."""
        return Idle(
            generation=self.generation,
            step=self.step,
            holds_state=self.holds_state,
            checkpoint_step=self.checkpoint_step,
        )


class Members:
    """The ledger and everybody who talks to it."""

    def __init__(self, work: WorkSpec) -> None:
        self.now = 1000.0
        self.work = work
        self.attempt = 0
        self.procs: list[Proc] = []
        self.forms: list[Form] = []  # each once, in the order they were sent
        self.disk = -1  # the newest checkpoint that is visible
        self.spoiled = -1  # one that looks whole and cannot be read
        self.on_form: Watch | None = None  # before anybody hears of it
        self._links = 0
        self.ledger = self._begin()

    def _begin(self) -> Ledger:
        self.attempt += 1
        return Ledger(attempt=self.attempt, work=self.work, now=self.now, epoch=0.0)

    # ------------------------------------------------------------ events

    def join(self, index: int, *, attempt: int = 1, processes: int = 1) -> list[Proc]:
        """Start a worker, connect its processes, and have them say that they are ready."""
        procs = [
            Proc(
                worker=f"w-{index}-{attempt}",
                index=index,
                attempt=attempt,
                local_rank=rank,
                processes=processes,
                checkpoint_step=max(self.disk, self.spoiled) if rank == 0 else -1,
            )
            for rank in range(processes)
        ]
        self.procs += procs
        for proc in procs:
            self.connect(proc)
            proc.phase = "idle"
            proc.outbox.append(proc.idle())
        return procs

    def connect(self, proc: Proc) -> None:
        """(Re)connect one process; a connection it still had is replaced."""
        self._links += 1
        proc.link = self._links
        proc.beats = 0
        proc.asked.clear()
        proc.inbox.clear()
        proc.outbox.clear()
        self.apply(self.ledger.register(proc.link, proc.register(), now=self.now))
        if proc.link == 0:
            return
        match proc.phase:
            case "idle":
                proc.outbox.append(proc.idle())
            case "reached":
                proc.outbox.append(Reached(step=proc.step))
            case "busy" if proc.is_formed:
                proc.outbox.append(Formed(generation=proc.generation, step=proc.step))
        if proc.is_leaving:
            proc.outbox.append(Leaving(seconds_left=10.0))

    def cut(self, proc: Proc) -> None:
        """Lose the connection of one process; the process lives on."""
        link, proc.link = proc.link, 0
        if link:
            proc.strayed = proc.generation
            self.apply(self.ledger.lose(link, now=self.now))

    def kill(self, worker: str) -> None:
        """End all processes of a worker without a word."""
        for proc in self.of(worker):
            proc.is_gone = True
            self.cut(proc)

    def restart(self) -> None:
        """Let the next attempt of the coordinator begin, knowing nothing."""
        for proc in self.procs:
            proc.link = 0
            proc.strayed = proc.generation
        self.ledger = self._begin()

    def leave(self, worker: str) -> None:
        """Let SIGTERM reach a worker."""
        for proc in self.of(worker):
            proc.is_leaving = True
            proc.outbox.append(Leaving(seconds_left=10.0))

    def call(self, name: str, **fields: Any) -> str:
        """Ask as the operator does; the text says why not."""
        error, out = self.ledger.call(Call(id=1, name=name, **fields), now=self.now)
        self.apply(out)
        return error

    def configure(self, work: WorkSpec) -> str:
        """Change the working fields."""
        self.work = work
        return self.call("configure", work=work)

    def pass_time(self, seconds: float) -> None:
        """Turn the clock and let the ledger look at it."""
        self.now += seconds
        self.apply(self.ledger.tick(now=self.now))

    def beat(self, proc: Proc) -> None:
        """Queue a heartbeat."""
        proc.asked.append(self.now)
        is_busy = proc.phase == "busy"
        proc.outbox.append(
            Heartbeat(
                generation=proc.generation if is_busy else 0, step=proc.step, beats=proc.beats
            )
        )

    def step(self) -> None:
        """Apply one step in every generation whose members all stand and are alive."""
        for number in {p.generation for p in self.alive() if p.phase == "busy" and p.is_formed}:
            ranks = [p for p in self.procs if p.phase == "busy" and p.generation == number]
            if any(p.is_gone for p in ranks) or not self._is_whole(ranks):
                continue
            ends = any(p.pending or p.is_leaving for p in ranks)
            for proc in ranks:
                proc.step += 1
                if proc.step >= self.work.steps:
                    proc.phase = "reached"
                    proc.outbox.append(Reached(step=proc.step))
                elif ends:
                    self._hold_still(proc)

    def save(self) -> None:
        """Let whoever holds duty save what it holds."""
        for proc in self.alive():
            if self.has_duty(proc) and proc.holds_state and proc.local_rank == 0:
                self.disk = max(self.disk, proc.step)
                proc.checkpoint_step = proc.step
                proc.outbox.append(CheckpointCommitted(step=proc.step, seconds=0.1, bytes=1))

    def fail_save(self, proc: Proc, *, error: str) -> None:
        """Let one process say that a save did not come through."""
        proc.outbox.append(CheckpointFailed(step=proc.step, error=error))
        self.deliver()

    # ------------------------------------------------------------ delivery

    def say(self, proc: Proc) -> None:
        """Deliver the oldest message a process sent."""
        if proc.outbox and proc.link:
            message = proc.outbox.popleft()
            proc.told_leaving |= isinstance(message, Leaving)
            self.apply(self.ledger.hear(proc.link, message, now=self.now))

    def tell(self, proc: Proc) -> None:
        """Deliver the oldest message that was sent to a process."""
        if proc.inbox and proc.link:
            self._hear(proc, proc.inbox.popleft())

    def tell_all(self, proc: Proc) -> None:
        """Deliver everything that was sent to a process."""
        while proc.inbox and proc.link:
            self.tell(proc)

    def say_all(self) -> None:
        """Deliver everything that processes sent, and nothing that was sent to them."""
        for proc in self.alive():
            while proc.outbox and proc.link:
                self.say(proc)

    def deliver(self) -> None:
        """Deliver until all queues are empty."""
        while any(p.link and (p.inbox or p.outbox) for p in self.alive()):
            for proc in self.alive():
                self.say(proc)
                self.tell(proc)

    def run(self, seconds: float = 1.0) -> None:
        """Let time pass with everybody well: reconnects, heartbeats, steps and saves."""
        for _ in range(max(1, round(seconds / 0.25))):
            for proc in self.alive():
                if not proc.link:
                    self.connect(proc)
                self.beat(proc)
            self.deliver()
            self.step()
            self.save()
            self.deliver()
            self.pass_time(0.25)

    def apply(self, out: Outbox) -> None:
        """Carry out what the ledger answered."""
        by_link = {p.link: p for p in self.procs if p.link}
        for send in out.sends:
            if isinstance(send.message, Form) and send.message not in self.forms:
                self.forms.append(send.message)
                if self.on_form is not None:
                    self.on_form(send.message)
            if proc := by_link.get(send.link):
                proc.inbox.append(send.message)
        for link in out.closes:
            if proc := by_link.get(link):
                while proc.inbox:  # what was sent before the close still arrives
                    self._hear(proc, proc.inbox.popleft())
                proc.link = 0
                proc.strayed = proc.generation
                self.apply(self.ledger.lose(link, now=self.now))

    # ------------------------------------------------------------ looking

    def alive(self) -> list[Proc]:
        """Processes that still run."""
        return [proc for proc in self.procs if not proc.is_gone]

    def of(self, worker: str) -> list[Proc]:
        """The processes of a worker that still run."""
        return [proc for proc in self.alive() if proc.worker == worker]

    def has_duty(self, proc: Proc) -> bool:
        """Tell whether this process may save now."""
        return self.now < proc.lease_until

    def holders(self) -> list[str]:
        """Workers that may save now, also those nobody talks to any more."""
        return sorted({p.worker for p in self.procs if self.has_duty(p)})

    def members(self) -> tuple[str, ...]:
        """The members of the newest form."""
        return tuple(member.worker for member in self.forms[-1].members) if self.forms else ()

    # ------------------------------------------------------------ a process's side

    def _is_whole(self, ranks: list[Proc]) -> bool:
        first = ranks[0]
        num_ranks = sum(
            1 for p in self.procs if p.worker in first.members and p.generation == first.generation
        )
        return len(ranks) == num_ranks and all(p.is_formed for p in ranks)

    def _hold_still(self, proc: Proc) -> None:
        proc.phase = "idle"
        proc.is_formed = proc.pending = False
        proc.members = ()
        proc.outbox.append(proc.idle())

    def _hear(self, proc: Proc, message: Message) -> None:
        match message:
            case Form():
                self._hear_form(proc, message)
            case Reform() if proc.phase == "busy" and proc.generation == message.generation:
                if message.hard:
                    self._hold_still(proc)
                else:
                    proc.pending = True
            case Beat():
                proc.beats += 1
                asked = proc.asked.popleft()
                proc.lease_until = asked + message.valid_seconds if message.duty else 0.0
            case Stop():
                proc.is_leaving = True
            case SaveNow():
                proc.saves_asked += 1
            case Dismissed() | Expelled() | Released():
                self._go(proc, message)
            case _:
                pass

    def _hear_form(self, proc: Proc, form: Form) -> None:
        if form.generation <= proc.newest or proc.phase == "busy":
            raise AssertionError(f"{proc.worker} got generation {form.generation} out of order")
        proc.newest = proc.generation = form.generation
        proc.phase = "busy"
        proc.members = tuple(member.worker for member in form.members)
        proc.pending = False
        proc.forms.append(form)
        is_loaded = form.source == "checkpoint"
        proc.step = min(form.step, self.disk) if is_loaded else form.step
        proc.holds_state = proc.is_formed = True
        proc.outbox.append(Formed(generation=form.generation, step=proc.step))

    def _go(self, proc: Proc, message: Dismissed | Expelled | Released) -> None:
        saved = -1
        if isinstance(message, Dismissed):
            proc.exit = "left"
            if message.save and self.has_duty(proc):
                self.disk = saved = max(self.disk, proc.step)
            proc.lease_until = 0.0
            left = Left(step=proc.step, saved_step=saved)
            if proc.link:
                self.apply(self.ledger.hear(proc.link, left, now=self.now))
        else:
            proc.exit = "released" if isinstance(message, Released) else "expelled"
        if isinstance(message, Expelled):
            proc.lease_until = 0.0
        proc.is_gone = True
        self.cut(proc)


def break_collective(members: Members, proc: Proc) -> None:
    """Let one process find its collective broken."""
    proc.outbox.append(Broken(generation=proc.generation, error="reset by peer"))
    proc.phase = "idle"
    proc.is_formed = proc.pending = False
    proc.members = ()
    proc.outbox.append(proc.idle())
    members.say(proc)


def make_members(**changes: Any) -> Members:
    """A job that does not end by itself; any field of its WorkSpec may be changed."""
    fields: dict[str, Any] = {
        "job": "default/fake",
        "steps": 1_000_000,
        "global_batch_size": 64,
        "min_replicas": 1,
        "desired": 2,
    }
    return Members(WorkSpec(**fields | changes))


def start(members: Members, *indices: int, processes: int = 1) -> list[Proc]:
    """Let these workers join and train a little."""
    procs = [members.join(index, processes=processes)[0] for index in indices]
    members.run(1.0)
    return procs
