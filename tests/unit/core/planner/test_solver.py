"""A fleet and a goal in, the best plan with its proof out."""

from dataclasses import replace

import pytest

from ebbtide.core.planner.solver.answer import Infeasible, Method
from ebbtide.core.planner.solver.checking import find_breaches
from ebbtide.core.planner.solver.question import (
    CheapestAt,
    FastestFor,
    FastestWithin,
    Fleet,
    Goal,
    LeastTotal,
    PoolOffer,
    Question,
    QuestionError,
    Servers,
)
from ebbtide.core.planner.solver.solving import solve
from support.fleets import expect, make_fleet

SPOT_AND_DEMAND = make_fleet((1.0, 1.0, 4), (2.0, 3.0, 2), (4.0, 3.0, 5, True))


def infeasible(fleet: Fleet, goal: Goal) -> Infeasible:
    found = solve(Question(fleet, goal))
    assert isinstance(found, Infeasible)
    return found


# ------------------------------------------------------------------------- the four goals


def test_takes_the_cheapest_nodes_that_reach_a_rate() -> None:
    answer = expect(solve(Question(SPOT_AND_DEMAND, CheapestAt(7.0))))

    assert answer.counts == {"a": 1, "b": 2}
    assert (answer.cost, answer.rate, answer.nodes) == (5.0, 7.0, 3)
    assert (answer.proven, answer.bound, answer.gap) == (True, 5.0, 0.0)


def test_takes_the_fastest_nodes_that_a_budget_pays() -> None:
    answer = expect(solve(Question(SPOT_AND_DEMAND, FastestFor(8.5))))

    assert answer.rate == 10.0
    assert answer.cost <= 8.5


def test_total_money_is_not_the_cost_rate() -> None:
    # Eight slow nodes cost less per hour; the fast one is done sooner and costs less in all.
    fleet = make_fleet((7.2, 4.6, 1), (12.24, 9.5, 1), most_nodes=1)

    by_hour = expect(solve(Question(fleet, CheapestAt(4.5))))
    in_all = expect(solve(Question(fleet, LeastTotal(4.5))))

    assert (by_hour.counts, in_all.counts) == ({"a": 1}, {"b": 1})


def test_least_total_without_a_deadline_is_the_best_price_for_a_rate() -> None:
    answer = expect(solve(Question(SPOT_AND_DEMAND, LeastTotal())))

    assert answer.counts.keys() == {"b"}
    assert answer.cost_over_rate == pytest.approx(2 / 3)


def test_a_budget_for_the_whole_work_buys_what_pays_for_itself() -> None:
    answer = expect(solve(Question(SPOT_AND_DEMAND, FastestWithin(1.0))))

    # All spot nodes leave 2 USD per hour to spare: one on-demand node takes 1 of them.
    assert answer.counts == {"a": 4, "b": 2, "c": 2}
    assert answer.cost_over_rate <= 1.0


# ------------------------------------------------------------------------- limits


def test_only_legal_sizes_are_chosen() -> None:
    fleet = replace(SPOT_AND_DEMAND, sizes=(1, 4, 8))

    assert expect(solve(Question(fleet, CheapestAt(7.0)))).nodes == 4


def test_sizes_in_a_row_are_a_range() -> None:
    fleet = replace(SPOT_AND_DEMAND, sizes=(4, 5, 6))

    assert expect(solve(Question(fleet, CheapestAt(1.0)))).counts == {"a": 4}


def test_no_more_nodes_than_the_limit() -> None:
    fleet = replace(SPOT_AND_DEMAND, most_nodes=3)

    assert expect(solve(Question(fleet, CheapestAt(9.0)))).counts == {"b": 2, "c": 1}


def test_the_floor_is_on_demand() -> None:
    fleet = replace(SPOT_AND_DEMAND, on_demand_floor=2)

    assert expect(solve(Question(fleet, CheapestAt(7.0)))).counts == {"a": 1, "c": 2}


def test_servers_come_with_the_rate_that_they_let_through() -> None:
    fleet = replace(SPOT_AND_DEMAND, servers=Servers(0.5, 3.0, 4))

    answer = expect(solve(Question(fleet, CheapestAt(7.0))))

    assert (answer.servers, answer.cost) == (3, 6.5)


