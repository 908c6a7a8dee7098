"""Run a whole job through the operator's own `step`, in virtual time."""

import enum
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from ebbtide.core.planner.knowledge import Knowledge
from ebbtide.core.planner.speed import Speed
from ebbtide.core.simulator.virtual.bill import Bill
from ebbtide.core.simulator.virtual.progress import Stretch
from ebbtide.core.simulator.virtual.timing import Timing, Trace
from ebbtide.core.simulator.virtual.world import World
from ebbtide.core.step import step
from ebbtide.core.values import reasons
from ebbtide.core.values.decision import Decision
from ebbtide.core.values.job import Job
from ebbtide.core.values.observed import Observed
from ebbtide.core.values.pool import Market, Pool
from ebbtide.core.values.settings import Settings
from ebbtide.core.values.status import JobStatus
from ebbtide.core.values.workload import Profile

AT_ONCE: Final = timedelta(0)
NOT_SO_FAST: Final = timedelta(seconds=1)
"""As the control loop has it: a pass that changed nothing is not repeated at once."""
MOST_PASSES: Final = 50
"""Passes at one moment until nothing changes any more; a job needs a handful."""
MARGIN: Final = timedelta(minutes=5)

Watch = Callable[[Observed, Decision], None]


class Outcome(enum.StrEnum):
    """How a run ended."""

    COMPLETE = "Complete"
    FAILED = "Failed"
    STUCK = "Stuck"  # nothing is under way, and nothing will come
    UNFINISHED = "Unfinished"  # time was up


class UnsettledError(RuntimeError):
    """Passes at one moment did not come to rest, or a second one on the same world decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One decision that the operator tells as an event, too."""

    at: datetime
    reason: str
    message: str
    warning: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What came of a job."""

    outcome: Outcome
    why: str  # in a sentence
    started: datetime
    ended: datetime  # of the run; the cluster may be empty long before
    finish: datetime | None  # when the work was known to be done and everybody had left
    log: tuple[Entry, ...]
    status: JobStatus
    bill: Bill
    stretches: tuple[Stretch, ...]
    num_trained: int  # steps, those that were lost and made again included
    num_lost: int
    num_taken: int  # nodes that were Ready and were taken away
    num_passes: int

    @property
    def spot_hours(self) -> float:
        """Paid node hours on spot."""
        return self.bill.hours(Market.SPOT)

    @property
    def on_demand_hours(self) -> float:
        """Paid node hours on on-demand."""
        return self.bill.hours(Market.ON_DEMAND)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The circumstances of a run, with what they are where nobody says."""

    start: datetime
    trace: Trace = field(default_factory=Trace)
    timing: Timing = field(default_factory=Timing)
    settings: Settings = field(default_factory=Settings)
    knowledge: Knowledge | None = None  # of the planner; None: every job runs at a fixed size
    profile: Profile | None = None  # the WorkloadProfile that the job names
    limit: timedelta = timedelta(days=60)
    check: bool = False  # that a second pass on an unchanged world does nothing


def run(
    job: Job,
    pools: tuple[Pool, ...],
    speed: Speed,
    conditions: Conditions,
    *,
    chance: np.random.Generator,
    watch: Watch | None = None,
) -> Run:
    """
    Run one job from its creation until it is over and its nodes are gone.

    Args:
        job: as it is applied.
        pools: all that there are.
        speed: how fast workers of each GPU type really are; every type of `pools` must be known.
        conditions: what is offered when, and how long things take.
        chance: of start-up times and of notices.
        watch: is shown every pass.

    Raises:
        UnsettledError: the operator does not come to rest, a fault of ours.

    """
    world = World(
        job,
        pools,
        start=conditions.start,
        trace=conditions.trace,
        speed=speed,
        timing=conditions.timing,
        profile=conditions.profile,
        chance=chance,
    )
    return Loop(world, conditions, watch=watch).run()


