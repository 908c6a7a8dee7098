"""
How generations begin and end.

`settle` looks at the whole state and does what is due, so it does not matter which event brought
the state about, and a second call does nothing.
"""

from collections.abc import Sequence
from typing import Final

from ebbtide.coordinator import shares
from ebbtide.coordinator.choice import (
    Source,
    choose_members,
    choose_source,
    in_rank_order,
    needs_sync,
    seat,
)
from ebbtide.coordinator.outbox import Outbox
from ebbtide.coordinator.state import (
    Adoption,
    Ending,
    Generation,
    Phase,
    Process,
    State,
    Trouble,
    Worker,
)
from ebbtide.wire.messages import Form, Reform, Released
from ebbtide.wire.names import GENERATIONS_PER_ATTEMPT

# After a generation broke before it stood, the next try waits so long; the last one repeats.
RETRY_SECONDS: Final = (0.0, 0.0, 0.1, 0.2, 0.5, 1.0, 2.0)


def settle(state: State, *, now: float, out: Outbox) -> None:
    """Do what is due: take over, end, finish, form."""
    if state.adoption is not None:
        _settle_adoption(state, now=now, out=out)
    if state.current is not None:
        _watch(state, now=now, out=out)
    if state.current is not None and _has_ended(state, state.current, now=now):
        state.current = None
    if not state.finished and _is_done(state):
        state.finished = True
        done = "all steps are done and the final checkpoint is committed"
        out.note(done if state.has_steps else "every member's script has ended well")
    if state.finished:
        release_all(state, out=out)
    elif state.current is None and state.adoption is None:
        _form(state, now=now, out=out)


def note_trouble(state: State, *, cause: str, worker: str, now: float) -> None:
    """Remember why training stands still, unless it already does."""
    if state.trouble is None:
        state.trouble = Trouble(cause=cause, worker=worker, since=now)


def reform(process: Process, *, ending: Ending, out: Outbox, cause: str = "") -> None:
    """Tell a busy process how its generation ends, and on whose account."""
    hard = ending is Ending.HARD
    out.send(process.link, Reform(generation=process.generation, hard=hard, cause=cause))


def release_all(state: State, *, out: Outbox) -> None:
    """Let everybody go who was not told to go otherwise; once each."""
    for process in state.processes():
        if process.dismissed is None:
            process.dismissed = False
            out.send(process.link, Released())
    for server in state.servers.values():
        if not server.is_released:
            server.is_released = True
            out.send(server.link, Released())


# ---------------------------------------------------------------- a former coordinator's generation


def offer_adoption(state: State, process: Process, *, now: float, out: Outbox) -> None:
    """Take note of a process that is busy in a generation we did not form."""
    number, names = process.generation, process.said.members
    state.last_number = max(state.last_number, number)
    is_possible = state.current is None and state.formed is None and names
    held = state.adoption
    if not is_possible or (held is not None and number < held.number):
        reform(process, ending=Ending.HARD, out=out)
        return
    if held is not None and number == held.number:
        return
    if held is not None:
        for stray in state.busy_in(held.number):
            reform(stray, ending=Ending.HARD, out=out)
    until = max(state.hold_until, now + state.adoption_window)
    state.adoption = Adoption(number=number, names=names, until=until)


def _settle_adoption(state: State, *, now: float, out: Outbox) -> None:
    held = state.adoption
    if held is None:
        return
    workers = [w for n in held.names if (w := state.workers.get(n)) and w.is_complete]
    processes = [p for w in workers for p in w.processes.values()]
    is_whole = len(workers) == len(held.names) and all(p.is_busy_in(held.number) for p in processes)
    has_settled = any(not p.is_busy_in(held.number) for p in processes)
    if not is_whole and not has_settled and now < held.until:
        return
    state.adoption = None
    generation = Generation(
        number=held.number,
        members=seat([w for w in workers if w.first is not None]),
        step=max((p.step for p in processes), default=0),
        formed_at=now if is_whole else None,
    )
    state.current = generation
    for worker in workers:
        worker.generation = held.number
    if is_whole:
        state.formed = generation
        for process in processes:
            process.formed = process.holds_state = True
        out.note(f"generation {held.number} goes on: all its members came back")
        return
    note_trouble(state, cause="lost", worker="", now=now)
    generation.broken = "not all its members came back"
    _end(state, generation, ending=Ending.HARD, why=generation.broken, out=out)