def test_a_server_more_is_bought_only_when_it_pays() -> None:
    fleet = make_fleet((1.0, 1.0, 10), servers=Servers(2.0, 4.0, 3))

    # One server: 4. Two: 12 - 4 = 8 nodes, 8. Three: 6 nodes, and the servers wait.
    answer = expect(solve(Question(fleet, FastestFor(12.0))))

    assert (answer.servers, answer.rate) == (2, 8.0)


def test_nodes_beyond_what_servers_let_through_are_not_bought() -> None:
    fleet = make_fleet((1.0, 1.0, 50), servers=Servers(0.1, 4.0, 2))

    answer = expect(solve(Question(fleet, FastestFor(100.0))))

    assert (answer.servers, answer.rate, answer.nodes) == (2, 8.0, 8)


@pytest.mark.parametrize(
    ("limit", "rate", "servers"),
    [
        pytest.param(2.0, 8.0, 2, id="all servers pay"),
        pytest.param(1.5, 8.0, 2, id="just"),
        pytest.param(1.34, 6.0, 2, id="the second server is not full"),
    ],
)
def test_servers_are_paid_from_the_budget_for_the_whole_work(
    limit: float, rate: float, servers: int
) -> None:
    fleet = make_fleet((1.0, 1.0, 6), (1.5, 1.0, 6), servers=Servers(1.0, 4.0, 2))

    answer = expect(solve(Question(fleet, FastestWithin(limit))))

    assert (answer.rate, answer.servers) == (rate, servers)


def test_the_least_total_counts_the_servers() -> None:
    # One full server carries four nodes: 6 USD for a rate of 4; anything else is dearer.
    fleet = make_fleet((1.0, 1.0, 9), servers=Servers(2.0, 4.0, 3))

    answer = expect(solve(Question(fleet, LeastTotal())))

    assert (answer.servers, answer.nodes) in {(1, 4), (2, 8)}
    assert answer.cost_over_rate == pytest.approx(1.5)


def test_all_reduces_cost_more_the_more_nodes_there_are() -> None:
    fleet = make_fleet((1.0, 1.0, 8), (3.5, 2.0, 4), efficiency=(1.0, 0.9, 0.8, 0.5))

    # Four small nodes reach 2.0, three 2.4; more rate takes the dear ones.
    assert expect(solve(Question(fleet, CheapestAt(2.4)))).counts == {"a": 3}
    assert expect(solve(Question(fleet, CheapestAt(3.0)))).counts == {"a": 2, "b": 1}
    assert expect(solve(Question(fleet, FastestFor(4.0)))).counts == {"a": 3}


# ------------------------------------------------------------------------- no plan


def test_b095_numbers_of_an_infeasible_problem_are_never_used() -> None:
    fleet = make_fleet((1.0, 1.0, 5))

    too_fast = infeasible(fleet, CheapestAt(9.0))
    too_cheap = infeasible(fleet, FastestFor(0.5))
    too_thrifty = infeasible(fleet, FastestWithin(0.9))

    assert too_fast == Infeasible("the pools give a rate of 5 at most; 9 is asked for", 5.0)
    assert too_cheap.nearest == 1.0
    assert too_thrifty.nearest == 1.0
    # Loosened to the nearest goal, each has a plan.
    assert expect(solve(Question(fleet, CheapestAt(5.0)))).counts == {"a": 5}
    assert expect(solve(Question(fleet, FastestFor(1.0)))).counts == {"a": 1}
    assert expect(solve(Question(fleet, FastestWithin(1.0)))).counts == {"a": 5}


def test_b095_budget_and_deadline_name_the_limit_that_binds() -> None:
    # A hundred hours of one node as a rate: 100 an hour within the deadline of one hour.
    fleet = make_fleet((1.0, 1.0, 8))

    assert infeasible(fleet, CheapestAt(100.0)).reason.startswith("the pools give a rate of 8")
    budget = infeasible(fleet, FastestWithin(1.0 / 100))
    assert budget.reason == "a unit of work costs 1 USD at least, the budget is 0.01"


def test_too_few_servers_are_the_reason() -> None:
    fleet = make_fleet((1.0, 1.0, 8), servers=Servers(1.0, 2.0, 2))

    found = infeasible(fleet, CheapestAt(5.0))

    assert found == Infeasible("2 servers let a rate of 4 through at most; 5 is asked for", 4.0)


