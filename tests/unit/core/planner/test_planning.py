"""A job, a goal and pools in; a plan, or why there is none and what would do, out."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from ebbtide.core.models.start_up import Duration
from ebbtide.core.planner.inputs import Overheads, Running
from ebbtide.core.planner.planning import MOST_ALTERNATIVES, plan
from ebbtide.core.values.objective import Minimize
from support.questions import (
    NOW,
    ask,
    living,
    planned,
    pool_of,
    speed_of,
    workers_of,
)

SPOT = pool_of("spot", 1.0, spot=True)
DEMAND = pool_of("demand", 3.0)
SLOW = pool_of("slow", 0.5, gpu="K80")
SHRINKING = tuple(1 / (1 + 0.01 * others) for others in range(16))
START = Overheads(start_s=300.0, save_s=2.0, restore_s=20.0, reform_s=2.0)


def in_hours(hours: float) -> datetime:
    return NOW + timedelta(hours=hours)


# ------------------------------------------------------------------------- goals


def test_spot_is_taken_where_there_is_time() -> None:
    found = planned(plan(ask(SPOT, DEMAND, due=in_hours(10)), NOW))

    assert set(workers_of(found)) == {"spot"}


def test_on_demand_joins_where_spot_alone_is_too_slow() -> None:
    few = pool_of("spot", 1.0, spot=True, nodes=2)

    found = planned(plan(ask(few, DEMAND, due=in_hours(1)), NOW))

    assert workers_of(found) == {"spot": 2, "demand": 1}


# srifty.md, check 12: hours and USD of 100,000 iterations by node, at on-demand prices
ITERATIONS = {"1xK80": 0.619, "8xK80": 4.566, "1xV100": 4.395, "4xV100": 9.455, "8xV100": 17.30}
USD = {"1xK80": 0.90, "8xK80": 7.20, "1xV100": 3.06, "4xV100": 12.24, "8xV100": 24.48}
CATALOGUE = ask(
    *(pool_of(name.lower(), usd, gpu=name) for name, usd in USD.items()),
    speed=speed_of(ITERATIONS),
    steps_left=100_000,
    global_batch=1,
    sizes=(1,),
)


@pytest.mark.parametrize(
    ("hours", "node", "usd"),
    [(7.0, "1xv100", 19.34), (6.2, "4xv100", 35.97), (2.0, "8xv100", 39.30)],
)
def test_the_least_money_is_not_the_least_cost_per_hour(
    hours: float, node: str, usd: float
) -> None:
    found = planned(plan(replace(CATALOGUE, due=in_hours(hours)), NOW))

    assert workers_of(found) == {node: 1}
    assert float(found.predicted.cost_usd) == pytest.approx(usd, abs=0.05)


def test_the_most_speed_for_a_budget() -> None:
    question = replace(CATALOGUE, minimize=Minimize.TIME, budget_left_usd=Decimal(38))

    assert workers_of(planned(plan(question, NOW))) == {"4xv100": 1}


def test_time_is_bought_up_to_the_budget() -> None:
    question = ask(SLOW, DEMAND, minimize=Minimize.TIME, budget_left_usd=Decimal(9))

    found = planned(plan(question, NOW))

    assert found.predicted.cost_high_usd <= 9
    assert workers_of(found)["demand"] == 8


def test_the_least_time_takes_all_that_is_faster() -> None:
    found = planned(plan(ask(SLOW, DEMAND, SPOT, minimize=Minimize.TIME), NOW))

    assert found.workers == 16
    assert workers_of(found) == {"spot": 8, "demand": 8}


def test_a_deadline_and_a_budget_both_hold() -> None:
    question = ask(SPOT, DEMAND, due=in_hours(0.5), budget_left_usd=Decimal(8))

    found = planned(plan(question, NOW))

    assert found.predicted.finish_late <= in_hours(0.5)
    assert found.predicted.cost_high_usd <= 8


def test_what_is_spent_is_part_of_the_predicted_cost() -> None:
    question = ask(DEMAND)

    fresh = planned(plan(question, NOW)).predicted
    later = planned(plan(replace(question, spent_usd=Decimal("5.00")), NOW)).predicted

    assert later.cost_usd == fresh.cost_usd + 5
    assert later.cost_high_usd == fresh.cost_high_usd + 5


def test_what_runs_beside_the_workers_makes_larger_fleets_pay() -> None:
    alone = planned(plan(ask(DEMAND, speed=speed_of(efficiency=(1.0, 0.95, 0.9, 0.85))), NOW))
    beside = planned(
        plan(
            ask(
                DEMAND,
                speed=speed_of(efficiency=(1.0, 0.95, 0.9, 0.85)),
                fixed_usd_per_hour=Decimal(3),
            ),
            NOW,
        )
    )

    assert alone.workers == 1
    assert beside.workers > 1


# ------------------------------------------------------------------------- what limits a plan


def test_only_legal_sizes_are_planned() -> None:
    found = planned(
        plan(ask(DEMAND, sizes=(4, 8), speed=speed_of(efficiency=SHRINKING), due=in_hours(2)), NOW)
    )

    assert found.workers == 4


def test_whole_nodes_are_paid_for() -> None:
    # three workers need two nodes of two; one node of four costs less
    pairs, fours = pool_of("pairs", 2.0, per_node=2), pool_of("fours", 3.5, per_node=4)

    found = planned(plan(ask(pairs, fours, sizes=(3,)), NOW))

    assert workers_of(found) == {"fours": 3}
    assert float(found.predicted.cost_usd) == pytest.approx(3.5 * 3000 / 3600, abs=0.01)


def test_the_floor_is_on_demand() -> None:
    found = planned(plan(ask(SPOT, DEMAND, on_demand_floor=2, sizes=(4,)), NOW))

    assert workers_of(found) == {"demand": 2, "spot": 2}
    assert found.on_demand_floor == 2


def test_the_floor_counts_workers_not_nodes() -> None:
    spot, demand = pool_of("s", 2.0, per_node=4, spot=True), pool_of("d", 6.0, per_node=4)

    found = planned(plan(ask(spot, demand, on_demand_floor=1, sizes=(8,)), NOW))

    assert workers_of(found) == {"d": 4, "s": 4}


def test_nodes_that_are_not_free_are_not_planned() -> None:
    found = planned(plan(ask(replace(SPOT, free=1), DEMAND, sizes=(3,)), NOW))

    assert workers_of(found) == {"spot": 1, "demand": 2}


def test_shares_of_the_batch_follow_the_pace() -> None:
    found = planned(
        plan(ask(SLOW, pool_of("v", 3.0, nodes=1), sizes=(2,), minimize=Minimize.TIME), NOW)
    )

    shares = {share.pool: share.batch_share for share in found.shares}
    assert shares == {"v": pytest.approx(400 / 460), "slow": pytest.approx(60 / 460)}


# ------------------------------------------------------------------------- servers


def test_servers_are_counted_with_the_workers() -> None:
    question = ask(
        DEMAND,
        uses_servers=True,
        servers=(1, 8),
        server_usd_per_hour=Decimal("0.10"),
        speed=speed_of(server_samples_per_s=900.0),
        due=in_hours(0.7),
        fixed_usd_per_hour=Decimal("0.01"),
    )

    found = planned(plan(replace(question, servers=(1, 2)), NOW))
    free = planned(plan(question, NOW))

    # of the four servers that eight V100 fill, two let four V100 through; more workers cost only
    assert (found.workers, found.servers) == (4, 2)
    assert (free.workers, free.servers) == (8, 4)


def test_no_server_is_added_that_does_not_pay() -> None:
    question = ask(
        DEMAND,
        uses_servers=True,
        servers=(1, 8),
        server_usd_per_hour=Decimal("0.10"),
        speed=speed_of(server_samples_per_s=9000.0),
    )

    assert planned(plan(question, NOW)).servers == 1


def test_servers_are_enough_for_what_is_expected_too() -> None:
    """In bad cases two are enough; a third costs nothing, and then workers are the limit."""
    speed = speed_of({"V100": 400.0}, spread=1.5, server_samples_per_s=600.0)
    question = ask(
        pool_of("d", 1.0),
        sizes=(4,),
        speed=speed,
        uses_servers=True,
        servers=(1, 6),
        due=in_hours(2),
    )

    found = planned(plan(question, NOW))
    fewer = planned(plan(replace(question, servers=(2, 2)), NOW))

    assert found.servers == 3
    assert found.predicted.finish < fewer.predicted.finish
    assert found.predicted.finish_late == fewer.predicted.finish_late
    for due in (0.84, 0.9, 1.0, 2.0):
        chances = [
            planned(plan(replace(question, servers=(n, n), due=in_hours(due)), NOW)).predicted
            for n in (2, 3, 4)
        ]
        few, enough, more = (one.deadline_probability or 0.0 for one in chances)
        assert few <= enough <= more


def test_a_start_is_paid_by_the_node_and_decides_with_it() -> None:
    """Six workers on three nodes cost more than four on two; five are no step between."""
    question = ask(
        pool_of("d", 0.66, nodes=4, per_node=2),
        sizes=tuple(range(1, 8)),
        speed=speed_of({"V100": 383.0}, spread=1.2),
        due=in_hours(1),
        overheads=Overheads(start_s=600.0, save_s=3.0, restore_s=20.0, reform_s=1.0),
        fixed_usd_per_hour=Decimal("0.10"),
    )

    assert workers_of(planned(plan(question, NOW))) == {"d": 4}


def test_a_budget_with_starts_buys_as_much_beside_another_pool() -> None:
    question = ask(
        pool_of("a", 0.54, gpu="A", nodes=1, per_node=4, spot=True),
        pool_of("b", 0.56, gpu="B", nodes=1, per_node=4),
        sizes=(1, 2, 4, 8),
        speed=speed_of({"A": 143.0, "B": 372.0}, spread=1.2),
        minimize=Minimize.TIME,
        budget_left_usd=Decimal("1.00"),
        overheads=Overheads(start_s=600.0, save_s=3.0, restore_s=20.0, reform_s=1.0),
    )
    more = pool_of("zz", 0.9, gpu="B", nodes=2, per_node=2)

    assert workers_of(planned(plan(question, NOW))) == {"a": 4, "b": 4}
    richer = replace(question, pools=(*question.pools, more))
    assert workers_of(planned(plan(richer, NOW))) == {"a": 4, "b": 4}


def test_a_fixed_number_of_servers_is_kept() -> None:
    question = ask(DEMAND, uses_servers=True, servers=(3, 3))

    assert planned(plan(question, NOW)).servers == 3


# ------------------------------------------------------------------------- risk


def test_a_spot_pool_that_hardly_lives_is_worth_less_than_its_discount() -> None:
    short = pool_of("spot", 1.0, spot=True, life=living(0.05))
    question = ask(short, DEMAND, overheads=START, sizes=(4,))

    assert set(workers_of(planned(plan(question, NOW)))) == {"demand"}
    longer = replace(question, pools=(SPOT, DEMAND))
    assert set(workers_of(planned(plan(longer, NOW)))) == {"spot"}


def test_the_interval_follows_losses_and_the_cost_of_a_save() -> None:
    often = ask(pool_of("s", 1.0, spot=True, life=living(1.0)), overheads=START)
    rarely = ask(pool_of("s", 1.0, spot=True, life=living(24.0)), overheads=START)

    # Young: the root of 2 x 2 s x 3,600 s is 120 s
    seconds = planned(plan(often, NOW)).checkpoint_interval.total_seconds()
    assert seconds == pytest.approx(120, rel=0.05)
    assert planned(plan(rarely, NOW)).checkpoint_interval.total_seconds() > 4 * seconds


def test_a_fixed_interval_is_kept() -> None:
    question = ask(SPOT, overheads=START, checkpoint_interval=timedelta(seconds=77))

    assert planned(plan(question, NOW)).checkpoint_interval == timedelta(seconds=77)


def test_an_interval_is_never_below_a_second() -> None:
    assert planned(plan(ask(SPOT), NOW)).checkpoint_interval == timedelta(seconds=1)


def test_an_uncertain_speed_makes_the_plan_larger_and_the_interval_wide() -> None:
    known = speed_of(efficiency=SHRINKING)
    guess = speed_of(efficiency=SHRINKING, spread=1.5)
    sure = planned(plan(ask(DEMAND, speed=known, due=in_hours(1)), NOW))
    unsure = planned(plan(ask(DEMAND, speed=guess, due=in_hours(1)), NOW))

    assert unsure.workers > sure.workers
    late = unsure.predicted.finish_late - NOW
    assert late > 1.2 * (unsure.predicted.finish - NOW)
    assert unsure.predicted.deadline_probability is not None
    assert unsure.predicted.deadline_probability >= 0.9


def test_a_goal_that_is_met_as_expected_only_is_planned_as_fast_as_can_be() -> None:
    # eight V100 take 18.75 min; nine of ten times they take 25.7 min with this speed
    question = ask(DEMAND, speed=speed_of(spread=1.5), due=NOW + timedelta(minutes=20))

    found = planned(plan(question, NOW))

    assert found.workers == 8
    assert found.predicted.deadline_probability is not None
    assert 0.5 < found.predicted.deadline_probability < 0.9
    assert "no fleet makes that safer" in found.reason


def test_starts_count_in_time_and_money() -> None:
    quick = planned(plan(ask(DEMAND, sizes=(4,)), NOW)).predicted
    slow = planned(plan(ask(DEMAND, sizes=(4,), overheads=START), NOW)).predicted

    assert (slow.finish - quick.finish).total_seconds() == pytest.approx(300, abs=5)
    assert float(slow.cost_usd - quick.cost_usd) == pytest.approx(12 * 300 / 3600, abs=0.02)


def test_pools_that_start_too_late_for_the_deadline_are_left() -> None:
    late = Overheads(start_s=60.0, save_s=0.0, restore_s=0.0, reform_s=0.0)
    hour = planned(plan(ask(DEMAND, sizes=(8,), overheads=late), NOW))
    assert hour.predicted.finish < in_hours(0.5)

    slow = pool_of("cheap", 1.0, start_up=Duration(value=3000.0, low=2900, high=3100, beyond=False))
    question = ask(slow, DEMAND, overheads=late, due=in_hours(0.75))

    assert set(workers_of(planned(plan(question, NOW)))) == {"demand"}


# ------------------------------------------------------------------------- what is told


def test_the_reason_says_what_how_much_and_by_when() -> None:
    found = planned(plan(ask(SPOT, DEMAND, due=in_hours(10)), NOW))

    assert "on spot" in found.reason
    assert "USD" in found.reason
    assert "the deadline in 10 h is met with" in found.reason
    assert "\n" not in found.reason


def test_alternatives_are_distinct_and_say_why_they_lost() -> None:
    found = planned(plan(ask(SPOT, DEMAND, SLOW, due=in_hours(4)), NOW))

    shares = [found.shares, *(one.shares for one in found.alternatives)]
    fleets = [tuple((share.pool, share.replicas) for share in one) for one in shares]
    assert 2 <= len(found.alternatives) <= MOST_ALTERNATIVES
    assert len(set(fleets)) == len(fleets)
    assert all(any(letter.isdigit() for letter in one.why) for one in found.alternatives)
    assert any(one.why.startswith("all on demand") for one in found.alternatives)


def test_what_is_not_known_is_among_the_assumptions() -> None:
    odd = pool_of("odd", 1.0, gpu="X900")

    found = planned(plan(ask(DEMAND, odd, speed=speed_of(notes=("a guess",))), NOW))

    assert found.assumptions[0] == "a guess"
    assert "X900" in found.assumptions[1]
    assert "A100, K80, T4, V100" in found.assumptions[1]


# ------------------------------------------------------------------------- stability


def test_the_plan_that_runs_is_kept() -> None:
    question = ask(SPOT, DEMAND, overheads=START, due=in_hours(4))
    first = planned(plan(question, NOW))

    again = planned(plan(replace(question, running=Running(workers=workers_of(first))), NOW))

    assert workers_of(again) == workers_of(first)
    assert again.reason.startswith("keep")


def test_a_small_saving_is_not_worth_a_change() -> None:
    cheaper = pool_of("cheaper", 2.9)
    quick = replace(START, start_s=10.0)
    question = ask(
        DEMAND, cheaper, overheads=quick, sizes=(4,), running=Running(workers={"demand": 4})
    )

    found = planned(plan(question, NOW))

    assert workers_of(found) == {"demand": 4}
    assert "less than the 5% that a change must" in found.reason


def test_a_large_saving_is() -> None:
    question = ask(
        SPOT, DEMAND, overheads=START, sizes=(4,), running=Running(workers={"demand": 4})
    )

    assert workers_of(planned(plan(question, NOW))) == {"spot": 4}


def test_a_large_saving_on_little_work_is_not() -> None:
    question = ask(
        SPOT,
        DEMAND,
        overheads=START,
        sizes=(4,),
        steps_left=100,
        running=Running(workers={"demand": 4}),
    )

    assert workers_of(planned(plan(question, NOW))) == {"demand": 4}


def test_six_changes_in_an_hour_are_enough() -> None:
    changes = tuple(NOW - timedelta(minutes=8 * k) for k in range(1, 7))
    question = ask(
        SPOT,
        DEMAND,
        overheads=START,
        sizes=(4,),
        running=Running(workers={"demand": 4}, changes=changes),
    )

    kept = planned(plan(question, NOW))
    later = planned(plan(question, NOW + timedelta(minutes=30)))

    assert workers_of(kept) == {"demand": 4}
    assert "6 is the limit" in kept.reason
    assert workers_of(later) == {"spot": 4}


def test_more_changes_are_made_where_the_goal_would_be_missed() -> None:
    changes = tuple(NOW - timedelta(minutes=k) for k in range(1, 9))
    question = ask(
        SPOT,
        DEMAND,
        sizes=(1, 8),
        due=in_hours(0.6),
        running=Running(workers={"spot": 1}, changes=changes),
    )

    assert planned(plan(question, NOW)).workers == 8


def test_what_can_no_longer_run_is_replaced() -> None:
    gone = replace(SPOT, free=0)
    question = ask(gone, DEMAND, sizes=(2,), running=Running(workers={"spot": 2}))

    assert workers_of(planned(plan(question, NOW))) == {"demand": 2}


def test_a_plan_that_is_kept_may_go_without_its_losers_and_says_the_same() -> None:
    question = ask(
        pool_of("spot", 0.9, spot=True, life=living(6.0)),
        pool_of("demand", 3.0),
        sizes=(1, 2, 4),
        due=NOW + timedelta(hours=100),
    )
    first = planned(plan(question, NOW))
    running = replace(question, running=Running(workers=workers_of(first)))

    whole = planned(plan(running, NOW))
    short = planned(plan(replace(running, tells_losers=False), NOW))
    changed = planned(plan(replace(question, tells_losers=False), NOW))

    assert whole.alternatives
    assert short == replace(whole, alternatives=())
    assert changed == first
