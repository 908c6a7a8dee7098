"""
One worker for each index: who is missing, who is surplus, who waits in vain.

Only what was lost is replaced. A worker at risk gets a replacement beside it, of the same index and
the next attempt; if the risk passes, the replacement goes unless it has taken over.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Protocol

from ebbtide.core.lifecycle.ledger import is_live
from ebbtide.core.lifecycle.progress import is_standing, members_now
from ebbtide.core.lifecycle.signs import Outlook, Sign
from ebbtide.core.values import reasons
from ebbtide.core.values.decision import CreatePod, Event
from ebbtide.core.values.job import Job, SpotUse
from ebbtide.core.values.observed import Pod, PodPhase, Role
from ebbtide.core.values.pool import Market, Pool
from ebbtide.core.values.settings import Settings
from ebbtide.core.values.status import Attempts
from ebbtide.wire.messages import Report, WorkSpec

GOING: frozenset[str] = frozenset({"lost", "left", "leaving"})  # in the coordinator's words
PRESENT: frozenset[str] = frozenset({"member", "spare", "joining"})
FIRST_STUMBLE = timedelta(seconds=1)
LONGEST_STUMBLE = timedelta(seconds=60)


class Placement(Protocol):
    """How many workers, and where each goes."""

    @property
    def workers(self) -> int:
        """How many indexes have a pod: those that train, and spares."""

    def place(
        self, index: int, *, load: Mapping[str, int], tried: Sequence[str] = ()
    ) -> Pool | None:
        """Choose a pool, or None when none has room."""

    def explain(self, index: int) -> str:
        """Say why none can be chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """What is known of the workers in this pass."""

    job: Job
    pods: tuple[Pod, ...]  # workers only
    signs: Mapping[str, Sign]
    report: Report | None
    work: WorkSpec
    other_load: Mapping[str, int]  # workers (of this job's size) that other jobs have in each pool
    former_attempts: Mapping[str, int]
    failures: int
    now: datetime
    settings: Settings
    image: str = ""  # that new workers get; "" = the template's
    trained: bool = False  # in this run, or since the job was resumed

    def is_member(self, pod: Pod) -> bool:
        """Tell whether a pod is a member of the newest generation."""
        if not self.job.counts_steps:
            return is_standing(pod)
        return pod.name in members_now(self.report)

    def is_present(self, pod: Pod) -> bool:
        """Tell whether the coordinator has the pod's worker at hand."""
        workers = self.report.workers if self.report is not None else ()
        return any(w.worker == pod.name and w.state in PRESENT for w in workers)

    @property
    def is_full(self) -> bool:
        """Whether as many train as are wanted; then whoever else is there is a spare."""
        counts = self.job.counts_steps  # other launchers have no spares
        return counts and len(members_now(self.report)) >= self.work.desired

    def stands(self, pod: Pod) -> bool:
        """Tell whether a pod has the place of its index: as a member, or as a spare beside all."""
        return self.is_member(pod) or (self.is_full and self.is_present(pod))

    def at_hand(self, pods: Sequence[Pod]) -> list[Pod]:
        """
        Return the pods that can stand for their index.

        The coordinator knows; as long as no training can hang on any of them, to run is enough.
        """
        if not self.job.has_coordinator:
            return [pod for pod in pods if pod.phase is PodPhase.RUNNING]
        present = [pod for pod in pods if self.is_present(pod)]
        if present or self.trained:
            return present
        return [pod for pod in pods if pod.phase is PodPhase.RUNNING]

    def best(self, pods: Sequence[Pod]) -> Pod:
        """Return the member; among equals the older, which has more of its work done."""
        return min(pods, key=lambda pod: (not self.is_member(pod), pod.attempt))

    def risk(self, pod: Pod) -> str:
        """Say why a pod is not to be counted on; empty when it is."""
        if not self.job.has_coordinator:
            return ""  # two of one index at a time would both run: only who is lost is replaced
        sign = self.signs[pod.name]
        if sign.outlook in (Outlook.WARNED, Outlook.NOT_READY):
            return sign.text
        if pod.deletion_requested is not None:
            return "it was told to go"
        report = self.report
        if report is None or report.finished:
            return ""  # who leaves after the end has done its part: its exit will tell
        states = {w.worker: w.state for w in report.workers}
        if states.get(pod.name) in GOING:
            return f"the coordinator calls it {states[pod.name]}"
        return ""