# ---------------------------------------------------------------- ending


def _watch(state: State, *, now: float, out: Outbox) -> None:
    generation = state.current
    if generation is None or generation.ending is Ending.HARD:
        return
    workers = [state.workers.get(name) for name in generation.names]
    lost = [
        name
        for name, worker in zip(generation.names, workers, strict=True)
        if worker is None or not worker.is_complete
    ]
    is_busy = bool(state.busy_in(generation.number))
    if lost and is_busy:
        note_trouble(state, cause="lost", worker=lost[0], now=now)
        generation.cause_of_end = lost[0]
        _end(state, generation, ending=Ending.HARD, why=f"{lost[0]} is lost", out=out)
    elif generation.broken:
        note_trouble(state, cause="lost", worker="", now=now)
        if generation.formed_at is None:
            state.failed_forms += 1
            state.form_after = now + retry_delay(state.failed_forms)
        _end(state, generation, ending=Ending.HARD, why=generation.broken, out=out)
    elif generation.ending is None:
        _watch_wishes(state, generation, now=now, out=out)


def _watch_wishes(state: State, generation: Generation, *, now: float, out: Outbox) -> None:
    leaving = [
        name
        for name in generation.names
        if (worker := state.workers.get(name)) and worker.leave_by is not None
    ]
    if leaving:
        note_trouble(state, cause="left", worker=leaving[0], now=now)
        generation.cause_of_end = leaving[0]
        # One that is still forming has no step boundary to meet at: nothing is lost by a break.
        ending = Ending.HARD if generation.formed_at is None else Ending.SOFT
        _end(state, generation, ending=ending, why=f"{leaving[0]} leaves", out=out)
        return
    if not _may_change(state, generation, now=now):
        return
    present = set(generation.names)
    target = {worker.name for worker in _choose(state, present=present, only_idle=False)}
    joining, surplus = sorted(target - present), sorted(present - target)
    if joining and len(target) >= len(present):
        note_trouble(state, cause="joined", worker=joining[0], now=now)
        generation.cause_of_end = joining[0]
        _end(state, generation, ending=Ending.SOFT, why=f"{joining[0]} joins", out=out)
    elif surplus and len(target) >= state.work.min_replicas:
        note_trouble(state, cause="left", worker=surplus[0], now=now)
        generation.cause_of_end = surplus[0]
        _end(state, generation, ending=Ending.SOFT, why=f"{surplus[0]} is not needed", out=out)
    elif target == present and shares.are_uneven(state, generation):
        note_trouble(state, cause="rebalanced", worker="", now=now)
        state.rebalanced += 1
        _end(state, generation, ending=Ending.SOFT, why="its shares do not fit the speeds", out=out)


def _may_change(state: State, generation: Generation, *, now: float) -> bool:
    """Tell whether it may be changed at will: not before it has got somewhere."""
    if state.has_steps:
        return generation.stepping_at is not None
    stood = generation.formed_at
    return stood is not None and now >= stood + state.work.regroup


def _end(state: State, generation: Generation, *, ending: Ending, why: str, out: Outbox) -> None:
    generation.ending = ending
    out.note(f"generation {generation.number} ends ({ending.value}): {why}")
    for process in state.busy_in(generation.number):
        reform(process, ending=ending, cause=generation.cause_of_end, out=out)


def _has_ended(state: State, generation: Generation, *, now: float) -> bool:
    """Tell whether no member that can be counted on is still in it."""
    for name in generation.names:
        worker = state.workers.get(name)
        if worker is None or not worker.is_complete:
            continue
        if worker.leave_by is not None and now >= worker.leave_by:
            continue
        if any(p.is_busy_in(generation.number) and not p.left for p in worker.processes.values()):
            return False
    return True


def _is_done(state: State) -> bool:
    if state.current is not None or state.adoption is not None:
        return False
    if state.has_steps:
        return state.checkpoint_step() >= state.work.steps
    return state.formed is not None and _have_all_reached(state, state.formed)


