"""What the operator may ask, and what each call changes."""

from typing import Any, Final

from ebbtide.coordinator import leaving
from ebbtide.coordinator.outbox import Outbox
from ebbtide.coordinator.state import State
from ebbtide.wire.messages import (
    MAX_MEMBERS,
    MAX_NAME,
    MAX_RANKS,
    Call,
    Configure,
    Expelled,
    SaveNow,
    Stop,
    WorkSpec,
)

MAX_ORDERS: Final = 16_384  # names kept of workers that were warned, stopped or expelled
MAX_STOP_SECONDS: Final = 86_400.0


def call(state: State, asked: Call, *, now: float, out: Outbox) -> str:
    """Carry out one call; say why not, empty = done."""
    error = ""
    match asked.name:
        case "status":
            pass
        case "configure":
            error = _configure(state, asked.work, out=out)
        case "checkpoint":
            _ask_to_save(state, now=now, out=out)
        case "finish":
            error = "" if state.finished else "the work is not done"
        case "stop" | "warn" | "expel":
            error = _order(state, asked, now=now, out=out)
        case _:
            error = f"there is no call {asked.name[:MAX_NAME]!r}"
    return error


def _order(state: State, asked: Call, *, now: float, out: Outbox) -> str:
    name = asked.worker
    if not name or len(name) > MAX_NAME:
        return f"{asked.name} needs the name of a worker"
    for orders in (state.warnings, state.stops, state.expelled):
        _forget_oldest(orders)
    if asked.name == "stop":
        by = now + min(max(0.0, asked.seconds), MAX_STOP_SECONDS)
        state.stops[name] = min(by, state.stops.get(name, by))
        if worker := state.workers.get(name):
            leaving.order_stop(worker, by=by, now=now, out=out)
        if server := state.servers.get(name):
            out.send(server.link, Stop(seconds=by - now, reason=leaving.STOP_REASON))
    elif asked.name == "warn":
        _warn(state, name, on=asked.on, out=out)
    elif name not in state.expelled:
        state.expelled[name] = None
        out.note(f"{name} is expelled")
        worker = state.workers.get(name)
        links = [process.link for process in worker.processes.values()] if worker else []
        if server := state.servers.get(name):
            links.append(server.link)
        for link in links:
            out.send(link, Expelled(reason="the operator expelled this pod"))
            out.close(link)
    return ""


def _forget_oldest(orders: dict[str, Any]) -> None:
    """Make room: names that many pods ago were ordered about come back no more."""
    if len(orders) >= MAX_ORDERS:
        del orders[next(iter(orders))]


def _warn(state: State, name: str, *, on: bool, out: Outbox) -> None:
    if on == (name in state.warnings):
        return
    if on:
        state.warnings[name] = None
    else:
        del state.warnings[name]
    if worker := state.workers.get(name):
        worker.warned = on
    out.note(f"{name} is warned" if on else f"the warning of {name} passed")


def _configure(state: State, work: WorkSpec | None, *, out: Outbox) -> str:
    if work is None:
        return "configure needs the working fields"
    fault = _find_fault(work, now=state.work)
    if fault or work == state.work:
        return fault
    state.work = work
    out.note(f"configured: {work.desired} workers wanted, at least {work.min_replicas}")
    for each in state.connected():
        out.send(each.link, Configure(work=work))
    return ""


def _find_fault(work: WorkSpec, *, now: WorkSpec) -> str:
    """Say what is wrong with working fields: the value, the limit; empty = nothing."""
    largest = max(work.desired, work.min_replicas)
    ranks = largest * work.processes_per_worker
    checks = (
        (
            work.steps < 0 or work.min_replicas < 1 or work.desired < 0,
            "minReplicas must be at least 1, steps and desired at least 0",
        ),
        (
            work.steps != 0 and work.global_batch_size < 1,
            "globalBatchSize must be at least 1 where there are steps",
        ),
        (
            not 0.01 <= work.heartbeat <= 60.0,  # noqa: PLR2004 -- silence must stay short and bearable
            f"a heartbeat of {work.heartbeat} s is outside 0.01 to 60",
        ),
        (
            largest > MAX_MEMBERS,
            f"{largest} workers are wanted, this coordinator takes at most {MAX_MEMBERS}",
        ),
        (
            ranks > MAX_RANKS,
            f"a world of {ranks} ranks is wanted, this coordinator takes at most {MAX_RANKS}",
        ),
        (
            work.servers < 0 or (work.servers == 0) != (now.servers == 0),
            f"servers cannot change from {now.servers} to {work.servers}",
        ),
    )
    return next((why for is_wrong, why in checks if is_wrong), "")


def _ask_to_save(state: State, *, now: float, out: Outbox) -> None:
    worker = state.workers.get(state.lease.holder)
    if worker is not None and worker.first is not None and now < state.lease.expires:
        out.send(worker.first.link, SaveNow())
    else:
        state.checkpoints.wanted = True