class Loop:
    """Look, decide, act, write; then let time go on to whatever comes first."""

    def __init__(self, world: World, conditions: Conditions, *, watch: Watch | None = None) -> None:
        self.world = world
        self.log: list[Entry] = []
        self.num_passes = 0
        self._conditions = conditions
        self._settings = replace(conditions.settings, tells_losers=watch is not None)
        world.settings = conditions.settings
        self.watch = watch
        self._news_at = conditions.start

    def run(self) -> Run:
        """Run to the end."""
        world, end = self.world, self._conditions.start + self._conditions.limit
        while True:
            last = self.settle()
            if self._is_over(last):
                return self._conclude(*_name_end(world.status))
            if world.agenda.now >= end:
                text = f"not over after {self._conditions.limit}: {_describe(world.status)}"
                return self._conclude(Outcome.UNFINISHED, text)
            if self._is_stuck():
                text = f"nothing is under way and nothing will come: {_describe(world.status)}"
                return self._conclude(Outcome.STUCK, text)
            self._let_time_pass(last, end)

    def run_until(self, moment: datetime) -> None:
        """Run up to a moment, to change something there."""
        while self.world.agenda.now < moment:
            self._let_time_pass(self.settle(), moment)

    def settle(self) -> Decision:
        """Pass until nothing changes any more; return the last decision."""
        for _ in range(MOST_PASSES):
            if self.world.is_deleted:
                return Decision()  # there is no job to look at any more
            decision, is_changed = self._pass()
            if not is_changed and decision.requeue_after == AT_ONCE:
                return replace(decision, requeue_after=NOT_SO_FAST, decide_after=NOT_SO_FAST)
            if not decision.actions and decision.requeue_after != AT_ONCE:
                if self._conditions.check:
                    self._check()
                return decision
        raise UnsettledError(f"no rest at {self.world.agenda.now}: {_describe(self.world.status)}")

    def _pass(self) -> tuple[Decision, bool]:
        world = self.world
        observed = world.observe()
        world.pods.has_news = False
        now = world.agenda.now
        decision = self._decide(observed)
        self.num_passes += 1
        if self.watch is not None:
            self.watch(observed, decision)
        world.act(decision.actions)
        is_changed = bool(decision.actions)
        if decision.status is not None and decision.status != world.status:
            world.status, is_changed = decision.status, True
        self.log += [
            Entry(at=now, reason=event.reason, message=event.message, warning=event.warning)
            for event in decision.events
        ]
        return decision, is_changed

    def _decide(self, observed: Observed) -> Decision:
        """Ask the operator's own step."""
        return step(
            observed,
            now=self.world.agenda.now,
            settings=self._settings,
            knowledge=self._conditions.knowledge,
        )

    def _check(self) -> None:
        """Look once more at a world in which nothing has changed."""
        world = self.world
        again = self._decide(world.observe())
        is_other = again.status is not None and again.status != world.status
        if again.actions or again.events or is_other:
            raise UnsettledError(f"a second pass at {world.agenda.now} decides: {again}")

    def _let_time_pass(self, last: Decision, end: datetime) -> None:
        """
        Go on to the next decision, or to the first event that shows something new.

        What the operator looks at only to show it is not looked at here; nobody reads it.
        """
        agenda, pods = self.world.agenda, self.world.pods
        after = last.decide_after
        if after is None and agenda.next is None:
            after = last.requeue_after
        look = end if after is None else min(agenda.now + after, end)
        while not pods.has_news and agenda.next is not None and agenda.next <= look:
            agenda.advance(agenda.next)
        if pods.has_news:
            self._news_at = agenda.now
        else:
            agenda.advance(look)

    def _is_over(self, last: Decision) -> bool:
        world = self.world
        if world.is_deleted:
            return world.cloud.is_still and not world.pods.objects
        is_at_rest = last.requeue_after is None and all(
            pod.ended for pod in world.pods.objects.values()
        )
        return is_at_rest and world.cloud.is_still

    def _is_stuck(self) -> bool:
        """Tell whether the world stands still for longer than any delay of the operator."""
        world, settings = self.world, self._conditions.settings
        if world.agenda.next is not None:
            return False
        delays = (
            settings.capacity_wait * (len(world.cloud.pools) + 1),
            settings.failure_delay_limit,
            settings.zombie,
            settings.finish_grace,
            settings.coordinator_grace,
            settings.image_wait,
            world.job.ttl_after_finished or AT_ONCE,
            world.job.active_deadline or AT_ONCE,
        )
        return world.agenda.now - self._news_at > sum(delays, MARGIN)

    def _conclude(self, outcome: Outcome, why: str) -> Run:
        world, tally = self.world, self.world.pods.tally
        now = world.agenda.now
        return Run(
            outcome=outcome,
            why=why,
            started=self._conditions.start,
            ended=now,
            finish=world.status.completion,
            log=tuple(self.log),
            status=world.status,
            bill=world.cloud.meter.bill(now),
            stretches=tuple(tally.stretches),
            num_trained=tally.num_trained,
            num_lost=tally.num_lost,
            num_taken=world.cloud.num_taken,
            num_passes=self.num_passes,
        )


def _name_end(status: JobStatus) -> tuple[Outcome, str]:
    for outcome, kind in ((Outcome.COMPLETE, reasons.COMPLETE), (Outcome.FAILED, reasons.FAILED)):
        condition = status.condition(kind)
        if condition is not None and condition.status == "True":
            return outcome, condition.message
    return Outcome.STUCK, _describe(status)


def _describe(status: JobStatus) -> str:
    running = status.condition(reasons.RUNNING)
    text = running.message or running.reason if running is not None else "nothing was decided"
    return f"{status.state or 'Pending'}: {text}"
