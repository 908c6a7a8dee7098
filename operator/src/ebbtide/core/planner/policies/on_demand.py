"""On-demand from the start to the end."""

from dataclasses import dataclass

from ebbtide.core.planner.policies.moment import ON_DEMAND, Moment, Place, Terms


@dataclass(frozen=True, slots=True)
class OnDemand:
    """Never spot: the price of certainty."""

    terms: Terms

    def decide(self, moment: Moment) -> Place:  # noqa: ARG002 -- the answer is always the same
        """Return on-demand."""
        return ON_DEMAND
