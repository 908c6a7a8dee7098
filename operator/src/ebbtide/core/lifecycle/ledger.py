"""
The ledger of attempts: which ends are counted, so that each is counted once.

Ends of one index are counted in the order of their attempts. `judged` is raised in the write that
counts them. An attempt that is ours to end is *retired*: named in `retired` (or at most `judged`),
it is deleted in a later pass, whenever that comes, and its end counts nothing. An attempt without
a pod object has vanished.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from ebbtide.core.lifecycle.judging import Judgement, Verdict, Work, judge
from ebbtide.core.lifecycle.signs import Outlook, Sign
from ebbtide.core.values.observed import Node, Pod, PodPhase, Role
from ebbtide.core.values.settings import Settings
from ebbtide.core.values.status import Attempts, Counters, LastFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """One end that this pass counts."""

    index_key: str
    attempt: int
    pod: Pod | None  # None: it vanished
    judgement: Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """The ledger after counting."""

    attempts: Mapping[str, Attempts]
    counters: Counters
    last_failure: LastFailure | None
    counted: tuple[Counted, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What the pods and their nodes look like now."""

    pods: tuple[Pod, ...]
    nodes: Mapping[str, Node]
    signs: Mapping[str, Sign]  # by pod name
    generations: Mapping[str, int]  # by pod name: the last one it was a member of
    generation: int  # of the job, where the coordinator does not know the pod
    work: Work
    departed: tuple[Pod, ...] = ()  # seen before their objects went
    exits_tell: bool = False  # nobody counts steps: who exits 0 is done


def is_retired(pod: Pod, attempts: Attempts) -> bool:
    """Tell whether a pod's end is counted, or is ours and counts nothing."""
    return pod.attempt <= attempts.judged or pod.attempt in attempts.retired


def is_live(pod: Pod, attempts: Attempts, sign: Sign) -> bool:
    """Tell whether a pod still stands for its index."""
    return not pod.ended and not is_retired(pod, attempts) and sign.outlook is not Outlook.LOST


def count_ends(
    scene: Scene,
    attempts: Mapping[str, Attempts],
    *,
    counters: Counters,
    last_failure: LastFailure | None,
    now: datetime,
    settings: Settings,
) -> Books:
    """Judge every end that is not counted yet."""
    by_index: dict[str, dict[int, Pod]] = {}
    for pod in scene.pods:
        by_index.setdefault(pod.index_key, {})[pod.attempt] = pod
    after: dict[str, Attempts] = {}
    counted: list[Counted] = []
    for key in sorted({*attempts, *by_index}):
        entry = _caught_up(attempts.get(key, Attempts()), by_index.get(key, {}))
        after[key], ends = _count_index(key, entry, by_index.get(key, {}), scene=scene, now=now)
        counted += ends
    if scene.exits_tell:
        counted = _excuse(counted, after, attempts, settings=settings)
    num_failures, last_failure = _count_failures(
        counted, attempts, last_failure, scene=scene, settings=settings
    )
    counters = replace(
        counters,
        failures=counters.failures + num_failures,
        revocations=counters.revocations + _number(counted, Verdict.REVOCATION),
        restarts=counters.restarts + _number(counted, Verdict.RESTART),
    )
    return Books(
        attempts=after, counters=counters, last_failure=last_failure, counted=tuple(counted)
    )


def _count_failures(
    counted: list[Counted],
    attempts: Mapping[str, Attempts],
    last: LastFailure | None,
    /,
    *,
    scene: Scene,
    settings: Settings,
) -> tuple[int, LastFailure | None]:
    """Count events: one may hit several workers, but no worker twice."""
    hit = {key: entry.ended for key, entry in attempts.items() if entry.failed}
    number = 0
    failures = [end for end in counted if end.judgement.verdict is Verdict.FAILURE]
    for end in sorted(failures, key=lambda end: (end.judgement.at, end.index_key)):
        failure, before = _as_failure(end, scene), hit.get(end.index_key)
        again = last is not None and before is not None and before >= last.time
        if last is None or again or not _same(failure, last, settings):
            number += 1
            last = failure
        hit[end.index_key] = failure.time
    return number, last


