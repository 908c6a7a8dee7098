"""
More ways than a walk can go one by one: two lists of half the steps each, and the pairs that fit.

What is left to the last pools fixes their nodes but for one number: each node more of the first and
fewer of the second adds `pitch` to the rate. So what a pair exceeds the demand by is at least the
sum of two numbers, less whole pitches, and costs the price of rate. With one list in the order of
that number, the partners of a state lie in a short window; all of them are closed. No plan within
the reach is missed.
"""

from typing import Final, NamedTuple

import numpy as np

from ebbtide.core.planner.solver.compiled import kernel
from ebbtide.core.planner.solver.cover import Flags, Floats, Places
from ebbtide.core.planner.solver.reduce import Reduced
from ebbtide.core.planner.solver.table import Best, Table, goal_below, take
from ebbtide.core.planner.solver.walk import (
    BEYOND,
    NONE,
    Steps,
    Tail,
    choose_tail,
    close,
    find_farthest,
    list_steps,
    start_sums,
)

SHORT: Final = 600
"""States of the first lists at most."""
WIDER: Final = 1.25
NARROWER: Final = 0.6
NARROWINGS: Final = 8
"""How often a reach is made smaller at most, until the lists are short enough."""
ROUNDING: Final = 0.01
"""Of the slack: sums that are so little below a whole pitch may be one."""
BLOCK: Final = 32
"""Partners that are passed over together."""
APART: Final = 4.0
"""Times what the rate may be too high: so far apart the rates of the last two pools are best."""
LOOKS: Final = 10.0
"""States or blocks that may be looked at for each state of a full list."""


class States(NamedTuple):
    """A list of states; each is another one with one node more changed."""

    sums: Floats
    """Rows: distance, nodes, rate, cost, on-demand nodes of each state, as in a walk."""
    parents: Places
    steps: Places
    """What was changed last; NONE in the first."""


class Line(NamedTuple):
    """The rate with none of the first of the last pools, as a line in what states add up to."""

    nodes: float
    on_demand: float
    constant: float
    """What it has without any change, less the demand."""


class Partners(NamedTuple):
    """One list in the order of what its states are above whole pitches."""

    order: Places
    above: Floats
    values: Floats
    """Distance, and what the number above costs."""
    least: Floats
    """The least value of each block."""


@kernel
def line_of(table: Table, place: int, tail: Tail) -> Line:
    """Return the line of one size."""
    rate, size = table.rate[tail.second], table.sizes[place]
    enough = table.demand[place] - table.slack[place]
    if tail.by_floor == NONE:
        return Line(-rate, 0.0, rate * size - enough)
    other = table.rate[tail.by_floor]
    if table.market[tail.by_floor] > 0:  # as many of it as the floor needs
        more = other - rate
        return Line(-rate, -more, rate * size + more * table.floor - enough)
    more = rate - other
    return Line(-other, -more, other * size + more * table.floor - enough)


@kernel
def deal(steps: Steps, reach: float) -> Flags:
    """Deal the steps to two lists of about as many states; tell which go to the second."""
    ways, is_second = np.empty(steps.num), np.zeros(steps.num, dtype=np.bool_)
    for step in range(steps.num):
        far = steps.columns[0, step]
        often = steps.columns[5, step]
        if far > 0:
            often = min(often, (reach - steps.columns[7, step]) / far)
        ways[step] = -np.log(1.0 + often)
    first, second = 0.0, 0.0
    for step in np.argsort(ways, kind="mergesort"):
        if first >= second:
            second -= ways[step]
            is_second[step] = True
        else:
            first -= ways[step]
    return is_second


@kernel
def list_side(steps: Steps, mine: Flags, reach: float, states: States) -> int:
    """List the states of some steps within the reach, from the first on; NONE where too many."""
    sums, parents, lasts = states
    num, most = 1, len(sums)
    for step in range(steps.num - 1, -1, -1):  # the farthest first: lists stay short for long
        if not mine[step]:
            continue
        far, often = steps.columns[0, step], steps.columns[5, step]
        if far > 0:
            often = min(often, np.floor((reach - steps.columns[7, step]) / far))
        end = num
        for begun in range(end):
            state, count = begun, 0.0
            while count < often and sums[state, 0] + far < reach:
                if num == most:
                    return NONE
                for row in range(5):
                    sums[num, row] = sums[state, row] + steps.columns[row, step]
                parents[num], lasts[num] = state, step
                state, count, num = num, count + 1.0, num + 1
    return num