def test_a_budget_that_pays_no_server_is_told() -> None:
    fleet = make_fleet((1.0, 1.0, 8), servers=Servers(3.0, 2.0, 2))

    assert infeasible(fleet, FastestFor(3.5)).nearest == 4.0
    assert infeasible(fleet, FastestFor(3.0)).nearest == 4.0


@pytest.mark.parametrize(
    ("fleet", "reason"),
    [
        (Fleet(pools=()), "no pool has a node to give"),
        (make_fleet((1.0, 1.0, 0)), "no pool has a node to give"),
        (
            make_fleet((1.0, 1.0, 3), on_demand_floor=1),
            "1 on-demand nodes are asked for, and the pools have 0",
        ),
        (
            make_fleet((1.0, 1.0, 3), sizes=(4, 8)),
            "only 1 to 3 nodes are possible; legal are 4, 8",
        ),
        (
            make_fleet((1.0, 1.0, 3, True), on_demand_floor=2, most_nodes=1),
            "only 2 to 1 nodes are possible",
        ),
    ],
)
def test_a_fleet_without_any_legal_plan_is_told_why(fleet: Fleet, reason: str) -> None:
    assert infeasible(fleet, CheapestAt(1.0)) == Infeasible(reason, None)


# ------------------------------------------------------------------------- bad questions


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        ((0.0, 1.0, 1), "a price of 0.0 USD per hour; a finite number above 0 is right"),
        ((float("nan"), 1.0, 1), "a price of nan"),
        ((1.0, 0.0, 1), "a rate of 0.0; leave out what does no work"),
        ((1.0, float("inf"), 1), "a rate of inf"),
        ((1.0, 1.0, -1), "at most -1 nodes; from 0 to"),
    ],
)
def test_a_pool_without_sense_is_refused(pool: tuple[float, float, int], message: str) -> None:
    with pytest.raises(QuestionError, match="pool a: ") as found:
        make_fleet(pool)
    assert message in str(found.value)


def test_a_fleet_without_sense_is_refused() -> None:
    pool = PoolOffer("a", 1.0, 1.0, 1)
    with pytest.raises(QuestionError, match="two pools of one name: a"):
        Fleet(pools=(pool, pool))
    with pytest.raises(QuestionError, match="a legal size of 0; 1 or more"):
        Fleet(pools=(pool,), sizes=(4, 0))
    with pytest.raises(QuestionError, match="at most 0 nodes; 1 or more"):
        Fleet(pools=(pool,), most_nodes=0)
    with pytest.raises(QuestionError, match="a floor of -1 nodes; 0 or more"):
        Fleet(pools=(pool,), on_demand_floor=-1)
    with pytest.raises(QuestionError, match=r"an efficiency of 0\.0 for 2 nodes"):
        Fleet(pools=(pool,), efficiency=(1.0, 0.0))


def test_servers_and_goals_without_sense_are_refused() -> None:
    for build, message in (
        (lambda: Servers(-1.0, 1.0, 1), "a server at -1.0 USD"),
        (lambda: Servers(1.0, 0.0, 1), "servers: a rate of 0.0"),
        (lambda: Servers(1.0, 1.0, 0), "at most 0 servers"),
        (lambda: CheapestAt(0.0), "a demanded rate of 0.0"),
        (lambda: FastestFor(-1.0), "a budget of -1.0 USD per hour"),
        (lambda: LeastTotal(-1.0), "a demanded rate of -1.0; 0 or more"),
        (lambda: FastestWithin(float("nan")), "a budget of nan USD for a unit"),
    ):
        with pytest.raises(QuestionError, match=message):
            build()


# ------------------------------------------------------------------------- order, warm starts


def test_what_differs_only_in_name_is_dealt_out_by_limit_and_name() -> None:
    pools = tuple(PoolOffer(name, 1.0, 1.0, most) for name, most in (("z", 2), ("b", 3), ("a", 2)))
    fleet = Fleet(pools=pools)
    turned = Fleet(pools=pools[::-1])

    for found in (fleet, turned):
        assert expect(solve(Question(found, CheapestAt(4.0)))).counts == {"a": 1, "b": 3}


