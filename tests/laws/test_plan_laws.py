"""Laws of plans, for random pools, speeds and goals."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from random import Random

import hypothesis.strategies as st
from hypothesis import assume, given, settings

from ebbtide.core.planner.inputs import Inputs, Overheads, PoolState, Running
from ebbtide.core.planner.planning import plan
from ebbtide.core.planner.supply import Supply
from ebbtide.core.values.objective import Minimize
from ebbtide.core.values.plan import Infeasible, Plan
from ebbtide.core.values.pool import Market
from support.questions import NOW, ask, living, pool_of, speed_of, workers_of

GPUS = ("A", "B", "C")
INTERRUPTIONS = Overheads(start_s=0.0, save_s=3.0, restore_s=20.0, reform_s=1.0)
CENT = Decimal("0.02")
"""Two costs are each rounded to a cent."""


@st.composite
def pools(draw: st.DrawFn) -> tuple[PoolState, ...]:
    number = draw(st.integers(1, 5))
    return tuple(
        pool_of(
            f"pool-{place}",
            draw(st.integers(20, 400)) / 100,
            gpu=draw(st.sampled_from(GPUS)),
            nodes=draw(st.integers(1, 6)),
            spot=draw(st.booleans()),
            life=living(draw(st.sampled_from([2.0, 10.0, 40.0]))),
        )
        for place in range(number)
    )


@st.composite
def questions(draw: st.DrawFn, *, minimize: Minimize | None = None) -> Inputs:
    """Draw a question without starts: what they cost comes on top of what the solver counts."""
    most = draw(st.integers(1, 12))
    sizes = draw(st.sampled_from([tuple(range(1, most + 1)), (1, 2, 4, 8), (most,)]))
    paces = {gpu: draw(st.integers(50, 800)) for gpu in GPUS}
    loss = draw(st.sampled_from([0.0, 0.02, 0.1]))
    speed = speed_of(
        paces,
        spread=draw(st.sampled_from([1.0, 1.2])),
        efficiency=tuple(1 / (1 + loss * others) for others in range(12)),
    )
    hours = draw(st.sampled_from([None, 0.5, 1.0, 3.0, 10.0]))
    return ask(
        *draw(pools()),
        sizes=sizes,
        speed=speed,
        on_demand_floor=draw(st.sampled_from([0, 0, 1])),
        minimize=minimize or draw(st.sampled_from(list(Minimize))),
        due=None if hours is None else NOW + timedelta(hours=hours),
        fixed_usd_per_hour=Decimal(draw(st.sampled_from(["0", "0.10"]))),
        overheads=INTERRUPTIONS,
    )


def money(found: Plan | Infeasible) -> Decimal | None:
    return found.predicted.cost_high_usd if isinstance(found, Plan) else None


@settings(max_examples=40)
@given(questions())
def test_a_plan_is_legal_and_can_be_had(question: Inputs) -> None:
    found = plan(question, NOW)

    assume(isinstance(found, Plan))
    assert isinstance(found, Plan)
    rooms = {state.pool.name: state for state in question.pools}
    on_demand = sum(
        n for name, n in workers_of(found).items() if rooms[name].pool.market is Market.ON_DEMAND
    )
    assert found.workers in question.sizes
    assert on_demand >= question.on_demand_floor
    assert all(0 < n <= rooms[name].pool.max_nodes for name, n in workers_of(found).items())
    assert abs(sum(share.batch_share for share in found.shares) - 1) < 1e-9
    assert len(found.alternatives) <= 5
    assert found.predicted.finish <= found.predicted.finish_late
    assert found.predicted.cost_usd <= found.predicted.cost_high_usd


@settings(max_examples=40)
@given(questions(minimize=Minimize.COST), st.sampled_from([1.05, 1.5, 4.0]))
def test_a_later_deadline_never_costs_more(question: Inputs, factor: float) -> None:
    assume(question.due is not None)
    assert question.due is not None
    later = replace(question, due=NOW + (question.due - NOW) * factor)

    before, after = money(plan(question, NOW)), money(plan(later, NOW))

    if before is not None:
        assert after is not None
        assert after <= before + CENT


@settings(max_examples=40)
@given(questions(minimize=Minimize.COST), st.sampled_from([60.0, 600.0]))
def test_with_starts_that_holds_but_for_what_they_cost(question: Inputs, start_s: float) -> None:
    assume(question.due is not None)
    assert question.due is not None
    slow = replace(question, overheads=replace(INTERRUPTIONS, start_s=start_s))
    later = replace(slow, due=NOW + (question.due - NOW) * 2)

    before, after = plan(slow, NOW), plan(later, NOW)

    if isinstance(before, Plan):
        assert isinstance(after, Plan)
        hours = (after.predicted.finish_late - NOW).total_seconds() / 3600
        starts = float(after.predicted.cost_high_usd) * start_s / 3600 / hours
        more = float(after.predicted.cost_high_usd - before.predicted.cost_high_usd)
        assert more <= starts + 0.02


@settings(max_examples=40)
@given(questions(), pools())
def test_more_capacity_is_never_a_worse_plan(
    question: Inputs, others: tuple[PoolState, ...]
) -> None:
    named = [replace(one, pool=replace(one.pool, name=f"more-{one.pool.name}")) for one in others]
    richer = replace(question, pools=(*question.pools, *named))

    before, after = plan(question, NOW), plan(richer, NOW)

    if isinstance(before, Plan):
        assert isinstance(after, Plan)
        (level, value), (new_level, new_value) = worth(question, before), worth(question, after)
        assert new_level < level or (new_level == level and new_value <= value + 0.02)


def worth(question: Inputs, found: Plan) -> tuple[bool, float]:
    """Return whether the deadline is unsure, and what is small then: else the goal says."""
    late = found.predicted.finish_late
    is_unsure = question.due is not None and late > question.due
    if is_unsure or question.minimize is Minimize.TIME:
        return is_unsure, (late - NOW).total_seconds()
    return is_unsure, float(found.predicted.cost_high_usd)


def with_supply(question: Inputs, supplies: dict[str, Supply]) -> Inputs:
    pools = (replace(s, supply=supplies.get(s.pool.name, s.supply)) for s in question.pools)
    return replace(question, pools=tuple(pools))


def supplies_of(question: Inputs, chance: Random) -> tuple[dict[str, Supply], dict[str, Supply]]:
    """Draw a supply for each spot pool, and a better one."""
    spot = [s.pool.name for s in question.pools if s.pool.market is Market.SPOT]
    worse = {n: Supply(up_h=chance.uniform(0.5, 20), down_h=chance.uniform(0.2, 9)) for n in spot}
    better = {
        n: Supply(up_h=one.up_h * chance.uniform(1, 4), down_h=one.down_h / chance.uniform(1, 4))
        for n, one in worse.items()
    }
    return worse, better


@settings(max_examples=40)
@given(questions(minimize=Minimize.TIME), st.randoms(use_true_random=False))
def test_better_availability_is_never_a_later_end(question: Inputs, chance: Random) -> None:
    worse, better = supplies_of(question, chance)

    before = plan(with_supply(question, worse), NOW)
    after = plan(with_supply(question, better), NOW)

    if isinstance(before, Plan):
        assert isinstance(after, Plan)
        (level, value), (new_level, new_value) = worth(question, before), worth(question, after)
        assert new_level < level or (new_level == level and new_value <= value + 0.02)


@settings(max_examples=40)
@given(questions(minimize=Minimize.COST), st.randoms(use_true_random=False))
def test_better_availability_of_the_cheapest_pool_is_never_a_worse_plan(
    question: Inputs, chance: Random
) -> None:
    """Of one that is dear for its pace it may be: it is then paid for more of the time."""
    paces = question.speed.paces
    dear = Decimal(10_000)
    cheapest = min(
        question.pools,
        key=lambda s: float(s.pool.usd_per_node_hour) / paces[s.pool.gpu_type].value,
    )
    pool = replace(cheapest.pool, market=Market.SPOT, usd_per_node_hour=Decimal("0.01"))
    others = [
        replace(s, pool=replace(s.pool, market=Market.ON_DEMAND, usd_per_node_hour=dear), life=None)
        for s in question.pools
        if s is not cheapest
    ]
    few = replace(question, pools=(replace(cheapest, pool=pool), *others), on_demand_floor=0)
    worse, better = supplies_of(few, chance)

    before, after = plan(with_supply(few, worse), NOW), plan(with_supply(few, better), NOW)

    if isinstance(before, Plan):
        assert isinstance(after, Plan)
        (level, value), (new_level, new_value) = worth(few, before), worth(few, after)
        assert new_level < level or (new_level == level and new_value <= value * (1 + 1e-6) + 0.02)


@settings(max_examples=40)
@given(questions(), st.randoms(use_true_random=False))
def test_names_and_order_of_pools_change_nothing(question: Inputs, chance: Random) -> None:
    names = [state.pool.name for state in question.pools]
    renamed = dict(zip(names, chance.sample(names, len(names)), strict=True))
    shuffled = list(question.pools)
    chance.shuffle(shuffled)
    other = replace(
        question,
        pools=tuple(
            replace(state, pool=replace(state.pool, name=renamed[state.pool.name]))
            for state in shuffled
        ),
    )

    first, second = plan(question, NOW), plan(other, NOW)

    assert type(first) is type(second)
    if isinstance(first, Plan) and isinstance(second, Plan):
        assert first.predicted == second.predicted
        assert first.servers == second.servers
        kinds = [
            sorted((facts_of(state), found.replicas_in(state.pool.name)) for state in asked)
            for found, asked in ((first, question.pools), (second, other.pools))
        ]
        assert kinds[0] == kinds[1]


def facts_of(state: PoolState) -> tuple[object, ...]:
    """Return all that tells a pool from another but its name."""
    pool, life = state.pool, state.life
    alive = None if life is None else float(life.alive[-1])
    return pool.usd_per_node_hour, pool.gpu_type, pool.market, pool.max_nodes, alive or 0.0


@settings(max_examples=40)
@given(questions(), st.integers(50, 4000))
def test_the_budget_is_never_exceeded_in_expectation(question: Inputs, cents: int) -> None:
    budget = Decimal(cents) / 100

    found = plan(replace(question, budget_left_usd=budget), NOW)

    if isinstance(found, Plan):
        assert found.predicted.cost_usd <= budget + CENT
    else:
        assert found.reason


@settings(max_examples=40)
@given(questions(), st.sampled_from([0.0, 240.0]))
def test_what_was_planned_is_kept(question: Inputs, start_s: float) -> None:
    started = replace(question, overheads=replace(INTERRUPTIONS, start_s=start_s))
    first = plan(started, NOW)
    assume(isinstance(first, Plan))
    assert isinstance(first, Plan)

    running = Running(workers=workers_of(first), servers=first.servers)
    again = plan(replace(started, running=running), NOW)

    assert isinstance(again, Plan)
    assert workers_of(again) == workers_of(first)


@settings(max_examples=40)
@given(questions(), st.sampled_from([None, "0.40", "2.00", "9.00"]))
def test_what_refusals_offer_is_true(question: Inputs, budget: str | None) -> None:
    tight = replace(
        question,
        due=NOW + timedelta(minutes=4),
        budget_left_usd=None if budget is None else Decimal(budget),
    )

    found = plan(tight, NOW)

    if isinstance(found, Plan) or "no pool" in found.reason or "Replicas" in found.reason:
        return
    deadline, money_left = found.nearest_deadline, found.nearest_budget_usd
    if "both are needed" in found.reason:
        ways = [replace(tight, due=deadline, budget_left_usd=money_left)]
    else:
        ways = [
            *([] if deadline is None else [replace(tight, due=deadline)]),
            *([] if money_left is None else [replace(tight, budget_left_usd=money_left)]),
        ]
    for way in ways:
        assert isinstance(plan(way, NOW), Plan)


@settings(max_examples=30)
@given(questions())
def test_the_same_question_has_the_same_answer(question: Inputs) -> None:
    assert plan(question, NOW) == plan(question, NOW)