@kernel
def find_above(line: Line, sums: Floats, constant: float, pitch: float) -> float:
    """Return what the rate of a state is above whole pitches."""
    rate = constant + sums[2] + line.nodes * sums[1] + line.on_demand * sums[4]
    above = rate - np.floor(rate / pitch) * pitch
    found: float = min(max(above, 0.0), pitch)
    return found


@kernel
def sort_partners(line: Line, states: States, pitch: float, price: float) -> Partners:
    """Put a list in the order of what its states are above whole pitches."""
    num = len(states.sums)
    above = np.empty(num)
    for state in range(num):
        above[state] = find_above(line, states.sums[state], 0.0, pitch)
    order = np.argsort(above)
    above = above[order]
    values, least = np.empty(num), np.full((num + BLOCK - 1) // BLOCK, np.inf)
    for place in range(num):
        values[place] = states.sums[order[place], 0] + price * above[place]
        least[place // BLOCK] = min(least[place // BLOCK], values[place])
    return Partners(order, above, values, least)


class Pairing(NamedTuple):
    """What decides which pairs are near enough."""

    line: Line
    pitch: float
    price: float
    """Of rate."""
    reach: float


class Meeting(NamedTuple):
    """Two lists that are to be paired."""

    size: Reduced
    tail: Tail
    steps: Steps
    first: States
    num: int
    """States of the first."""
    second: States
    partners: Partners
    """Of the second."""
    by: Pairing
    sums: Floats
    """Of one pair; room to work in."""


@kernel
def change(meeting: Meeting, plan: Floats, states: States, state: int) -> None:
    """Make the changes of a state in a plan."""
    steps = meeting.steps
    while states.parents[state] != NONE:
        step = states.steps[state]
        if steps.pools[step] != BEYOND:
            plan[steps.pools[step]] += steps.columns[1, step]
        state = states.parents[state]


@kernel
def complete(table: Table, meeting: Meeting, best: Best, pair: tuple[int, int]) -> bool:
    """Take the plan of the pair that was closed last; tell whether it was legal."""
    costs, tail = meeting.size.costs, meeting.tail
    plan = np.empty(len(costs))
    for pool in range(len(plan)):
        plan[pool] = table.most[pool] if costs[pool] < 0 else table.least[pool]
    plan[tail.second] = tail.amounts[1]
    plan[tail.first] = tail.amounts[0]
    if tail.by_floor != NONE:
        plan[tail.by_floor] = tail.amounts[2]
    change(meeting, plan, meeting.first, pair[0])
    change(meeting, plan, meeting.second, pair[1])
    return take(table, best, plan, meeting.size.place)


class Window(NamedTuple):
    """Which partners a state of the first list is closed with: places, and below which value."""

    state: int
    begin: int
    end: int
    limit: float


@kernel
def pair_window(table: Table, meeting: Meeting, best: Best, window: Window) -> bool:
    """Close a state with the partners in a window; tell whether that was little enough work."""
    state, place, end, limit = window
    values, least, sums = meeting.partners.values, meeting.partners.least, meeting.sums
    size = meeting.size.place
    scale = table.scale[size]
    while place < end:
        best.left[0] -= 1
        if place % BLOCK == 0 and least[place // BLOCK] >= limit:
            place += BLOCK
            continue
        if values[place] < limit:
            partner = meeting.partners.order[place]
            for row in range(5):
                sums[row] = meeting.first.sums[state, row] + meeting.second.sums[partner, row]
            value = scale * close(table, size, meeting.tail, sums)
            if value < best.value[0] and not complete(table, meeting, best, (state, partner)):
                return False
        place += 1
    within: bool = best.left[0] >= 0
    return within


@kernel
def pair_all(table: Table, meeting: Meeting, best: Best) -> bool:
    """Close all pairs within the reach and the room; tell whether they were few enough."""
    line, pitch, price, reach = meeting.by
    size = meeting.size.place
    scale, above = table.scale[size], meeting.partners.above
    slack, first = table.slack[size], meeting.first.sums
    for state in range(meeting.num):
        room = goal_below(table, best) / scale - meeting.size.base
        left = min(reach, room) + price * slack - first[state, 0]
        if left <= 0:
            continue
        own = find_above(line, first[state], line.constant, pitch)
        # Up to the turn a pair is above by the sum of both, from there on by a pitch less.
        turn = pitch - own
        end = np.searchsorted(above, min(turn, left / price - own))
        window = Window(state, 0, end, left - price * own)
        if not pair_window(table, meeting, best, window):
            return False
        begin = np.searchsorted(above, turn - ROUNDING * slack)
        end = np.searchsorted(above, turn + left / price)
        window = Window(state, begin, end, left + price * turn)
        if not pair_window(table, meeting, best, window):
            return False
    return True


# ------------------------------------------------------------------------- passes


class Lists(NamedTuple):
    """Both lists as far as some reach goes, and what their steps are."""

    tail: Tail
    steps: Steps
    nums: tuple[int, int]
    """States of each; NONE where they are too many."""
    reach: float


@kernel
def list_both(
    table: Table, size: Reduced, room: tuple[States, States], far: tuple[float, float]
) -> Lists:
    """List both sides within a reach, into the room for them; with the reach a price of rate."""
    reach, price = far
    tail = choose_tail(table, size, reach, APART * reach / price)
    steps = list_steps(table, size, tail, reach)
    is_second = deal(steps, reach)
    for states in room:
        states.sums[0] = 0.0
        states.parents[0] = states.steps[0] = NONE
    start_sums(table, size, tail, room[0].sums[0])
    num, others = list_side(steps, ~is_second, reach, room[0]), NONE
    if num != NONE:
        others = list_side(steps, is_second, reach, room[1])
    return Lists(tail, steps, (num, others), reach)


@kernel
def shorten(states: States, most: int) -> States:
    """Return room for fewer states."""
    return States(states.sums[:most], states.parents[:most], states.steps[:most])


@kernel
def meet(table: Table, size: Reduced, best: Best, by: tuple[float, int]) -> bool:
    """
    Look at all that could be better at one size, by price of rate and how long a list may be.

    Short lists come first: a good plan makes the room smaller. Tells whether that was all.
    """
    price, most = by
    scale, farthest = table.scale[size.place], find_farthest(table, size)
    places, sums = np.empty((4, most), dtype=np.int64), np.empty((2, most, 5))
    room = States(sums[0], places[0], places[1]), States(sums[1], places[2], places[3])
    best.left[0] = LOOKS * most
    reach = min(goal_below(table, best) / scale - size.base, farthest)
    if not (price > 0 and 0 < reach < np.inf):
        is_settled: bool = reach <= 0
        return is_settled
    short = shorten(room[0], SHORT), shorten(room[1], SHORT)
    lists = list_both(table, size, short, (reach, price))
    for _ in range(NARROWINGS):
        if lists.nums[1] == NONE:
            lists = list_both(table, size, short, (NARROWER * lists.reach, price))
    while lists.nums[1] != NONE:
        tail, num = lists.tail, lists.nums[0]
        pitch = table.rate[tail.first] - table.rate[tail.second]
        if pitch <= 0:
            return False
        # Where all states are listed, a pair may still be any distance above in its rate.
        far = lists.reach if lists.reach < farthest else np.inf
        line = line_of(table, size.place, tail)
        partners = sort_partners(line, shorten(room[1], lists.nums[1]), pitch, price)
        pairing, work = Pairing(line, pitch, price, far), np.empty(5)
        meeting = Meeting(size, tail, lists.steps, room[0], num, room[1], partners, pairing, work)
        if not pair_all(table, meeting, best):
            return False
        reach = min(goal_below(table, best) / scale - size.base, farthest)
        if reach <= lists.reach:
            return True
        lists = list_both(table, size, room, (min(reach, WIDER * lists.reach), price))
    return False
