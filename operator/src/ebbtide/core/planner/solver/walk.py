"""
Every way to leave what the prices choose that could be better, one node at a time.

A state is one choice for all pools but the last two (three where the floor costs). Pools come in
the order of their distance, so a state is changed on by its last pool or a later one as long as the
room lasts, and no way is looked at twice. The last two are closed at once: the best split of what
is left to them. A better plan makes the room smaller at once; the reach grows in passes, so that
good plans are found before many states are.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from ebbtide.core.planner.solver.compiled import kernel
from ebbtide.core.planner.solver.cover import Floats, Places
from ebbtide.core.planner.solver.reduce import Reduced
from ebbtide.core.planner.solver.table import Best, Table, goal_below, take

DEEP: Final = 200
"""Changed nodes of one state at most; more are given up."""
FIRST: Final = 3
"""The first reach is the distance of so many pools."""
GROWTH: Final = 1.4
BEYOND: Final = -1
"""In place of a pool: one node on demand beyond the floor."""
NONE: Final = -1


class Tail(NamedTuple):
    """The pools that are left to the end: the faster of two, the other, and one by the floor."""

    first: int
    second: int
    by_floor: int
    """NONE where there is none."""
    amounts: Floats
    """Nodes of each of the three, where a state was closed last."""


class Steps(NamedTuple):
    """What a state can be changed by, the nearest first."""

    num: int
    pools: Places
    columns: Floats
    """
    Rows: distance, nodes, rate, cost, on-demand nodes, how often, and how often it is by now.

    And how far all that must come before goes.
    """
    before: Places
    """The step that must be taken whole before this one; NONE where there is none."""


class Path(NamedTuple):
    """How a walk goes."""

    tail: Tail
    steps: Steps
    reach: float


@kernel
def count_ways(table: Table, size: Reduced, reach: float) -> Floats:
    """Return how many nodes of each pool can change within the reach; of as many the nearest."""
    ways = np.empty(len(size.costs))
    for pool in range(len(ways)):
        far = abs(size.costs[pool])
        spread = table.most[pool] - table.least[pool]
        ways[pool] = (min(spread, reach / far) if far > 0 else spread) - 1e-3 * far / (far + reach)
    return ways


@kernel
def choose_tail(table: Table, size: Reduced, reach: float, apart: float) -> Tail:
    """
    Leave the pools to the end of which most nodes can change within the reach.

    The rates of the two that are closed at once are apart by more than so much, if there are any.
    """
    ways = count_ways(table, size, reach)
    first = int(np.argmax(ways))
    second, by_floor, can_differ = first, NONE, False
    for pool in range(len(ways)):
        if size.on_demand > 0 and table.market[pool] != table.market[first]:
            if by_floor == NONE or ways[pool] > ways[by_floor]:
                by_floor = pool
            continue
        differs = abs(table.rate[pool] - table.rate[first]) > apart
        if pool != first and (
            second == first
            or (differs and not can_differ)
            or (differs == can_differ and ways[pool] > ways[second])
        ):
            second, can_differ = pool, differs
    if table.rate[first] < table.rate[second]:
        first, second = second, first
    return Tail(first, second, by_floor, np.zeros(3))


@kernel
def dominates(table: Table, one: int, other: int, place: int) -> bool:
    """Tell whether some best plan has no node of the other while this one has any to spare."""
    dearer = table.cost[one] - table.cost[other]
    faster = table.rate[one] - table.rate[other]
    # Where the rate may be too high, only pools of one rate are exchanged.
    if dearer > 0 or faster < 0 or (faster > 0 and table.top[place] < np.inf):
        return False
    if table.floor > 0 and table.market[one] < table.market[other]:
        return False
    # Of two that are alike the first.
    return dearer < 0 or faster > 0 or one < other


@kernel
def list_near(table: Table, size: Reduced, tail: Tail, reach: float) -> Places:
    """Return the pools of which a node can change within the reach, the nearest first."""
    num, pools = 0, np.empty(len(size.costs) + 1, dtype=np.int64)
    far = np.empty(len(pools))
    for pool in range(len(size.costs)):
        is_last = pool in (tail.first, tail.second, tail.by_floor)
        if not is_last and table.most[pool] > table.least[pool]:
            far[num] = abs(size.costs[pool])
            if far[num] < reach:
                pools[num] = pool
                num += 1
    if tail.by_floor != NONE and size.on_demand < reach:
        pools[num], far[num] = BEYOND, size.on_demand
        num += 1
    near: Places = pools[:num][np.argsort(far[:num], kind="mergesort")]
    return near


@kernel
def find_before(table: Table, size: Reduced, steps: Steps, pool: int) -> tuple[int, float]:
    """Return the last of the steps that must be taken before a pool changes, and how far all go."""
    needs, total = NONE, 0.0
    comes = size.costs[pool] >= 0
    for step in range(steps.num):
        other = steps.pools[step]
        if other == BEYOND or (size.costs[other] >= 0) != comes:
            continue
        one, two = (other, pool) if comes else (pool, other)
        if dominates(table, one, two, size.place):
            needs = step
            total += steps.columns[0, step] * steps.columns[5, step]
    return needs, total


@kernel
def list_steps(table: Table, size: Reduced, tail: Tail, reach: float) -> Steps:
    """List the steps within the reach; what must come first counts with its distance."""
    near = list_near(table, size, tail, reach)
    columns, before, num = np.zeros((8, len(near))), np.full(len(near), NONE), 0
    for pool in near:
        steps = Steps(num, near, columns, before)
        sign, far = 0.0, size.on_demand
        columns[4, num], columns[5, num] = -1.0, np.inf
        if pool != BEYOND:
            sign, far = -1.0 if size.costs[pool] < 0 else 1.0, abs(size.costs[pool])
            before[num], total = find_before(table, size, steps, pool)
            if far + total >= reach:
                continue
            columns[7, num] = total
            columns[4, num] = sign * table.market[pool]
            columns[5, num] = table.most[pool] - table.least[pool]
        columns[0, num], columns[1, num] = far, sign
        if pool != BEYOND:
            columns[2, num], columns[3, num] = sign * table.rate[pool], sign * table.cost[pool]
        near[num] = pool
        num += 1
    return Steps(num, near, columns, before)


@kernel
def start_sums(table: Table, size: Reduced, tail: Tail, sums: Floats) -> None:
    """Write distance, nodes, rate, cost and on-demand nodes of x^ without the last pools."""
    sums[:] = 0.0
    for pool in range(len(size.costs)):
        if pool not in (tail.first, tail.second, tail.by_floor):
            count = table.most[pool] if size.costs[pool] < 0 else table.least[pool]
            sums[1] += count
            sums[2] += count * table.rate[pool]
            sums[3] += count * table.cost[pool]
            sums[4] += count * table.market[pool]


@kernel
def split(table: Table, tail: Tail, left: float, missing: float) -> tuple[float, float]:
    """
    Return the least and the most nodes of the first of the two, by the limits of both.

    Args:
        table: the numbers of all pools.
        tail: the pools that are left.
        left: nodes that the two have together.
        missing: how many of them must be on demand.

    """
    first, second = tail.first, tail.second
    low, high = table.least[first], table.most[first]
    if first == second:
        low, high = max(low, left), min(high, left)
    else:
        low, high = max(low, left - table.most[second]), min(high, left - table.least[second])
    if missing > 0:
        one, two = table.market[first], table.market[second]
        if one > two:
            low = max(low, missing)
        elif one < two:
            high = min(high, left - missing)
        elif missing > left * one:
            low = np.inf
    return low, high


@kernel
def close(table: Table, place: int, tail: Tail, sums: Floats) -> float:
    """Return the cost of the best plan that a state can be completed to; write the last pools."""
    first, second, by_floor = tail.first, tail.second, tail.by_floor
    left, rate, cost, missing = (
        table.sizes[place] - sums[1],
        sums[2],
        sums[3],
        table.floor - sums[4],
    )
    if by_floor != NONE:
        count = missing if table.market[by_floor] > 0 else left - missing
        if not table.least[by_floor] <= count <= table.most[by_floor]:
            return np.inf
        tail.amounts[2] = count
        left -= count
        rate += count * table.rate[by_floor]
        cost += count * table.cost[by_floor]
        missing -= count * table.market[by_floor]
    low, high = split(table, tail, left, missing)
    rate += table.rate[second] * left
    step = table.rate[first] - table.rate[second]
    enough = table.demand[place] - table.slack[place]
    much = table.top[place] + table.slack[place]
    if step > 0:
        if enough > rate:
            low = max(low, math.ceil((enough - rate) / step))
        if much < np.inf:
            high = min(high, math.floor((much - rate) / step))
    elif not enough <= rate <= much:
        return np.inf
    if low > high:
        return np.inf
    amount = low if table.cost[first] >= table.cost[second] else high
    tail.amounts[0], tail.amounts[1] = amount, left - amount
    found: float = cost + table.cost[first] * amount + table.cost[second] * (left - amount)
    return found


@kernel
def complete(table: Table, size: Reduced, tail: Tail, steps: Steps) -> Floats:
    """Return the plan of the state that was closed last."""
    plan = np.empty(len(size.costs))
    for pool in range(len(plan)):
        plan[pool] = table.most[pool] if size.costs[pool] < 0 else table.least[pool]
    plan[tail.second] = tail.amounts[1]
    plan[tail.first] = tail.amounts[0]
    if tail.by_floor != NONE:
        plan[tail.by_floor] = tail.amounts[2]
    for step in range(steps.num):
        if steps.pools[step] != BEYOND:
            plan[steps.pools[step]] += steps.columns[1, step] * steps.columns[6, step]
    return plan


@kernel
def walk(table: Table, size: Reduced, best: Best, path: Path) -> bool:
    """Close all states within the reach and the room; tell whether they were few enough."""
    tail, steps, reach = path
    columns, before = steps.columns, steps.before
    sums, taken = np.empty((DEEP + 1, 5)), np.empty(DEEP + 1, dtype=np.int64)
    start_sums(table, size, tail, sums[0])
    scale = table.scale[size.place]
    limit = min(reach, goal_below(table, best) / scale - size.base)
    depth, step, is_new = 0, 0, True
    while True:
        if is_new:
            if scale * close(table, size.place, tail, sums[depth]) < best.value[0]:
                if not take(table, best, complete(table, size, tail, steps), size.place):
                    return False
                limit = min(reach, goal_below(table, best) / scale - size.base)
            best.left[0] -= 1
            if best.left[0] < 0 or depth == DEEP:
                return False
        is_new = False
        if step < steps.num and sums[depth, 0] + columns[0, step] < limit:
            needs = before[step]
            is_new = columns[6, step] < columns[5, step] and (
                needs == NONE or columns[6, needs] == columns[5, needs]
            )
            if is_new:
                for row in range(5):
                    sums[depth + 1, row] = sums[depth, row] + columns[row, step]
                columns[6, step] += 1
                depth += 1
                taken[depth] = step
            else:
                step += 1
        elif depth == 0:
            return True
        else:
            step = taken[depth]
            columns[6, step] -= 1
            depth -= 1
            step += 1


@kernel
def find_farthest(table: Table, size: Reduced) -> float:
    """Return a distance beyond which there are no states at all."""
    farthest = 1.0
    for pool in range(len(size.costs)):
        spread = table.most[pool] - table.least[pool]
        farthest += abs(size.costs[pool]) * spread + size.on_demand * table.most[pool]
    return farthest


@kernel
def settle(table: Table, size: Reduced, best: Best) -> bool:
    """Look at all that could be better at one size; tell whether that was little enough work."""
    farthest, far = find_farthest(table, size), np.abs(size.costs)
    reach = far[np.argsort(far, kind="mergesort")[min(FIRST, len(far) - 1)]]
    while True:
        room = goal_below(table, best) / table.scale[size.place] - size.base
        if room <= 0:
            return True
        if reach <= 0 or GROWTH * reach > room:
            reach = room
        tail = choose_tail(table, size, reach, 0.0)
        steps = list_steps(table, size, tail, reach)
        if not walk(table, size, best, Path(tail, steps, reach)):
            return False
        if (
            reach > farthest
            or reach >= goal_below(table, best) / table.scale[size.place] - size.base
        ):
            return True
        reach *= GROWTH
