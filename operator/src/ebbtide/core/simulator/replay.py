"""
One job over one trace under one policy, exact to the second inside ticks.

Before each tick the policy sees what is up and chooses for the whole tick. Each start and each
move costs a changeover: paid time without progress, lost when it is left early. Paying stops the
second the work is done. A job that is late goes on on-demand, from the next tick on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ebbtide.core.models.table import Flags
from ebbtide.core.planner.policies.moment import (
    IDLE,
    ON_DEMAND,
    Moment,
    Place,
    Policy,
    Terms,
)
from ebbtide.core.simulator.prices import Prices, by_row

READY: Final = -1.0
"""As `Moment.changing_s`: no changeover goes on."""
ROUNDING_S: Final = 1e-6
"""Less work than this is none: what is left of sums of floats."""


class WrongChoiceError(ValueError):
    """A policy chose a zone that is down or does not exist."""


class Tick(NamedTuple):
    """What one tick of a job came to, for a log."""

    row: int
    place: Place
    paid_s: float
    work_s: float
    """Work that is left after it."""
    cost_usd: float
    """Of the job so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What a job meets: the zones row by row, and their prices where these move."""

    up: Sequence[tuple[bool, ...]]
    """Availability by row and zone; beyond the last row nothing is up."""
    prices: Prices = ()
    """By zone; where empty, spot costs what the job was told."""
    prices_now: Sequence[tuple[float, ...]] = ()
    """Of each row, which jobs over one trace share."""

    @classmethod
    def of(cls, up: Flags, prices: Prices = (), *, tick_s: float) -> "Trace":
        """Make one from a table, [rows, zones]."""
        rows = [tuple(row) for row in up.tolist()]
        now = by_row(prices, rows=len(rows), tick_s=tick_s) if prices else ()
        return cls(up=rows, prices=prices, prices_now=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one job cost and when it ended."""

    cost_usd: float
    spot_s: float
    """Paid time on spot, changeovers included."""
    on_demand_s: float
    on_demand_work_s: float
    """Progress made on on-demand; the rest was made on spot."""
    switches: int
    """Changeovers paid: starts and moves."""
    finish_s: float
    """From the start of the job."""
    is_late: bool


class Replay:
    """A job under way; `advance` plays some ticks of it."""

    def __init__(
        self,
        policy: Policy,
        terms: Terms,
        *,
        trace: Trace,
        start: int,
        changeover_s: float | None = None,
        log: list[Tick] | None = None,
    ) -> None:
        """
        Put a job before its first tick.

        Args:
            policy: chooses.
            terms: what the policy was told.
            trace: what the job meets.
            start: the row before which the job comes.
            changeover_s: how long a changeover really takes, where not as told.
            log: takes each tick, where somebody wants to read them.

        """
        self.policy, self.terms, self.trace, self.log = policy, terms, trace, log
        self.up, self.prices = trace.up, trace.prices
        self.real_s = terms.changeover_s if changeover_s is None else changeover_s
        self.row = start
        self.elapsed_s = 0.0
        self.work_s = terms.work_s
        self.place: Place = IDLE
        self.pending_s = 0.0
        self.seconds = [0.0, 0.0]  # on spot, on on-demand
        self.spot_usd = 0.0  # where prices move
        self.on_demand_work_s = 0.0
        self.switches = 0
        self.finish_s: float | None = None

    @property
    def is_done(self) -> bool:
        """Whether the work is done."""
        return self.finish_s is not None

    def moment(self) -> Moment:
        """Return what the policy sees now."""
        row = self.row
        up = self.up[row] if row < len(self.up) else (False,) * len(self.up[0])
        if self.place >= 0 and not up[self.place]:
            self.place = IDLE
        is_changing = self.place != IDLE and self.pending_s > 0
        return Moment(
            row,
            self.elapsed_s,
            self.terms.deadline_s - self.elapsed_s,
            self.work_s,
            self.place,
            self.real_s - self.pending_s if is_changing else READY,
            up,
            self._prices_now() if self.prices else (),
        )

    def _prices_now(self) -> tuple[float, ...]:
        """Return the prices of this row; behind the trace those of its last."""
        return self.trace.prices_now[min(self.row, len(self.up) - 1)]

    def advance(self, until: int | None = None) -> bool:
        """Play the ticks before a row, or to the end; tell whether the job is done."""
        while self.finish_s is None and (until is None or self.row < until):
            moment = self.moment()
            is_late = moment.left_s <= 0
            choice = ON_DEMAND if is_late else self.policy.decide(moment)
            if choice != self.place:
                self._move(choice, moment)
            self._pass_tick()
        return self.finish_s is not None

    def _move(self, choice: Place, moment: Moment) -> None:
        if choice >= len(moment.up) or (choice >= 0 and not moment.up[choice]):
            raise WrongChoiceError(f"row {moment.row}: zone {choice} is not up: {moment.up}")
        self.place = choice
        if choice != IDLE:
            self.switches += 1
            self.pending_s = self.real_s

    def _pass_tick(self) -> None:
        tick, paid = self.terms.tick_s, 0.0
        if self.place != IDLE:
            paid = min(tick, self.pending_s + self.work_s)
            changing = min(paid, self.pending_s)
            self.pending_s -= changing
            self.work_s -= paid - changing
            if self.place == ON_DEMAND:
                self.on_demand_work_s += paid - changing
            elif self.prices:
                self.spot_usd += self.prices[self.place].usd(self.row * tick, paid)
            self.seconds[self.place == ON_DEMAND] += paid
            if self.work_s <= ROUNDING_S:
                self.finish_s = self.elapsed_s + paid
        if self.log is not None:
            self.log.append(Tick(self.row, self.place, paid, self.work_s, self.cost_usd))
        self.row += 1
        self.elapsed_s += tick

    @property
    def cost_usd(self) -> float:
        """The bill so far."""
        spot_s, on_demand_s = self.seconds
        spot = self.spot_usd if self.prices else spot_s * self.terms.spot_usd_per_s
        return spot + on_demand_s * self.terms.on_demand_usd_per_s

    def outcome(self) -> Outcome:
        """Return what came of a job that is done."""
        if self.finish_s is None:
            raise ValueError("the job is not done yet")
        spot_s, on_demand_s = self.seconds
        return Outcome(
            cost_usd=self.cost_usd,
            spot_s=spot_s,
            on_demand_s=on_demand_s,
            on_demand_work_s=self.on_demand_work_s,
            switches=self.switches,
            finish_s=self.finish_s,
            is_late=self.finish_s > self.terms.deadline_s + ROUNDING_S,
        )