@dataclass(slots=True)
class Staffing:
    """The answer: the ledger after it, pods to make, what to tell, when to look again."""

    attempts: dict[str, Attempts]
    load: dict[str, int]
    creates: list[CreatePod] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)  # why somebody is not running, in words
    starved: bool = False  # somebody has waited long enough to call it a lack of capacity
    backing_off: list[str] = field(default_factory=list)
    timers: list[timedelta] = field(default_factory=list)
    forsaken: set[str] = field(default_factory=set)  # pods on going nodes for whom nobody comes

    def retire(self, pod: Pod) -> None:
        """Mark a pod as ours to end; it is deleted in the next pass."""
        entry = self.attempts.get(pod.index_key, Attempts())
        if pod.attempt > entry.judged and pod.attempt not in entry.retired:
            retired = tuple(sorted({*entry.retired, pod.attempt}))
            self.attempts[pod.index_key] = replace(entry, retired=retired)


def live_pods(crew: Crew, attempts: Mapping[str, Attempts]) -> list[Pod]:
    """Return the workers that still stand for their index."""
    return [
        pod
        for pod in crew.pods
        if is_live(pod, attempts.get(pod.index_key, Attempts()), crew.signs[pod.name])
    ]


def staff(crew: Crew, attempts: Mapping[str, Attempts], placement: Placement) -> Staffing:
    """Decide for every index what to make and what to retire."""
    live = live_pods(crew, attempts)
    load = dict(crew.other_load)
    for pod in live:
        if not crew.risk(pod):
            load[pod.pool] = load.get(pod.pool, 0) + 1
    staffing = Staffing(attempts=dict(attempts), load=load)
    by_index: dict[int, list[Pod]] = {}
    for pod in sorted(live, key=lambda pod: pod.attempt):
        by_index.setdefault(pod.index, []).append(pod)
    for index in range(placement.workers):
        if staffing.attempts.get(f"{Role.WORKER}-{index}", Attempts()).done:
            for pod in by_index.get(index, []):
                staffing.retire(pod)
            continue
        _staff_index(index, by_index.get(index, []), crew=crew, placement=placement, out=staffing)
    for index in sorted(index for index in by_index if index >= placement.workers):
        for pod in by_index[index]:
            staffing.retire(pod)
    return staffing


def _staff_index(
    index: int, live: list[Pod], *, crew: Crew, placement: Placement, out: Staffing
) -> None:
    key = f"{Role.WORKER}-{index}"
    settle(key, live, crew=crew, out=out)
    sound = [pod for pod in live if not crew.risk(pod)]
    at_hand = crew.at_hand(sound)
    if len(sound) > 1 and at_hand:  # nobody goes before it is known that another one is there
        keep = crew.best(at_hand)
        for pod in sound:
            if pod is not keep:
                out.retire(pod)
        sound = [keep]
    if not sound:
        _replace(index, live, crew=crew, placement=placement, out=out)
        return
    if sound[0].unschedulable_since is not None:
        _move_on(sound[0], crew=crew, placement=placement, out=out)


def settle(key: str, live: Sequence[Pod], *, crew: Crew, out: Staffing) -> None:
    """Forget what a worker that runs again has put right."""
    entry = out.attempts.get(key, Attempts())
    if entry.lost and any(crew.stands(pod) for pod in live):
        entry = replace(entry, lost=False)
    if any(pod.started for pod in live):
        entry = replace(entry, tried=(), stumbles=0)
    out.attempts[key] = entry


