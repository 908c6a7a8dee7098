"""What holds for every job in every virtual world, whatever providers do and when."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.coordinator import choice
from ebbtide.coordinator.state import Worker
from ebbtide.core.simulator.virtual.bill import CENT
from ebbtide.core.simulator.virtual.hands import Hand, choose_members
from ebbtide.core.simulator.virtual.run import Outcome
from ebbtide.core.simulator.virtual.timing import Timing, Trace
from ebbtide.core.values.decision import Decision
from ebbtide.core.values.job import Job
from ebbtide.core.values.objective import Objective
from ebbtide.core.values.observed import Observed
from ebbtide.core.values.pool import Pool
from support.builders import ON_DEMAND, SPOT, START, make_job, make_pool
from support.knowing import Known
from support.virtual import PROMPT, SPEED, changes, make_loop, play

OTHER = make_pool("old", gpu_type="K80", usd_per_node_hour=Decimal("0.20"), gpus_per_node=2)
POOLS = (SPOT, OTHER, ON_DEMAND)
RETURN_S = 7200.0
"""From here on every pool has nodes again."""

SPELLS = st.lists(
    st.tuples(st.integers(20, 900), st.sampled_from([0, 0, 1, 2, 4])), min_size=1, max_size=8
)
"""How long each pool gives how many nodes, after it gave all it has for a while."""

PRICES = st.lists(st.tuples(st.floats(0, 6000), st.floats(0.05, 9.0)), max_size=3)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A job and what happens to it."""

    job: Job
    pools: tuple[Pool, ...]
    trace: Trace
    timing: Timing
    seed: int

    def circumstances(self) -> dict[str, Any]:
        """Return what `play` wants beside the job."""
        return {
            "pools": self.pools, "trace": self.trace, "timing": self.timing, "seed": self.seed
        }  # fmt: skip


@st.composite
def cases(draw: st.DrawFn) -> Case:
    most = draw(st.integers(1, 4))
    job = make_job(
        steps=draw(st.integers(1, 2000)),
        min_replicas=draw(st.integers(1, most)),
        max_replicas=most,
        on_demand_floor=draw(st.integers(0, 1)),
        checkpoint_interval=timedelta(seconds=draw(st.sampled_from([30, 120, 1000]))),
    )
    nodes, prices = {}, {}
    for pool in POOLS:
        at_s = float(draw(st.integers(0, 600)))
        points = []
        for spell_s, number in draw(SPELLS):
            points.append((at_s, number))
            at_s += spell_s
        nodes[pool.name] = changes(*points, (max(at_s, RETURN_S), 8))
        prices[pool.name] = changes(*sorted(draw(PRICES)))
    return Case(
        job=job,
        pools=POOLS,
        trace=Trace(nodes=nodes, usd_per_node_hour=prices),
        timing=replace(
            PROMPT,
            warned_share=draw(st.sampled_from([0.0, 0.5, 1.0])),
            join_s=draw(st.sampled_from([0.0, 8.0, 90.0])),
            reform_s=draw(st.sampled_from([0.03, 4.0])),
            commit_s=draw(st.sampled_from([0.5, 25.0])),
            deletion_s=draw(st.sampled_from([0.0, 60.0])),
            idle_s=draw(st.sampled_from([30.0, 600.0])),
        ),
        seed=draw(st.integers(0, 9)),
    )


@dataclass
class Auditor:
    """Adds up, from what the operator sees, what nodes cost; and looks for two of a kind."""

    usd: Decimal = Decimal(0)
    rates: dict[str, Decimal] = field(default_factory=dict)
    at: datetime = START

    def charge(self, now: datetime) -> None:
        """Charge for what was there since the last look."""
        hours = Decimal((now - self.at) // timedelta(microseconds=1)) / 3_600_000_000
        self.usd += hours * sum(self.rates.values(), Decimal(0))
        self.at = now

    def look(self, observed: Observed, *, now: datetime) -> None:
        """Take in one pass."""
        self.charge(now)
        prices = {pool.name: pool.usd_per_node_hour for pool in observed.pools}
        self.rates = {
            node.name: prices[node.name.rpartition("-")[0]]
            for node in observed.nodes.values()
            if node.ready and node.name != "system"
        }
        report = observed.coordinator.report
        if report is not None and report.training and not report.finished:
            indexes = [name.rsplit("-", 2)[1] for name in report.members]
            assert len(set(indexes)) == len(indexes)
            assert isinstance(observed.job, Job)
            assert len(indexes) >= observed.job.min_replicas


@settings(max_examples=40)
@given(cases())
def test_a_job_completes_when_capacity_returns_and_nothing_is_counted_twice(case: Case) -> None:
    found = play(case.job, **case.circumstances())

    assert found.outcome is Outcome.COMPLETE, found.why
    assert found.status.counters.failures == 0
    assert found.num_trained == case.job.steps + found.num_lost
    for stretch in found.stretches:
        moved_s = (stretch.ended - stretch.began).total_seconds() - stretch.held_s
        made = stretch.last - stretch.first
        assert -1e-3 <= moved_s * stretch.steps_per_second - made < 1 + 1e-3


@settings(max_examples=25)
@given(cases())
def test_the_bill_is_the_integral_of_prices_and_the_operator_counts_the_same(case: Case) -> None:
    auditor = Auditor()
    loop = make_loop(case.job, **case.circumstances())

    def watch(observed: Observed, decision: Decision) -> None:
        auditor.look(observed, now=loop.world.agenda.now)

    loop.watch = watch
    found = loop.run()
    auditor.charge(found.ended)

    assert abs(found.bill.usd - auditor.usd) <= CENT
    assert found.finish is not None
    assert abs(found.bill.usd - found.bill.idle_usd - found.status.cost.spent_usd) <= CENT


@settings(max_examples=10)
@given(cases())
def test_the_same_seed_gives_the_same_log(case: Case) -> None:
    first, second = (play(case.job, **case.circumstances()) for _ in range(2))

    assert first == second


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 3), st.booleans(), st.booleans()),
        max_size=8,
        unique_by=lambda one: one[:2],
    ),
    st.integers(0, 5),
)
def test_members_are_chosen_as_the_coordinator_chooses_them(
    drawn: list[tuple[int, int, bool, bool]], desired: int
) -> None:
    hands, workers, present = [], [], set()
    for index, attempt, warned, is_present in drawn:
        name = f"w-{index}-{attempt}"
        hands.append(Hand(name=name, index=index, attempt=attempt, warned=warned))
        worker = Worker(name=name, index=index, attempt=attempt, num_processes=1)
        worker.warned = warned
        workers.append(worker)
        if is_present:
            present.add(name)

    ours = choose_members(hands, present=present, desired=desired)
    theirs = choice.choose_members(workers, present=present, desired=desired)

    assert ours == tuple(worker.name for worker in theirs)


@settings(max_examples=8)
@given(cases(), st.sampled_from([None, 2.0, 4.0]))
def test_a_planned_job_completes_too_and_the_operator_counts_its_cost_right(
    case: Case, deadline_hours: float | None
) -> None:
    deadline = None if deadline_hours is None else timedelta(hours=deadline_hours)
    job = replace(case.job, objective=Objective(deadline_after=deadline))
    knowledge = Known(samples_per_s={gpu: pace.value for gpu, pace in SPEED.paces.items()})

    found = play(job, **case.circumstances(), knowledge=knowledge)

    assert found.outcome is Outcome.COMPLETE, found.why
    assert found.num_trained == job.steps + found.num_lost
    assert abs(found.bill.usd - found.bill.idle_usd - found.status.cost.spent_usd) <= CENT
