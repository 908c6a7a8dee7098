"""Which pod objects go: retired ones, dead ones beyond the one that is kept, zombies."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from ebbtide.core.lifecycle.ledger import is_retired
from ebbtide.core.values.decision import Action, DeletePod, DeleteService, EndPod, Tell
from ebbtide.core.values.job import CleanPodPolicy
from ebbtide.core.values.observed import Node, Pod, Role
from ebbtide.core.values.settings import Settings
from ebbtide.core.values.status import Attempts

END_AT_ONCE = 1  # seconds of activeDeadlineSeconds


def clear(
    pods: tuple[Pod, ...],
    attempts: Mapping[str, Attempts],
    *,
    nodes: Mapping[str, Node],
    now: datetime,
    settings: Settings,
    keep_dead: bool,
) -> tuple[tuple[Action, ...], timedelta | None]:
    """
    Delete what is retired or counted, as far as the written ledger says so.

    Args:
        pods: the job's.
        attempts: the ledger as it stands in `status`: what this pass decides is not yet there.
        nodes: by name.
        now: the time.
        settings: `zombie` says when a pod that hangs in Terminating is forced away.
        keep_dead: keep the newest ended pod of each index for whoever wants to read its log.

    Returns:
        The deletions, and when to look again for zombies.

    """
    counted = [pod for pod in pods if is_retired(pod, attempts.get(pod.index_key, Attempts()))]
    kept: dict[str, str] = {}
    if keep_dead:
        for pod in sorted(counted, key=lambda pod: pod.attempt):
            if pod.ended:
                kept[pod.index_key] = pod.name
    doomed = [pod for pod in counted if pod.name not in kept.values()]
    return _delete(doomed, nodes=nodes, now=now, settings=settings)


def clean_up(
    pods: tuple[Pod, ...],
    policy: CleanPodPolicy,
    *,
    nodes: Mapping[str, Node],
    has_service: bool,
    now: datetime,
    settings: Settings,
) -> tuple[tuple[Action, ...], timedelta | None]:
    """Do at the end what `cleanPodPolicy` says."""
    alive = [pod for pod in pods if not pod.ended]
    match policy:
        case CleanPodPolicy.RUNNING:
            return _delete(alive, nodes=nodes, now=now, settings=settings)
        case CleanPodPolicy.ALL:
            actions, timer = _delete(list(pods), nodes=nodes, now=now, settings=settings)
            return (*actions, *((DeleteService(),) if has_service else ())), timer
        case CleanPodPolicy.NONE:
            return _end(alive), None


def _end(alive: list[Pod]) -> tuple[Action, ...]:
    actions: list[Action] = []
    for pod in alive:
        if not pod.node:  # no kubelet would ever end it
            actions.append(DeletePod(name=pod.name, uid=pod.uid))
        elif pod.active_deadline != END_AT_ONCE:
            if pod.role is Role.WORKER:
                actions.append(Tell(call="stop", worker=pod.name, seconds=1.0))
            actions.append(EndPod(name=pod.name, uid=pod.uid))
    return tuple(actions)


def _delete(
    pods: list[Pod], *, nodes: Mapping[str, Node], now: datetime, settings: Settings
) -> tuple[tuple[Action, ...], timedelta | None]:
    actions: list[Action] = []
    timers: list[timedelta] = []
    for pod in pods:
        if pod.deletion_requested is None:
            actions.append(DeletePod(name=pod.name, uid=pod.uid))
            continue
        node = nodes.get(pod.node)
        if not pod.node or (node is not None and node.ready):
            continue  # its kubelet, or the API server, does the rest
        left = pod.deletion_requested + settings.zombie - now if node else timedelta(0)
        if left > timedelta(0):
            timers.append(left)
        else:
            actions.append(DeletePod(name=pod.name, uid=pod.uid, force=True))
    return tuple(actions), min(timers, default=None)