def _replace(
    index: int, live: list[Pod], *, crew: Crew, placement: Placement, out: Staffing
) -> None:
    key = f"{Role.WORKER}-{index}"
    entry = out.attempts[key]
    wait = not_before(entry, crew) - crew.now if not live else timedelta(0)
    if wait > timedelta(0):
        out.timers.append(wait)
        out.backing_off.append(f"worker {index} is made again in {wait.total_seconds():.0f} s")
        return
    pool = placement.place(index, load=out.load, tried=entry.tried)
    if pool is None:
        out.waits.append(f"worker {index}: {placement.explain(index)}")
        out.starved = True
        return
    create(index, pool, crew=crew, out=out)
    if live or entry.lost:
        cause = crew.risk(live[-1]) if live else "its predecessor was lost"
        message = f"made a replacement for worker {index} in pool {pool.name}: {cause}"
        out.events.append(Event(reason=reasons.REPLACEMENT_CREATED, message=message))


def _move_on(pod: Pod, *, crew: Crew, placement: Placement, out: Staffing) -> None:
    """Send a worker that cannot be scheduled to the next pool when it has waited long enough."""
    since = pod.unschedulable_since or crew.now
    wait = since + crew.settings.capacity_wait - crew.now
    out.waits.append(
        f"worker {pod.index} waits for a node in pool {pod.pool} since {since:%H:%M:%S}"
        + (f": {pod.unschedulable_message}" if pod.unschedulable_message else "")
    )
    entry = out.attempts[pod.index_key]
    out.starved = out.starved or wait <= timedelta(0) or bool(entry.tried)
    if wait > timedelta(0):
        out.timers.append(wait)
        return
    tried = (*entry.tried, pod.pool)
    pool = placement.place(pod.index, load=out.load, tried=tried)
    if pool is None or pool.name == pod.pool:
        return  # nowhere else to go, and a pending pod is what brings nodes
    if pool.name in tried:
        tried = (pod.pool,)  # all were tried: begin again
    out.attempts[pod.index_key] = replace(entry, tried=tried)
    out.retire(pod)
    out.load[pod.pool] = out.load.get(pod.pool, 0) - 1
    create(pod.index, pool, crew=crew, out=out)
    seconds = crew.settings.capacity_wait.total_seconds()
    message = (
        f"worker {pod.index} found no node in pool {pod.pool} for {seconds:.0f} s, "
        f"it tries pool {pool.name}"
    )
    back = pool.market is Market.ON_DEMAND and crew.job.spot is not SpotUse.NEVER
    reason = reasons.FELL_BACK if back else reasons.MOVED_POOL
    out.events.append(Event(reason=reason, message=message))


def create(index: int, pool: Pool, *, crew: Crew, out: Staffing) -> None:
    """Make the next attempt of an index in a pool."""
    key = f"{Role.WORKER}-{index}"
    entry = out.attempts.get(key, Attempts())
    attempt = 1 + max(entry.last, crew.former_attempts.get(key, 0))
    out.attempts[key] = after_create(entry, attempt)
    out.load[pool.name] = out.load.get(pool.name, 0) + 1
    out.creates.append(
        CreatePod(
            role=Role.WORKER,
            index=index,
            attempt=attempt,
            work=crew.work,
            image=crew.image,
            pool=pool,
        )
    )


def after_create(entry: Attempts, attempt: int) -> Attempts:
    """Numbers that a former job of this name used up were never ours to count."""
    if entry.judged == entry.last:
        entry = replace(entry, judged=attempt - 1)
    return replace(entry, last=attempt)


def not_before(entry: Attempts, crew: Crew) -> datetime:
    """When the next attempt may be made: after a failure, or a row of false starts, not at once."""
    if entry.ended is None:
        return crew.now
    settings = crew.settings
    if entry.failed:
        delay = doubled(settings.failure_delay, crew.failures - 1, settings.failure_delay_limit)
        return entry.ended + delay
    return after_stumbles(entry, now=crew.now)


def after_stumbles(entry: Attempts, *, now: datetime) -> datetime:
    """Tell when the next attempt may be made after false starts; the first retry is at once."""
    if entry.ended is None or entry.stumbles <= 1:
        return now
    return entry.ended + doubled(FIRST_STUMBLE, entry.stumbles - 1, LONGEST_STUMBLE)


def doubled(first: timedelta, times: int, limit: timedelta) -> timedelta:
    """Return a delay that doubles each time, up to a limit."""
    factor: int = 2 ** min(max(times, 0), 30)
    return min(first * factor, limit)
