"""
The ledger: every event comes in here, with the time; an `Outbox` comes out.

It is owned by one shell, which calls one method at a time and carries out what comes back.
"""

from ebbtide.coordinator import calls, duty, generations, hearing, leaving, servers
from ebbtide.coordinator.outbox import Outbox
from ebbtide.coordinator.reporting import build_report, strip_progress
from ebbtide.coordinator.state import LEASE_SECONDS, SILENT_BEATS, Process, State, Worker
from ebbtide.wire.messages import (
    MAX_MEMBERS,
    MAX_NAME,
    Call,
    Expelled,
    FromServer,
    FromWorker,
    Refused,
    Register,
    RegisterServer,
    Report,
    Stop,
    Welcome,
    WorkSpec,
)
from ebbtide.wire.names import GENERATIONS_PER_ATTEMPT

MAX_PROCESSES = 64  # of one worker
MAX_WORKERS = MAX_MEMBERS
KEEP_GONE_SECONDS = 600.0  # how long a worker stays in the report after it is gone
KEEP_GONE = 256


class Ledger:
    """Everything the coordinator knows, and its rules."""

    def __init__(self, *, attempt: int, work: WorkSpec, now: float, epoch: float) -> None:
        """`epoch` is epoch seconds minus the clock that `now` is read from."""
        self._state = State(
            attempt=attempt,
            work=work,
            started_at=now,
            epoch=epoch,
            last_number=attempt * GENERATIONS_PER_ATTEMPT,
            hold_until=now,
        )
        if attempt > 1:
            # A former coordinator's members may come back, and its grants may still be valid.
            self._state.hold_until = now + self._state.adoption_window
            self._state.lease.expires = now + LEASE_SECONDS
        self._ticked_at = now
        self._version = 1
        self._last_report: Report | None = None
        self._refresh()

    @property
    def state(self) -> State:
        """The state, for those who read it: metrics, and tests."""
        return self._state

    @property
    def version(self) -> int:
        """Grows with every change, progress aside."""
        return self._version

    @property
    def is_finished(self) -> bool:
        """All steps are done and the final checkpoint is committed."""
        return self._state.finished

    def report(self) -> Report:
        """Describe everything, for the operator."""
        return build_report(self._state, version=self._version)

    def register(self, link: int, said: Register, *, now: float) -> Outbox:
        """Take in a process, or refuse it."""
        out = Outbox()
        why = self._refuse(said)
        if said.worker in self._state.expelled:
            out.send(link, Expelled(reason="expelled from this job"))
            out.close(link)
        elif why:
            out.note(f"a process of {said.worker[:MAX_NAME]!r} is refused: {why}")
            out.send(link, Refused(reason=why))
            out.close(link)
        else:
            self._admit(link, said, now=now, out=out)
            self._settle(now=now, out=out)
        return out

    def register_server(self, link: int, said: RegisterServer, *, now: float) -> Outbox:
        """Take in a parameter server, or refuse it."""
        out = Outbox()
        if servers.register(self._state, link, said, now=now, out=out):
            self._settle(now=now, out=out)
        return out

    def hear_server(self, link: int, message: FromServer, *, now: float) -> Outbox:
        """Take in what a registered parameter server says."""
        out = Outbox()
        if servers.hear(self._state, link, message, now=now, out=out):
            self._settle(now=now, out=out)
        return out

    def hear(self, link: int, message: FromWorker, *, now: float) -> Outbox:
        """Take in what a registered process says."""
        out = Outbox()
        found = self._state.find(link)
        if found is None:
            return out
        worker, process = found
        process.heard_at = now
        if hearing.hear(self._state, worker, process, message=message, now=now, out=out):
            self._settle(now=now, out=out)
        return out

    def lose(self, link: int, *, now: float, why: str = "its connection ended") -> Outbox:
        """Take note that a connection is gone."""
        out = Outbox()
        self._forget(link, why=why, now=now, out=out)
        self._settle(now=now, out=out)
        return out

    def lose_process(self, name: str, local_rank: int, *, now: float) -> Outbox:
        """Take note that a process ended, whatever its connection says."""
        worker = self._state.workers.get(name)
        process = worker.processes.get(local_rank) if worker else None
        if process is None:
            return Outbox()
        out = self.lose(process.link, now=now, why="its process ended")
        out.close(process.link)
        return out

    def tick(self, *, now: float) -> Outbox:
        """Take note that time passed: drop the silent, and do what has become due."""
        out = Outbox()
        state = self._state
        limit = SILENT_BEATS * state.work.heartbeat
        pause = now - self._ticked_at
        self._ticked_at = now
        if pause > limit / 2:  # we slept ourselves: nobody is to blame for what we did not hear
            for each in state.connected():
                each.heard_at = min(now, each.heard_at + pause)
        silent = [each.link for each in state.connected() if now - each.heard_at > limit]
        for link in silent:
            self._forget(link, why=f"silent for {limit:.1f} s", now=now, out=out)
            out.close(link)
        self._drop_gone(now=now)
        self._settle(now=now, out=out)
        return out

    def call(self, asked: Call, *, now: float) -> tuple[str, Outbox]:
        """Do what the operator asks; the text says why not, empty = done."""
        out = Outbox()
        error = calls.call(self._state, asked, now=now, out=out)
        for link in out.closes:
            self._forget(link, why="expelled", now=now, out=out)
        self._settle(now=now, out=out)
        return error, out

    # ------------------------------------------------------------ inside

    def _settle(self, *, now: float, out: Outbox) -> None:
        state = self._state
        servers.settle(state, now=now, out=out)
        generations.settle(state, now=now, out=out)
        duty.settle(state, now=now, out=out)
        leaving.settle(state, now=now, out=out)
        self._refresh()

    def _refresh(self) -> None:
        report = strip_progress(build_report(self._state, version=0))
        if report != self._last_report:
            self._last_report = report
            self._version += 1

    def _refuse(self, said: Register) -> str:
        """Say what is wrong with it; empty = nothing."""
        state = self._state
        known = state.workers.get(said.worker)
        known_processes = known.num_processes if known else 0
        checks = (
            (
                not said.worker or max(len(said.worker), len(said.address)) > MAX_NAME,
                "no usable name or address",
            ),
            (
                not 0 <= said.local_rank < said.processes <= MAX_PROCESSES,
                f"local rank {said.local_rank} of {said.processes} processes is impossible",
            ),
            (
                min(said.index, said.attempt, said.generation, said.step) < 0,
                "a negative number",
            ),
            (
                said.generation >= (state.attempt + 1) * GENERATIONS_PER_ATTEMPT,
                f"generation {said.generation} is of a newer coordinator than this one",
            ),
            (
                known is None and len(state.workers) >= MAX_WORKERS,
                f"{MAX_WORKERS} workers are known already, the most of this coordinator",
            ),
            (
                known is not None
                and bool(known.processes)
                and known.num_processes != said.processes,
                f"it counts {said.processes} processes, its worker's others {known_processes}",
            ),
        )
        return next((why for is_wrong, why in checks if is_wrong), "")

    def _admit(self, link: int, said: Register, *, now: float, out: Outbox) -> None:
        state = self._state
        worker = state.workers.get(said.worker)
        if worker is None or not worker.processes:
            worker = self._enter(said, known=worker, out=out)
        former = worker.processes.get(said.local_rank)
        if former is not None:
            self._replace(worker, former, said=said, out=out)
        process = Process(link=link, said=said, heard_at=now)
        hearing.read_register(state, process, said=said, now=now)
        worker.processes[said.local_rank] = process
        worker.gone_at = None
        worker.left = False
        worker.was_complete = worker.was_complete or worker.is_complete
        state.links[link] = (worker.name, said.local_rank)
        out.send(link, Welcome(work=state.work))
        if state.server_map is not None:
            out.send(link, state.server_map)
        if worker.leave_by is not None:
            seconds = max(0.0, worker.leave_by - now)
            out.send(link, Stop(seconds=seconds, reason=leaving.STOP_REASON))
        if worker.is_complete:
            out.note(f"{worker.name} is here, all {worker.num_processes} of its processes")
        self._place(process, now=now, out=out)

    def _place(self, process: Process, *, now: float, out: Outbox) -> None:
        """See whether what the process says it is busy in is still on."""
        if process.generation == 0:
            return
        current = self._state.current
        if current is None or current.number != process.generation:
            generations.offer_adoption(self._state, process, now=now, out=out)
        elif current.ending is not None:
            generations.reform(process, ending=current.ending, cause=current.cause_of_end, out=out)

    def _enter(self, said: Register, *, known: Worker | None, out: Outbox) -> Worker:
        state = self._state
        worker = Worker(
            name=said.worker,
            index=said.index,
            attempt=said.attempt,
            num_processes=said.processes,
            warned=said.worker in state.warnings,
            leave_by=state.stops.get(said.worker),
            generation=known.generation if known else 0,
            step=known.step if known else 0,
        )
        state.workers[said.worker] = worker
        if known is None:
            place = f"pool {said.pool!r}, GPU {said.gpu or 'none'}"
            out.note(f"{said.worker} (index {said.index}, {place}) connects")
        return worker

    def _replace(self, worker: Worker, former: Process, *, said: Register, out: Outbox) -> None:
        """Let a process that connects again take the place of its old connection."""
        current = self._state.current
        del self._state.links[former.link]
        out.close(former.link)
        is_in_current = current is not None and former.is_busy_in(current.number)
        if current is not None and is_in_current and said.generation != current.number:
            current.broken = f"a process of {worker.name} was replaced"
            current.cause_of_end = worker.name

    def _forget(self, link: int, *, why: str, now: float, out: Outbox) -> None:
        found = self._state.find(link)
        if found is None:
            servers.lose(self._state, link, why=why, out=out)
            return
        worker, process = found
        del self._state.links[link]
        del worker.processes[process.said.local_rank]
        is_released = self._state.finished and process.dismissed is False
        if process.left or is_released:
            worker.left = True
            out.note(f"{worker.name} left at step {process.step}")
        else:
            out.note(f"{worker.name} process {process.said.local_rank} is lost: {why}")
        if not worker.processes:
            worker.gone_at = now
            servers.tell_gone(self._state, worker.name, out=out)

    def _drop_gone(self, *, now: float) -> None:
        gone = sorted(
            (w.gone_at, w.name) for w in self._state.workers.values() if w.gone_at is not None
        )
        excess = len(gone) - KEEP_GONE
        for place, (gone_at, name) in enumerate(gone):
            if place < excess or now - gone_at > KEEP_GONE_SECONDS:
                del self._state.workers[name]
