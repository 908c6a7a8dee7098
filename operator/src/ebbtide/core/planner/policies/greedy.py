"""Spot whenever there is some, else wait; on-demand only when the deadline leaves no choice."""

from dataclasses import dataclass

from ebbtide.core.planner.policies.moment import (
    IDLE,
    ON_DEMAND,
    Moment,
    Place,
    Terms,
    first_up,
    may_wait,
    must_run,
)


@dataclass(frozen=True, slots=True)
class Greedy:
    """The plain policy that people write first."""

    terms: Terms

    def decide(self, moment: Moment) -> Place:
        """Return the zone, or wait as long as that is safe."""
        if must_run(moment, changeover_s=self.terms.worst_changeover_s):
            return ON_DEMAND
        place = first_up(moment)
        if place == IDLE and not may_wait(
            moment, changeover_s=self.terms.worst_changeover_s, tick_s=self.terms.tick_s
        ):
            return ON_DEMAND
        return place
