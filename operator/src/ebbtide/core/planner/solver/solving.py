"""The solver: a question in, the best plan with its proof out, or why there is none."""

import math
from functools import partial
from typing import Final, assert_never

from ebbtide.core.planner.solver.answer import Answer, Infeasible, Method, Outcome
from ebbtide.core.planner.solver.canon import canonise
from ebbtide.core.planner.solver.checking import find_breaches, measure
from ebbtide.core.planner.solver.few import solve_few
from ebbtide.core.planner.solver.goals import Pick, count_servers, find_cheapest, find_fastest
from ebbtide.core.planner.solver.ground import Ground, Start, choose_sizes
from ebbtide.core.planner.solver.highs import ask_highs
from ebbtide.core.planner.solver.question import (
    CheapestAt,
    FastestFor,
    FastestWithin,
    LeastTotal,
    Question,
)
from ebbtide.core.planner.solver.ratio import find_fastest_within, find_least_total
from ebbtide.core.planner.solver.search import FallBack, Limits
from ebbtide.core.values.errors import EbbtideError

LIMITS: Final = Limits()


class BrokenPlanError(EbbtideError):
    """A plan of our own that breaks a limit: a fault of the solver, and never to be used."""


def solve(
    question: Question,
    *,
    before: tuple[Question, Answer] | None = None,
    limits: Limits = LIMITS,
    fall_back: FallBack = ask_highs,
) -> Outcome:
    """
    Return the best plan, or why there is none.

    `before` is an earlier question with its answer, for a warm start: it makes the answer faster,
    and may decide between plans that are equally good, but never makes it worse.
    """
    if before is not None and _still_holds(question, *before):
        return _keep(before[1])
    fleet = question.fleet
    if fleet.most_pools is not None:
        ask = partial(solve, limits=limits, fall_back=fall_back)
        return solve_few(question, fleet.most_pools, ask)
    kinds = canonise(fleet.pools)
    sizes = choose_sizes(fleet, kinds)
    if isinstance(sizes, str):
        return Infeasible(sizes, None)
    start = Start()
    if before is not None:
        same = type(before[0].goal) is type(question.goal)
        start = Start(
            kinds.merge(before[1].counts), (before[1].price_of_rate or None) if same else None
        )
    ground = Ground(fleet, kinds, sizes, fall_back, limits, start)
    # A single search finds by itself that a rate is out of reach.
    refused = None if _is_one_search(question) else _refuse(question, ground)
    if refused is not None:
        return refused
    pick = _pick(question, ground)
    if pick is None:
        return _refuse(question, ground) or _explain(question, ground)
    return _answer(question, ground, pick)


def _pick(question: Question, ground: Ground) -> Pick | None:
    match question.goal:
        case CheapestAt(rate):
            return find_cheapest(ground, rate)
        case FastestFor(budget):
            return find_fastest(ground, budget)
        case LeastTotal(rate):
            return find_least_total(ground, rate)
        case FastestWithin(limit):
            return find_fastest_within(ground, limit)
        case _:
            assert_never(question.goal)


def _answer(question: Question, ground: Ground, pick: Pick) -> Answer:
    counts = ground.kinds.deal(pick.plan)
    breaches = find_breaches(question, counts, pick.servers)
    if breaches:
        raise BrokenPlanError("; ".join(breaches))
    cost, rate = measure(question.fleet, counts, pick.servers)
    match question.goal:
        case CheapestAt():
            value = cost
        case LeastTotal():
            value = cost / rate
        case FastestFor() | FastestWithin():
            value = rate
        case _:
            assert_never(question.goal)
    return Answer(
        counts=counts,
        servers=pick.servers,
        cost=cost,
        rate=rate,
        bound=value if ground.proven else pick.bound,
        proven=ground.proven,
        gap=0.0 if ground.proven else abs(value - pick.bound) / abs(value),
        method=Method.HIGHS if ground.num_fall_backs else Method.LIST,
        price_of_rate=ground.price,
    )


# ------------------------------------------------------------------------- no plan


def _is_one_search(question: Question) -> bool:
    goal, servers = question.goal, question.fleet.servers
    if not isinstance(goal, CheapestAt):
        return False
    return servers is None or count_servers(servers, goal.rate) <= servers.most


def _refuse(question: Question, ground: Ground) -> Infeasible | None:
    """Say at once that a rate is out of reach: no numbers of such a problem are ever read."""
    goal, servers = question.goal, ground.fleet.servers
    if not isinstance(goal, CheapestAt | LeastTotal):
        return None
    most = ground.most_rate()
    text = f"the pools give a rate of {most:g} at most"
    if servers is not None and servers.most * servers.rate < most:
        most = servers.most * servers.rate
        text = f"{servers.most} servers let a rate of {most:g} through at most"
    if goal.rate <= most and count_servers(servers, goal.rate) <= (servers.most if servers else 0):
        return None
    return Infeasible(f"{text}; {goal.rate:g} is asked for", most)


def _explain(question: Question, ground: Ground) -> Infeasible:
    goal, servers = question.goal, ground.fleet.servers
    match goal:
        case CheapestAt(rate) | LeastTotal(rate):
            most = ground.most_rate()
            return Infeasible(
                f"the pools give a rate of {most:g} at most; {rate:g} is asked for", most
            )
        case FastestFor(budget):
            least = ground.least_cost() + (servers.usd_per_hour if servers else 0.0)
            text = f"the cheapest legal plan costs {least:g} USD per hour, the budget is {budget:g}"
            return Infeasible(text, least)
        case FastestWithin(limit):
            pick = find_least_total(ground, 0.0)
            least = math.nan if pick is None else pick.bound
            text = f"a unit of work costs {least:g} USD at least, the budget is {limit:g}"
            return Infeasible(text, least)
        case _:
            assert_never(goal)


# ------------------------------------------------------------------------- warm starts


def _still_holds(question: Question, asked: Question, answer: Answer) -> bool:
    """Tell whether only capacity has gone since, and none that the answer uses."""
    if not answer.proven or question.goal != asked.goal:
        return False
    now, then = question.fleet, asked.fleet
    if len(now.pools) != len(then.pools):
        return False
    rest = (
        now.sizes == then.sizes,
        now.most_nodes == then.most_nodes,
        now.on_demand_floor == then.on_demand_floor,
        now.servers == then.servers,
        now.efficiency == then.efficiency,
        now.most_pools == then.most_pools,
    )
    if not all(rest):
        return False
    old = {pool.name: pool for pool in then.pools}
    for pool in now.pools:
        known = old.get(pool.name)
        if known is None or pool.most > known.most or pool.most < answer.counts.get(pool.name, 0):
            return False
        same = (known.usd_per_hour, known.rate, known.is_on_demand)
        if same != (pool.usd_per_hour, pool.rate, pool.is_on_demand):
            return False
    return True


def _keep(answer: Answer) -> Answer:
    return Answer(
        counts=answer.counts,
        servers=answer.servers,
        cost=answer.cost,
        rate=answer.rate,
        bound=answer.bound,
        proven=answer.proven,
        gap=answer.gap,
        method=Method.KEPT,
        price_of_rate=answer.price_of_rate,
    )
