"""
Uniform Progress ("Can't Be Late", NSDI 2024), in the form of its authors' simulator.

Be at work W times t/D at time t: take spot whenever there is some, on-demand while behind. What
the paper leaves open the simulator settles: on-demand is kept while there is no spot.
"""

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
class UniformProgress:
    """Neither ahead of the straight line nor behind it."""

    terms: Terms

    def decide(self, moment: Moment) -> Place:
        """Return what the rules of the paper say, in their order."""
        worst = self.terms.worst_changeover_s
        if must_run(moment, changeover_s=worst):
            return ON_DEMAND
        place = first_up(moment)
        if moment.place == ON_DEMAND:
            # Hysteresis: leave only with enough progress for the way there and back.
            return ON_DEMAND if place == IDLE or self._is_behind(moment, 2 * worst) else place
        if place == IDLE and (
            self._is_behind(moment, 0.0)
            or not may_wait(moment, changeover_s=worst, tick_s=self.terms.tick_s)
        ):
            return ON_DEMAND
        return place

    def _is_behind(self, moment: Moment, ahead_s: float) -> bool:
        done = self.terms.work_s - moment.work_s
        expected = (moment.elapsed_s + ahead_s) * self.terms.work_s / self.terms.deadline_s
        return done < expected
