"""Greedy in equal slices of time, each with its share of the work; a surplus is carried over."""

from dataclasses import dataclass

from ebbtide.core.planner.policies.greedy import Greedy
from ebbtide.core.planner.policies.moment import Moment, Place, Terms


@dataclass(frozen=True, slots=True)
class TimeSliced:
    """Never further behind than one slice."""

    terms: Terms
    num_slices: int = 4
    """Slices of half a day for a job of two days: one for each change of day and night."""

    def decide(self, moment: Moment) -> Place:
        """
        Return what greedy would do with the end of this slice as the deadline.

        Work of a slice that is done early is negative work left: greedy then takes spot where
        there is some and waits otherwise, which is how a surplus arises.
        """
        length = self.terms.deadline_s / self.num_slices
        number = min(int(moment.elapsed_s / length) + 1, self.num_slices)
        later = self.num_slices - number
        inside = moment._replace(
            left_s=moment.left_s - later * length,
            work_s=moment.work_s - later * self.terms.work_s / self.num_slices,
        )
        return Greedy(self.terms).decide(inside)
