"""What each message of a worker process changes."""

from ebbtide.coordinator import duty, shares
from ebbtide.coordinator.outbox import Outbox
from ebbtide.coordinator.reporting import describe_recovery
from ebbtide.coordinator.state import Phase, Process, Progress, State, Worker
from ebbtide.wire.messages import (
    MAX_TEXT,
    Answer,
    Broken,
    CheckpointCommitted,
    CheckpointFailed,
    Formed,
    FromWorker,
    Heartbeat,
    Idle,
    Leaving,
    Left,
    Reached,
    Register,
)

SAMPLE_SECONDS = 0.5  # how often the progress is noted for the speed


def read_register(state: State, process: Process, *, said: Register, now: float) -> None:
    """Believe what a process says of itself when it comes (back)."""
    process.step = said.step
    process.holds_state = said.holds_state
    process.checkpoint_step = _believe(state, said)
    process.checkpoint_error = said.checkpoint_error[:MAX_TEXT]
    if said.generation > 0:
        process.phase = Phase.BUSY
        process.generation = said.generation
    _note_step(state.progress, step=said.step, stepped_at=None, now=now)


def _believe(state: State, said: Register | Idle) -> int:
    """
    Return the step of the newest checkpoint that counts of those a process says it sees.

    To see one is not to have read it. Once a member has loaded one, whatever is newer and readable
    is told when it is committed; what else seems newer is what that member passed over, and going
    back for it would throw away what was made since.
    """
    if not state.checkpoints.is_proved or state.work.servers:
        return said.checkpoint_step
    return min(said.checkpoint_step, state.checkpoints.step)


def hear(
    state: State, worker: Worker, process: Process, *, message: FromWorker, now: float, out: Outbox
) -> bool:
    """Take in one message; tell whether anything but progress may have changed."""
    if isinstance(message, Heartbeat):
        return _hear_heartbeat(state, worker, process, heard=message, now=now, out=out)
    if isinstance(message, CheckpointCommitted | CheckpointFailed):
        _hear_checkpoint(state, worker, heard=message, now=now, out=out)
    else:
        _hear_change(state, worker, process, message=message, now=now, out=out)
    return True


def _hear_change(
    state: State,
    worker: Worker,
    process: Process,
    *,
    message: Register | Answer | Idle | Formed | Broken | Reached | Leaving | Left,
    now: float,
    out: Outbox,
) -> None:
    match message:
        case Idle():
            _hear_idle(state, worker, process, heard=message, now=now)
        case Formed():
            _hear_formed(state, process, heard=message, now=now, out=out)
        case Broken():
            _hear_broken(state, worker, process, heard=message, out=out)
        case Reached():
            _hear_reached(state, worker, process, heard=message, now=now)
        case Leaving():
            _hear_leaving(state, worker, seconds=message.seconds_left, now=now, out=out)
        case Left():
            _hear_left(state, worker, process, heard=message, now=now)
        case Register() | Answer():
            out.note(f"{worker.name} introduces itself twice")
            out.close(process.link)


def _hear_heartbeat(
    state: State, worker: Worker, process: Process, *, heard: Heartbeat, now: float, out: Outbox
) -> bool:
    changed = duty.answer_heartbeat(state, worker, process, heard=heard, now=now, out=out)
    generation = state.current
    if generation is None or not process.is_busy_in(heard.generation):
        return changed
    if generation.number != heard.generation:
        return changed
    process.beat = heard
    if heard.step > process.step:
        shares.note(state, gpu=process.said.gpu, heard=heard)
    if heard.step > process.step:
        process.step = heard.step
        worker.step = max(worker.step, heard.step)
        _note_step(state.progress, step=heard.step, stepped_at=now - heard.step_age, now=now)
        if heard.loss is not None:
            state.progress.loss = heard.loss
    if generation.stepping_at is None and heard.step > generation.step:
        generation.stepping_at = now - max(0.0, heard.step_age)
        if state.recoveries and state.recoveries[-1].generation == generation.number:
            state.recoveries[-1] = describe_recovery(generation, epoch=state.epoch)
        changed = True
    return changed


def _note_step(progress: Progress, *, step: int, stepped_at: float | None, now: float) -> None:
    progress.top = max(progress.top, step)
    if stepped_at is None:
        return
    stepped_at = min(stepped_at, now)
    progress.stepped_at = max(stepped_at, progress.stepped_at or stepped_at)
    samples = progress.samples
    if samples and step < samples[-1][1]:
        samples.clear()  # resumed from an older step: the slope starts anew
    if not samples or stepped_at - samples[-1][0] >= SAMPLE_SECONDS:
        samples.append((stepped_at, step))