def _have_all_reached(state: State, generation: Generation) -> bool:
    """Tell whether every member came to the end of this very generation, and is still here."""
    members = [state.workers.get(name) for name in generation.names]
    return all(
        worker is not None
        and worker.is_complete
        and all(p.reached and p.generation == generation.number for p in worker.processes.values())
        for worker in members
    )


# ---------------------------------------------------------------- forming


def _form(state: State, *, now: float, out: Outbox) -> None:
    if now < max(state.hold_until, state.form_after) or _must_wait_for_state(state, now=now):
        return
    if state.work.servers and state.server_map is None:
        return
    present = state.formed.names if state.formed else ()
    chosen = _choose(state, present=set(present), only_idle=True)
    if len(chosen) < max(1, state.work.min_replicas) or _must_gather(state, chosen, now=now):
        return
    ranks = in_rank_order(chosen)
    source = choose_source(
        ranks, committed=state.checkpoints.step, on_servers=state.work.servers > 0
    )
    if source.step < 1 and any(p.checkpoint_error for p in state.processes()):
        return
    _start(state, chosen=chosen, source=source, now=now, out=out)


def _must_gather(state: State, chosen: Sequence[Worker], *, now: float) -> bool:
    """Tell whether the first generation waits for more: joining later restarts every script."""
    if state.has_steps or state.formed is not None or len(chosen) >= state.work.desired:
        return False
    if state.gathering_since is None:
        state.gathering_since = now
    return now < state.gathering_since + state.work.regroup


def _start(
    state: State, *, chosen: Sequence[Worker], source: Source, now: float, out: Outbox
) -> None:
    ranks = in_rank_order(chosen)
    floor = state.attempt * GENERATIONS_PER_ATTEMPT
    number = max(floor, state.last_number) + 1
    state.last_number = number
    form = Form(
        generation=number,
        members=shares.give(state, seat(chosen)),
        world_size=len(ranks),
        source_rank=source.rank,
        source=source.kind,
        step=source.step,
        sync=needs_sync(ranks, source),
    )
    cause = "resumed" if source.kind == "checkpoint" else "started"
    trouble = state.trouble or Trouble(cause=cause, worker="", since=state.started_at)
    last_step = state.progress.stepped_at
    state.current = Generation(
        number=number,
        members=form.members,
        step=source.step,
        top=state.progress.top,
        form=form,
        cause=trouble.cause,
        cause_worker=trouble.worker,
        stopped_at=trouble.since if last_step is None else min(last_step, now),
        noticed_at=trouble.since,
        ordered_at=now,
    )
    for process in ranks:
        process.phase = Phase.BUSY
        process.generation = number
        process.formed = process.reached = False
        out.send(process.link, form)
    for worker in chosen:
        worker.generation = number
    names = ", ".join(worker.name for worker in chosen)
    out.note(f"generation {number} forms at step {source.step} from {source.kind}: {names}")


def _choose(state: State, *, present: set[str], only_idle: bool) -> list[Worker]:
    workers = [
        worker
        for worker in state.eligible()
        if worker.is_idle or (not only_idle and worker.name in present)
    ]
    return choose_members(workers, present=present, desired=state.work.desired)


def _must_wait_for_state(state: State, *, now: float) -> bool:
    """
    Tell whether state that is newer than what could be trained on is about to be saved.

    That is so when a leaver alone holds it and has time left, or when the last step is done
    and only the final checkpoint is missing.
    """
    if not state.has_steps:
        return False  # the state is the scripts' own affair
    eligible = state.eligible()
    if any(p.reached for worker in eligible for p in worker.processes.values()):
        return True
    at_hand = max((worker.state_step for worker in eligible), default=-1)
    at_hand = max(at_hand, state.checkpoint_step())
    return any(
        worker.state_step > at_hand
        for worker in state.workers.values()
        if worker.leave_by is not None and now < worker.leave_by and may_save(worker)
    )


def may_save(worker: Worker) -> bool:
    """Tell whether a leaver is still there to save."""
    first = worker.first
    return first is not None and not first.left and first.dismissed is not False


def retry_delay(failed_forms: int) -> float:
    """Return how long to wait after so many generations in a row that never stood."""
    return RETRY_SECONDS[min(failed_forms, len(RETRY_SECONDS) - 1)]
