"""
The least expected cost of the rest of a job, backwards from its deadline, for many laws at once.

A job with time R to its deadline and slack x has the work w = R - x left. Progress keeps x, idling
for dt costs dt of it, a changeover costs d. Values are on a grid of R = n dt and of x, linear
between. In a batch each step is a few products of matrices for all tables together.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ebbtide.core.models.table import Floats, Indices
from ebbtide.core.planner.policies.chain import Chain
from ebbtide.core.planner.policies.history import HOUR_S, HOURS_OF_DAY

Singles = NDArray[np.float32]

FINE_UNTIL_S: Final = 3600.0
FINE_S: Final = 120.0
MIDDLE_UNTIL_S: Final = 10800.0
MIDDLE_S: Final = 300.0
GROWTH: Final = 1.08
RELUCTANCE_USD: Final = 1e-3
"""What idling costs extra where on-demand must follow at once: a tie that it must lose."""


def grid_of(slack_s: float) -> Floats:
    """Points of slack from 0 to at least `slack_s`, finer where a decision hangs on minutes."""
    fine = np.arange(0.0, FINE_UNTIL_S, FINE_S)
    middle = np.arange(FINE_UNTIL_S, MIDDLE_UNTIL_S, MIDDLE_S)
    number = math.ceil(math.log(max(slack_s / MIDDLE_UNTIL_S, 1.0), GROWTH))
    coarse = MIDDLE_UNTIL_S * GROWTH ** np.arange(number + 1)
    points = np.concatenate([fine, middle, coarse])
    enough: Floats = points[: int(np.searchsorted(points, slack_s)) + 2]
    return enough


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What the moves of a job cost and what must be kept in hand; one table knows one of these."""

    step_s: float
    tick_s: float
    changeover_s: float
    worst_s: float
    spot: float
    """USD per second, as the next."""
    on_demand: float

    @property
    def need_s(self) -> float:
        """Slack below which spot is not started: a failed try must leave the worst changeover."""
        worst, tick = self.worst_s, self.tick_s
        return worst + min(worst, math.ceil(self.changeover_s / tick) * tick)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A table that is wanted: a law, the clock at the deadline, and the range of R to keep."""

    law: int
    """Its number in the batch."""
    deadline_s: float
    """Time of day of the deadline."""
    first: int
    """The least step of R that is kept."""
    last: int
    spot: tuple[float, ...] = ()
    """USD per second of each zone; that of the costs where empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """
    Expected costs after one step, at the slack that is left after it.

    Each is [n - first, state, x]; those of a zone have only the states in which it is up.
    """

    first: int
    grid: tuple[float, ...]
    idle: Singles
    on_demand: Singles
    kept: tuple[Singles, ...]
    """By zone: the part of futures in which it is still up at the next step ..."""
    lost: tuple[Singles, ...]
    """... and in which it is not."""


def solve(
    orders: Sequence[Order], laws: Floats, chain: Chain, *, costs: Costs, slack_s: float
) -> list[Table]:
    """
    Solve tables that have costs, states and slack in common.

    Args:
        orders: the tables.
        laws: [laws, 24, E, E] by hour of day.
        chain: what the E states are.
        costs: of moves.
        slack_s: the largest slack asked about.

    """
    batch = _Batch(orders, laws, chain, costs=costs, grid=grid_of(slack_s))
    for step in range(1, batch.lasts[0] + 1):
        batch.advance(step)
    return batch.tables()


