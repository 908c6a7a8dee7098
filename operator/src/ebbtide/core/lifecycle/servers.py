"""
The parameter servers: so many pods, on plain nodes that nobody takes, each replaced when it goes.

Like the coordinator's, their pods belong to no pool. Who was told to go hands its part over to
whoever is there, so its replacement is made at once and not when it has gone.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from ebbtide.core.lifecycle.ledger import is_live
from ebbtide.core.lifecycle.workers import Crew, Staffing, after_create, not_before
from ebbtide.core.values import reasons
from ebbtide.core.values.decision import CreatePod, Event
from ebbtide.core.values.observed import Pod, Role
from ebbtide.core.values.status import Attempts


def staff_servers(pods: Sequence[Pod], *, crew: Crew, out: Staffing) -> None:
    """
    Make the servers that are missing, and retire those beyond the number that is wanted.

    Args:
        pods: the job's, of any role.
        crew: the job and the moment; its signs are of all pods.
        out: what is decided for the workers; this is added to it.

    """
    by_index: dict[int, list[Pod]] = {}
    for pod in pods:
        entry = out.attempts.get(pod.index_key, Attempts())
        if pod.role is Role.SERVER and is_live(pod, entry, crew.signs[pod.name]):
            by_index.setdefault(pod.index, []).append(pod)
    for index in range(crew.work.servers):
        _staff_index(index, by_index.get(index, []), crew=crew, out=out)
    for index in sorted(index for index in by_index if index >= crew.work.servers):
        for pod in by_index[index]:
            out.retire(pod)


def _staff_index(index: int, live: Sequence[Pod], *, crew: Crew, out: Staffing) -> None:
    key = f"{Role.SERVER}-{index}"
    entry = out.attempts.get(key, Attempts())
    if any(pod.started for pod in live):
        entry = replace(entry, lost=False, stumbles=0)
    out.attempts[key] = entry
    staying = [pod for pod in live if pod.deletion_requested is None]
    if staying:
        _watch(staying[-1], crew=crew, out=out)
        return
    wait = not_before(entry, crew) - crew.now if not live else timedelta(0)
    if wait > timedelta(0):
        out.timers.append(wait)
        text = f"server {index} is made again in {wait.total_seconds():.0f} s"
        out.backing_off.append(text)
        return
    attempt = 1 + max(entry.last, crew.former_attempts.get(key, 0))
    out.attempts[key] = after_create(entry, attempt)
    out.creates.append(CreatePod(role=Role.SERVER, index=index, attempt=attempt, work=crew.work))
    if live or entry.lost:
        cause = "it was told to go" if live else "its predecessor was lost"
        text = f"made a replacement for server {index}: {cause}"
        out.events.append(Event(reason=reasons.REPLACEMENT_CREATED, message=text))


def _watch(pod: Pod, *, crew: Crew, out: Staffing) -> None:
    """Say that a server waits for a node; no other one would be better."""
    since = pod.unschedulable_since
    if since is None:
        return
    told = f": {pod.unschedulable_message}" if pod.unschedulable_message else ""
    out.waits.append(f"server {pod.index} waits for a node since {since:%H:%M:%S}{told}")
    left = since + crew.settings.capacity_wait - crew.now
    if left > timedelta(0):
        out.timers.append(left)
    out.starved = out.starved or left <= timedelta(0)
