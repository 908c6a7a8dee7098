"""
One job over one trace under one policy, exact to the second inside ticks.

Before each tick the policy sees what is up and chooses for the whole tick. Each start and each
move costs a changeover: paid time without progress, lost when it is left early. Paying stops the
second the work is done. A job that is late goes on on-demand, from the next tick on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ebbtide.core.planner.policies.moment import (
    IDLE,
    ON_DEMAND,
    Moment,
    Place,
    Policy,
    Terms,
)

READY: Final = -1.0
"""As `Moment.changing_s`: no changeover goes on."""
ROUNDING_S: Final = 1e-6
"""Less work than this is none: what is left of sums of floats."""


class WrongChoiceError(ValueError):
    """A policy chose a zone that is down or does not exist."""


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
        up: Sequence[tuple[bool, ...]],
        start: int,
        changeover_s: float | None = None,
    ) -> None:
        """
        Put a job before its first tick.

        Args:
            policy: chooses.
            terms: what the policy was told.
            up: availability by row and zone; beyond the last row nothing is up.
            start: the row before which the job comes.
            changeover_s: how long a changeover really takes, where not as told.

        """
        self.policy, self.terms, self.up = policy, terms, up
        self.real_s = terms.changeover_s if changeover_s is None else changeover_s
        self.row = start
        self.elapsed_s = 0.0
        self.work_s = terms.work_s
        self.place: Place = IDLE
        self.pending_s = 0.0
        self.seconds = [0.0, 0.0]  # on spot, on on-demand
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
        )

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
        tick = self.terms.tick_s
        if self.place != IDLE:
            paid = min(tick, self.pending_s + self.work_s)
            changing = min(paid, self.pending_s)
            self.pending_s -= changing
            self.work_s -= paid - changing
            if self.place == ON_DEMAND:
                self.on_demand_work_s += paid - changing
            self.seconds[self.place == ON_DEMAND] += paid
            if self.work_s <= ROUNDING_S:
                self.finish_s = self.elapsed_s + paid
        self.row += 1
        self.elapsed_s += tick

    def outcome(self) -> Outcome:
        """Return what came of a job that is done."""
        if self.finish_s is None:
            raise ValueError("the job is not done yet")
        spot_s, on_demand_s = self.seconds
        return Outcome(
            cost_usd=spot_s * self.terms.spot_usd_per_s
            + on_demand_s * self.terms.on_demand_usd_per_s,
            spot_s=spot_s,
            on_demand_s=on_demand_s,
            on_demand_work_s=self.on_demand_work_s,
            switches=self.switches,
            finish_s=self.finish_s,
            is_late=self.finish_s > self.terms.deadline_s + ROUNDING_S,
        )