class _Batch:
    """Values at one step of R for all tables whose range reaches it; longest range first."""

    def __init__(
        self, orders: Sequence[Order], laws: Floats, chain: Chain, *, costs: Costs, grid: Floats
    ) -> None:
        self.sequence = sorted(range(len(orders)), key=lambda place: -orders[place].last)
        self.orders = [orders[place] for place in self.sequence]
        self.lasts = np.array([order.last for order in self.orders])
        self.which = np.array([order.law for order in self.orders])
        self.clocks = np.array([order.deadline_s for order in self.orders])
        self.chain, self.costs, self.grid = chain, costs, grid
        prices = [order.spot or (costs.spot,) * chain.num_zones for order in self.orders]
        self.usd = np.array(prices, np.float32)[..., np.newaxis, np.newaxis]
        self.all = laws.astype(np.float32)
        self.stay = [self._part(laws, rows, rows) for rows in chain.up]
        self.lose = [
            self._part(laws, up, down) for up, down in zip(chain.up, chain.down, strict=True)
        ]
        shape = (len(orders), chain.number, len(grid))
        self.idle = np.zeros(shape, np.float32)
        self.on_demand = np.zeros(shape, np.float32)
        half = (len(orders), chain.number // 2, len(grid))
        self.spot = [np.zeros(half, np.float32) for _ in chain.up]
        self.found = [_Pages(order) for order in self.orders]
        self._keep(0, [self.idle, self.on_demand, *self.spot, *self.spot])

    def advance(self, step: int) -> None:
        """Go from R = (step - 1) dt to R = step dt."""
        active = int(np.searchsorted(-self.lasts, -step, side="right"))
        idle, on_demand, spot = (
            self.idle[:active], self.on_demand[:active], [found[:active] for found in self.spot],
        )  # fmt: skip
        hours = (self.clocks[:active] - step * self.costs.step_s) // HOUR_S % HOURS_OF_DAY
        at = self.which[:active], hours.astype(np.intp)
        law = self.all[at]
        after_idle, after_on_demand = law @ idle, law @ on_demand
        kept = [stay[at] @ values for stay, values in zip(self.stay, spot, strict=True)]
        lost = [
            lose[at] @ idle[:, down] for lose, down in zip(self.lose, self.chain.down, strict=True)
        ]
        self._keep(step, [after_idle, after_on_demand, *kept, *lost])
        self._choose(step, after_idle, after_on_demand, kept=kept, lost=lost)

    def _choose(
        self,
        step: int,
        after_idle: Singles,
        after_on_demand: Singles,
        *,
        kept: list[Singles],
        lost: list[Singles],
    ) -> None:
        """Take the least of all moves in each state of each mode."""
        costs, moves, active = self.costs, self._moves, len(after_idle)
        usd = self.usd[:active]
        work = (step * costs.step_s - self.grid).astype(np.float32)
        paid = np.minimum(work, costs.step_s)
        started = np.minimum(work + costs.changeover_s, costs.step_s)
        whole = costs.on_demand * (work + costs.changeover_s)

        wait = after_idle @ moves.by_step
        wait[..., moves.is_last] = whole[moves.is_last] + RELUCTANCE_USD
        wait[..., moves.is_held] = np.inf
        begin = costs.on_demand * started + after_on_demand @ moves.by_changeover
        begin[..., moves.is_late] = whole[moves.is_late]
        nowhere = np.minimum(wait, begin)
        reserved = np.minimum(costs.on_demand * paid + after_on_demand, wait)
        for zone, rows in enumerate(self.chain.up):
            move = usd[:, zone] * started + kept[zone] @ moves.by_changeover
            move += lost[zone] @ moves.by_failure
            move[..., moves.is_short] = np.inf
            nowhere[:, rows] = np.minimum(nowhere[:, rows], move)
            reserved[:, rows] = np.minimum(reserved[:, rows], move)
        done = work <= 0
        for zone, rows in enumerate(self.chain.up):
            stay = np.minimum(usd[:, zone] * paid + kept[zone] + lost[zone], nowhere[:, rows])
            stay[..., done] = 0
            self.spot[zone][:active] = stay
        nowhere[..., done] = 0
        reserved[..., done] = 0
        self.idle[:active], self.on_demand[:active] = nowhere, reserved

    @cached_property
    def _moves(self) -> "_Moves":
        return _Moves(self.grid, self.costs)

    def _part(self, laws: Floats, rows: slice | Indices, columns: slice | Indices) -> Singles:
        return np.ascontiguousarray(laws[:, :, rows][..., columns], dtype=np.float32)

    def _keep(self, step: int, values: Sequence[Singles]) -> None:
        for place, pages in enumerate(self.found):
            if pages.order.first <= step <= pages.order.last:
                pages.steps.append([found[place].copy() for found in values])

    def tables(self) -> list[Table]:
        """Return what was ordered, in the order of the orders."""
        grid, num_zones = tuple(self.grid.tolist()), len(self.chain.up)
        found: dict[int, Table] = {}
        for place, pages in zip(self.sequence, self.found, strict=True):
            idle, on_demand, *zones = (np.stack(part) for part in zip(*pages.steps, strict=True))
            found[place] = Table(
                first=pages.order.first,
                grid=grid,
                idle=idle,
                on_demand=on_demand,
                kept=tuple(zones[:num_zones]),
                lost=tuple(zones[num_zones:]),
            )
        return [found[place] for place in range(len(found))]


class _Pages:
    """What is kept of one table so far."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.steps: list[list[Singles]] = []


class _Moves:
    """How values are read at less slack, and at which slack a move is forbidden; [x] each."""

    def __init__(self, grid: Floats, costs: Costs) -> None:
        step, changeover = costs.step_s, costs.changeover_s
        self.by_step = _shift(grid, step)
        self.by_changeover = _shift(grid, changeover)
        self.by_failure = _shift(grid, min(changeover, step))
        self.is_held = grid - costs.tick_s < costs.worst_s
        self.is_last = grid - step < costs.worst_s
        self.is_late = grid < changeover
        self.is_short = grid < costs.need_s


def _shift(grid: Floats, less_s: float) -> Singles:
    """Return the matrix that reads values on the grid at `grid - less_s`, [x, x]."""
    wanted = np.maximum(grid - less_s, 0.0)
    left = np.clip(np.searchsorted(grid, wanted, side="right") - 1, 0, len(grid) - 2)
    share = (wanted - grid[left]) / (grid[left + 1] - grid[left])
    matrix = np.zeros((len(grid), len(grid)), np.float32)
    columns = np.arange(len(grid))
    matrix[left, columns] = 1 - share
    matrix[left + 1, columns] += share.astype(np.float32)
    return matrix
