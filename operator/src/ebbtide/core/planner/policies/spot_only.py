"""Spot or nothing."""

from dataclasses import dataclass

from ebbtide.core.planner.policies.moment import Moment, Place, Terms, first_up


@dataclass(frozen=True, slots=True)
class SpotOnly:
    """Never on-demand, so the one policy that lets a deadline pass."""

    terms: Terms

    def decide(self, moment: Moment) -> Place:
        """Return the zone, or wait."""
        return first_up(moment)