def _excuse(
    counted: list[Counted],
    after: dict[str, Attempts],
    before: Mapping[str, Attempts],
    /,
    *,
    settings: Settings,
) -> list[Counted]:
    """
    Make restarts of failures that followed from another worker's loss; mark them in `after`.

    A script on its own terms cannot outlive its peers, so only the first end is judged by itself.
    What was excused excuses nobody, and a loss nobody who came after it, or workers that always
    fail would excuse each other for ever.
    """
    losses = [
        (key, entry.ended)
        for key, entry in before.items()
        if entry.ended is not None and not entry.followed and _is_worker(key)
    ]
    losses += [
        (end.index_key, end.judgement.at)
        for end in counted
        if _is_worker(end.index_key)
        and end.judgement.verdict in (Verdict.REVOCATION, Verdict.RESTART)
    ]
    told: list[Counted] = []
    for end in sorted(counted, key=lambda end: (end.judgement.at, end.index_key)):
        if end.judgement.verdict is not Verdict.FAILURE:
            told.append(end)
            continue
        cause = _find_cause(end, losses, settings)
        if cause:
            verdict = replace(
                end.judgement,
                verdict=Verdict.RESTART,
                cause=f"{end.judgement.cause}, after the loss of {cause}",
            )
            end = replace(end, judgement=verdict)  # noqa: PLW2901 -- the same end, judged again
            after[end.index_key] = replace(after[end.index_key], failed=False, followed=True)
        else:
            losses.append((end.index_key, end.judgement.at))
        told.append(end)
    return told


def _find_cause(end: Counted, losses: list[tuple[str, datetime]], settings: Settings) -> str:
    """Name another worker whose loss explains an end: shortly before it, or at the same time."""
    at = end.judgement.at
    for key, lost_at in losses:
        close = -settings.failure_window <= at - lost_at <= settings.aftermath
        suffered = end.pod is not None and end.pod.created <= lost_at  # it was there to see it
        if key != end.index_key and close and suffered:
            return key
    return ""


def _is_worker(key: str) -> bool:
    return key.startswith(f"{Role.WORKER}-")


def _caught_up(entry: Attempts, pods: Mapping[int, Pod]) -> Attempts:
    """Learn of pods made just before the status that would have told of them could be written."""
    return replace(entry, last=max(entry.last, *pods)) if pods else entry


def _count_index(
    key: str, entry: Attempts, pods: Mapping[int, Pod], *, scene: Scene, now: datetime
) -> tuple[Attempts, list[Counted]]:
    counted: list[Counted] = []
    for attempt in range(entry.judged + 1, entry.last + 1):
        pod = pods.get(attempt)
        if attempt not in entry.retired:
            judgement = _judge(key, attempt, pod, scene=scene, now=now)
            if judgement is None:
                break
            counted.append(Counted(index_key=key, attempt=attempt, pod=pod, judgement=judgement))
            entry = _remember(entry, pod, judgement, exits_tell=scene.exits_tell)
        retired = tuple(number for number in entry.retired if number > attempt)
        entry = replace(entry, judged=attempt, retired=retired)
    return entry, counted


def _judge(
    key: str, attempt: int, pod: Pod | None, *, scene: Scene, now: datetime
) -> Judgement | None:
    vanished = Judgement(verdict=Verdict.RESTART, cause="the pod object vanished", at=now)
    gone = pod is None
    if pod is None:
        seen = (p for p in scene.departed if (p.index_key, p.attempt) == (key, attempt))
        pod = next(seen, None)
    if pod is None:
        return vanished
    node, sign = scene.nodes.get(pod.node), scene.signs[pod.name]
    if gone and not pod.ended and pod.disruption:  # it was evicted, and its end was not seen
        pod = replace(pod, phase=PodPhase.FAILED)
    judgement = judge(pod, node, sign, work=scene.work, now=now)
    return vanished if gone and judgement is None else judgement


def _remember(
    entry: Attempts, pod: Pod | None, judgement: Judgement, *, exits_tell: bool
) -> Attempts:
    if judgement.verdict is Verdict.DONE:
        return replace(entry, done=True, lost=False) if exits_tell else entry
    started = pod is not None and (pod.started or pod.phase is PodPhase.RUNNING)
    return replace(
        entry,
        lost=True,
        stumbles=0 if started or pod is None else entry.stumbles + 1,
        ended=judgement.at,
        failed=judgement.verdict is Verdict.FAILURE,
        followed=False,
        done=False,
    )


def _as_failure(end: Counted, scene: Scene) -> LastFailure:
    name = end.pod.name if end.pod else ""
    generation = scene.generations.get(name, scene.generation)
    message = f"{name}: {end.judgement.cause}"
    return LastFailure(generation=generation, time=end.judgement.at, message=message)


def _same(failure: LastFailure, last: LastFailure, settings: Settings) -> bool:
    """Those of one generation within the window are one event that hit several workers."""
    apart = abs(failure.time - last.time)
    return failure.generation == last.generation and apart <= settings.failure_window


def _number(counted: list[Counted], verdict: Verdict) -> int:
    return sum(end.judgement.verdict is verdict for end in counted)
