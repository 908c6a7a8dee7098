"""What the operator is told, from what the coordinator knows."""

from ebbtide.coordinator.state import Generation, Phase, State, Worker
from ebbtide.wire.messages import Recovery, Report, ServerReport, WorkerReport


def build_report(state: State, *, version: int) -> Report:
    """Describe the state."""
    formed = state.formed
    return Report(
        attempt=state.attempt,
        version=version,
        generation=formed.number if formed else 0,
        members=formed.names if formed else (),
        training=is_training(state),
        step=state.progress.top,
        steps_per_second=_speed(state),
        loss=state.progress.loss,
        checkpoint_step=state.checkpoint_step(),
        checkpoint_time=state.checkpoints.time,
        checkpoint_error=_checkpoint_error(state),
        duty=state.lease.holder,
        resumed_generation=state.resumption.generation,
        resumed_step=state.resumption.step,
        steps_redone=state.resumption.steps_redone,
        finished=state.finished,
        work=state.work,
        workers=tuple(
            WorkerReport(
                worker=worker.name,
                index=worker.index,
                attempt=worker.attempt,
                state=_describe(state, worker),
                warned=worker.warned,
                generation=worker.generation,
                step=worker.step,
            )
            for worker in sorted(state.workers.values(), key=lambda w: (w.index, w.attempt, w.name))
        ),
        recoveries=tuple(state.recoveries),
        servers=_describe_servers(state),
        server_map=state.server_map.number if state.server_map else 0,
    )


def _describe_servers(state: State) -> tuple[ServerReport, ...]:
    seats = state.server_map.servers if state.server_map else ()
    names = {seat.server for seat in seats}
    said = sorted((server.said.index, server.said.attempt, name)
                  for name, server in state.servers.items())  # fmt: skip
    return tuple(
        ServerReport(server=name, index=index, attempt=attempt, in_map=name in names)
        for index, attempt, name in said
    )


def strip_progress(report: Report) -> Report:
    """Blank what may change without the version growing."""
    workers = tuple(
        WorkerReport(
            worker=w.worker,
            index=w.index,
            attempt=w.attempt,
            state=w.state,
            warned=w.warned,
            generation=w.generation,
        )
        for w in report.workers
    )
    return Report(
        attempt=report.attempt,
        version=0,
        generation=report.generation,
        members=report.members,
        training=report.training,
        checkpoint_step=report.checkpoint_step,
        checkpoint_time=report.checkpoint_time,
        checkpoint_error=report.checkpoint_error,
        duty=report.duty,
        resumed_generation=report.resumed_generation,
        resumed_step=report.resumed_step,
        steps_redone=report.steps_redone,
        finished=report.finished,
        work=report.work,
        workers=workers,
        recoveries=report.recoveries,
        servers=report.servers,
        server_map=report.server_map,
    )


def is_training(state: State) -> bool:
    """Tell whether the members of the newest formed generation train, or have finished."""
    if state.finished:
        return True
    if state.current is None:
        return any(p.reached for p in state.processes())
    return state.current.formed_at is not None and state.current.ending is None


def describe_recovery(generation: Generation, *, epoch: float) -> Recovery:
    """Tell how long training stood still before this generation."""
    stopped_at, formed, stepping = (
        generation.stopped_at,
        generation.formed_at,
        generation.stepping_at,
    )
    return Recovery(
        generation=generation.number,
        cause=generation.cause,
        worker=generation.cause_worker,
        stopped_at=stopped_at + epoch,
        # A wish to change is known while steps still go on: then nothing stood still unnoticed.
        noticed_after=max(0.0, generation.noticed_at - stopped_at),
        held_after=generation.ordered_at - stopped_at,
        formed_after=-1.0 if formed is None else formed - stopped_at,
        stepping_after=-1.0 if stepping is None else stepping - stopped_at,
    )


def _speed(state: State) -> float:
    samples = state.progress.samples
    if len(samples) < 2 or not is_training(state):  # noqa: PLR2004 -- a slope needs two points
        return 0.0
    (begin, first), (end, last) = samples[0], samples[-1]
    return (last - first) / (end - begin) if end > begin else 0.0


def _checkpoint_error(state: State) -> str:
    """Say what failed last, or why the path cannot be written."""
    if state.checkpoints.error:
        return state.checkpoints.error
    return next((p.checkpoint_error for p in state.processes() if p.checkpoint_error), "")


def _describe(state: State, worker: Worker) -> str:
    """Name the state of one worker: joining, member, spare, leaving, left or lost."""
    if not worker.is_complete:
        return _describe_absent(state, worker)
    if worker.leave_by is not None:
        return "left" if all(p.left for p in worker.processes.values()) else "leaving"
    if any(p.phase is Phase.NEW for p in worker.processes.values()):
        return "joining"
    generation = state.current or state.formed
    if generation is not None and worker.name in generation.names:
        return "member"
    return "spare"


def _describe_absent(state: State, worker: Worker) -> str:
    if worker.name in state.expelled:
        return "lost"
    if worker.left:
        return "left"
    return "lost" if worker.was_complete or worker.gone_at is not None else "joining"