def _hear_idle(state: State, worker: Worker, process: Process, *, heard: Idle, now: float) -> None:
    if process.phase is Phase.BUSY and heard.generation != process.generation:
        return  # it speaks of a generation before the one it was put into
    process.phase = Phase.IDLE
    process.generation = heard.generation
    process.step = heard.step
    process.holds_state = heard.holds_state
    process.checkpoint_step = _believe(state, heard)
    process.checkpoint_error = heard.checkpoint_error[:MAX_TEXT]
    worker.step = max(worker.step, heard.step)
    if heard.holds_state and heard.generation > 0:
        stepped_at = now - max(0.0, heard.step_age)
        _note_step(state.progress, step=heard.step, stepped_at=stepped_at, now=now)


def _hear_formed(state: State, process: Process, *, heard: Formed, now: float, out: Outbox) -> None:
    generation = state.current
    if generation is None or heard.generation != generation.number:
        return
    if not process.is_busy_in(generation.number):
        return
    process.formed = process.holds_state = True
    process.step = heard.step
    if generation.formed_at is not None or generation.ending is not None:
        return
    members = [state.workers.get(name) for name in generation.names]
    if not all(
        worker and worker.is_complete and all(p.formed for p in worker.processes.values())
        for worker in members
    ):
        return
    generation.formed_at = now
    generation.step = heard.step
    state.formed = generation
    state.trouble = None
    state.failed_forms = 0
    _note_resumption(state, step=heard.step)
    recovery = describe_recovery(generation, epoch=state.epoch)
    state.recoveries.append(recovery)
    out.note(f"generation {generation.number} stands, {recovery.formed_after:.3f} s after the stop")


def _note_resumption(state: State, *, step: int) -> None:
    """Count what a start from a checkpoint, or from nothing, throws away; each step once."""
    generation, progress = state.current, state.progress
    if generation is None or generation.form is None or generation.form.source == "memory":
        return
    if generation.form.source == "initial" and generation.top <= step:
        return  # the very first start
    state.resumption.generation = generation.number
    state.resumption.step = step
    state.resumption.steps_redone = max(0, generation.top - step)
    progress.top = step
    progress.samples.clear()
    if generation.form.source == "initial":
        return
    # What was loaded is the newest checkpoint that is whole: damaged ones must not count again.
    state.checkpoints.step = step
    state.checkpoints.is_proved = True
    for process in state.processes():
        process.checkpoint_step = min(process.checkpoint_step, step)


def _hear_broken(
    state: State, worker: Worker, process: Process, *, heard: Broken, out: Outbox
) -> None:
    generation = state.current
    if generation is None or heard.generation != generation.number:
        return
    if process.is_busy_in(generation.number) and not generation.broken:
        generation.broken = f"a collective of {worker.name} broke"
        generation.cause_of_end = worker.name
        out.note(f"{worker.name} process {process.said.local_rank}: {heard.error[:200]}")


def _hear_reached(
    state: State, worker: Worker, process: Process, *, heard: Reached, now: float
) -> None:
    process.phase = Phase.IDLE
    process.reached = process.holds_state = True
    process.step = heard.step
    worker.step = max(worker.step, heard.step)
    _note_step(state.progress, step=heard.step, stepped_at=now, now=now)


def _hear_leaving(state: State, worker: Worker, *, seconds: float, now: float, out: Outbox) -> None:
    by = now + min(max(0.0, seconds), 86_400.0)
    if worker.leave_by is None:
        out.note(f"{worker.name} leaves within {by - now:.1f} s")
        worker.leave_by = by
    worker.leave_by = min(worker.leave_by, by)
    state.stops.setdefault(worker.name, worker.leave_by)


def _hear_left(state: State, worker: Worker, process: Process, *, heard: Left, now: float) -> None:
    process.left = True
    process.phase = Phase.IDLE
    process.step = heard.step
    if worker.leave_by is None:
        worker.leave_by = now
    if heard.saved_step >= 0:
        state.checkpoints.step = max(state.checkpoints.step, heard.saved_step)
    if process.said.local_rank == 0 and worker.name == state.lease.holder:
        duty.release(state, now=now)


def _hear_checkpoint(
    state: State,
    worker: Worker,
    *,
    heard: CheckpointCommitted | CheckpointFailed,
    now: float,
    out: Outbox,
) -> None:
    known = state.checkpoints
    if isinstance(heard, CheckpointFailed):
        known.error = heard.error[:MAX_TEXT] or "unknown"
        out.note(f"{worker.name} could not save step {heard.step}: {heard.error[:200]}")
    elif heard.step > known.step:
        known.step = heard.step
        known.time = now + state.epoch
        known.bytes, known.seconds = heard.bytes, heard.seconds
        known.error = ""
        size, seconds = heard.bytes, heard.seconds
        out.note(f"{worker.name} committed step {heard.step}: {size} bytes in {seconds:.3f} s")