def test_an_answer_holds_while_only_unused_capacity_goes() -> None:
    question = Question(SPOT_AND_DEMAND, CheapestAt(7.0))
    answer = expect(solve(question))
    fewer = replace(SPOT_AND_DEMAND, pools=_with_most(SPOT_AND_DEMAND, a=1, c=0))

    kept = expect(solve(Question(fewer, CheapestAt(7.0)), before=(question, answer)))

    assert kept.method is Method.KEPT
    assert (kept.counts, kept.bound) == (answer.counts, answer.bound)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(Question(SPOT_AND_DEMAND, CheapestAt(6.0)), id="another rate"),
        pytest.param(Question(SPOT_AND_DEMAND, FastestFor(6.0)), id="another goal"),
        pytest.param(
            Question(replace(SPOT_AND_DEMAND, sizes=(3, 5)), CheapestAt(7.0)), id="other sizes"
        ),
        pytest.param(
            Question(
                make_fleet((1.0, 1.0, 4), (2.0, 3.0, 1), (4.0, 3.0, 5, True)), CheapestAt(7.0)
            ),
            id="what it uses has gone",
        ),
        pytest.param(
            Question(
                make_fleet((1.0, 1.0, 4), (2.5, 3.0, 2), (4.0, 3.0, 5, True)), CheapestAt(7.0)
            ),
            id="another price",
        ),
        pytest.param(
            Question(
                make_fleet((1.0, 1.0, 4), (2.0, 3.0, 3), (4.0, 3.0, 5, True)), CheapestAt(7.0)
            ),
            id="more capacity",
        ),
        pytest.param(
            Question(make_fleet((1.0, 1.0, 4), (2.0, 3.0, 2)), CheapestAt(7.0)), id="a pool less"
        ),
    ],
)
def test_whatever_else_changes_a_warm_answer_is_as_good_as_a_cold_one(changed: Question) -> None:
    before = Question(SPOT_AND_DEMAND, CheapestAt(7.0))

    warm = expect(solve(changed, before=(before, expect(solve(before)))))
    cold = expect(solve(changed))

    assert warm.method is not Method.KEPT
    assert (warm.cost, warm.rate) == (cold.cost, cold.rate)


def _with_most(fleet: Fleet, **most: int) -> tuple[PoolOffer, ...]:
    return tuple(replace(pool, most=most.get(pool.name, pool.most)) for pool in fleet.pools)


# ------------------------------------------------------------------------- the check


@pytest.mark.parametrize(
    ("counts", "servers", "breach"),
    [
        ({"a": 5, "c": 1}, 1, "5 nodes of pool a, which has 4"),
        ({"q": 1, "c": 2}, 1, "there is no pool q"),
        ({"a": 3}, 1, "0 nodes on demand, fewer than 1"),
        ({}, 1, "no node at all"),
        ({"c": 2}, 1, "2 nodes are no legal size"),
        ({"a": 4, "c": 5}, 1, "9 nodes, more than 6"),
        ({"a": 4, "c": 5}, 1, "the efficiency of 9 nodes is not known"),
        ({"a": 2, "c": 1}, 3, "3 servers, not 1 to 2"),
        ({"a": 2, "c": 1}, 1, "a rate of 2, below 3"),
    ],
)
def test_the_check_names_what_a_plan_breaks(
    counts: dict[str, int], servers: int, breach: str
) -> None:
    fleet = replace(
        SPOT_AND_DEMAND,
        sizes=(1, 3, 6, 9),
        most_nodes=6,
        on_demand_floor=1,
        servers=Servers(1.0, 2.0, 2),
        efficiency=(1.0,) * 6,
    )

    assert breach in find_breaches(Question(fleet, CheapestAt(3.0)), counts, servers)


def test_the_check_knows_budgets() -> None:
    counts = {"a": 4}

    assert find_breaches(Question(SPOT_AND_DEMAND, FastestFor(3.0)), counts, 0) == (
        "4 USD per hour, above 3",
    )
    assert find_breaches(Question(SPOT_AND_DEMAND, FastestWithin(0.5)), counts, 0) == (
        "4 USD per hour at a rate of 4, above 0.5 for each unit",
    )
    assert find_breaches(Question(SPOT_AND_DEMAND, LeastTotal(4.0)), counts, 0) == ()
