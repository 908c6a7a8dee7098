"""
How workers leave.

A leaver that holds still is dismissed. Where it alone holds the newest state, it gets checkpoint
duty first and is told to save; others with the same state wait until that is done, so that one of
them can step in.
"""

from ebbtide.coordinator.generations import may_save
from ebbtide.coordinator.outbox import Outbox
from ebbtide.coordinator.state import Phase, State, Worker
from ebbtide.wire.messages import Dismissed, Stop

STOP_REASON = "told to stop"


def order_stop(worker: Worker, *, by: float, now: float, out: Outbox) -> None:
    """Tell a worker to be gone by then; an earlier time given before stands."""
    if worker.leave_by is not None and worker.leave_by <= by:
        return
    worker.leave_by = by
    out.note(f"{worker.name} is told to leave within {by - now:.1f} s")
    for process in worker.processes.values():
        out.send(process.link, Stop(seconds=max(0.0, by - now), reason=STOP_REASON))


def settle(state: State, *, now: float, out: Outbox) -> None:
    """Dismiss every leaver that holds still and whose state is not needed, or is safe."""
    staying = max((worker.state_step for worker in state.eligible()), default=-1)
    safe = max(staying, state.checkpoint_step())
    for worker in state.workers.values():
        if worker.leave_by is None or not worker.processes:
            continue
        if worker.state_step <= safe or not may_save(worker):
            _dismiss(worker, save=False, out=out)
        elif not _may_others_catch_up(state, worker):
            if state.current is not None:  # they went on without it
                _dismiss(worker, save=False, out=out)
            elif worker.name == state.lease.holder and now < state.lease.expires:
                _dismiss(worker, save=True, out=out)


def _may_others_catch_up(state: State, worker: Worker) -> bool:
    """Tell whether others are still on their way to the step this leaver holds."""
    if state.adoption is not None:
        return True
    current = state.current
    return current is not None and any(
        process.generation == current.number for process in worker.processes.values()
    )


def _dismiss(worker: Worker, *, save: bool, out: Outbox) -> None:
    """Tell its processes once; the first saves, the others go when it has."""
    for rank, process in sorted(worker.processes.items()):
        if process.phase is Phase.BUSY or process.dismissed is not None:
            continue
        if save and rank != 0:
            continue
        process.dismissed = save
        out.send(process.link, Dismissed(save=save))
        if rank == 0:
            out.note(f"{worker.name} is dismissed" + (", to save first" if save else ""))
