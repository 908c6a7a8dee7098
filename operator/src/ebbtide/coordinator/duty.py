"""
Checkpoint duty: one lease, one holder.

A grant lasts `LEASE_SECONDS`, counted by the holder from the moment it sent the heartbeat that the
grant answers, so it never outlasts what is noted here. The lease changes hands only when every
grant has run out, or when the holder has shown that it read its dismissal.
"""

from ebbtide.coordinator.outbox import Outbox
from ebbtide.coordinator.state import LEASE_SECONDS, Lease, Process, State, Worker
from ebbtide.wire.messages import Beat, Heartbeat, SaveNow


def answer_heartbeat(
    state: State, worker: Worker, process: Process, *, heard: Heartbeat, now: float, out: Outbox
) -> bool:
    """Answer one heartbeat; tell whether the lease was given up by it."""
    lease = state.lease
    is_holder = worker.name == lease.holder and process.said.local_rank == 0
    if is_holder and lease.told_link == process.link and heard.beats >= lease.told_beat:
        release(state, now=now)
        is_holder = False
    process.beats_sent += 1
    if is_holder and choose_holder(state) == worker.name:
        lease.expires = now + LEASE_SECONDS
        lease.told_link = -1
        out.send(process.link, Beat(duty=True, valid_seconds=LEASE_SECONDS))
        if state.checkpoints.wanted:
            state.checkpoints.wanted = False
            out.send(process.link, SaveNow())
        return False
    if is_holder and lease.told_link != process.link:
        lease.told_link = process.link
        lease.told_beat = process.beats_sent
    out.send(process.link, Beat(duty=False))
    return not state.lease.holder


def release(state: State, *, now: float) -> None:
    """Take the lease back: the holder cannot use it any more."""
    state.lease = Lease(expires=now)


def settle(state: State, *, now: float, out: Outbox) -> None:
    """Hand the lease to whoever should hold it, as soon as nobody else can."""
    wanted = choose_holder(state)
    lease = state.lease
    if wanted == lease.holder:
        return
    if now >= lease.expires:
        state.lease = Lease(holder=wanted, expires=lease.expires)
        if wanted:
            out.note(f"checkpoint duty goes to {wanted}")


def choose_holder(state: State) -> str:
    """
    Name the worker that should hold duty; empty = nobody.

    Who applied the last step before who did not, who stays before who leaves, not warned before
    warned, then the present holder, then the lowest rank. Between generations only the newest
    state counts. Scripts that run on their own terms save on their own terms.
    """
    if not state.has_steps:
        return ""
    generation = state.current or state.formed
    order = {name: rank for rank, name in enumerate(generation.names if generation else ())}
    candidates = [
        worker for worker in state.workers.values() if _can_hold(state, worker, members=order)
    ]
    if not candidates:
        return ""
    newest = max(worker.state_step for worker in candidates)

    def taste(worker: Worker) -> tuple[bool, bool, bool, bool, int, str]:
        return (
            not (worker.first is not None and worker.first.reached),
            worker.leave_by is not None,
            worker.warned,
            worker.name != state.lease.holder,
            order.get(worker.name, len(order) + worker.index),
            worker.name,
        )

    if state.current is None:
        candidates = [w for w in candidates if w.state_step == newest]
    return min(candidates, key=taste).name


def _can_hold(state: State, worker: Worker, *, members: dict[str, int]) -> bool:
    first = worker.first
    if not worker.is_complete or first is None or first.left or first.dismissed is False:
        return False
    if state.current is not None:
        return worker.name in members and (worker.is_eligible or worker.leave_by is not None)
    return worker.state_step >= 0
