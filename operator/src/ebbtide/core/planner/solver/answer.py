"""What the solver says."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class Method(StrEnum):
    """How an answer was found."""

    LIST = "list"
    """All that could be better was listed."""
    HIGHS = "highs"
    """HiGHS had a part in it."""
    KEPT = "kept"
    """The answer before still holds: only capacity that it does not use has gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A plan that meets every limit, and how good it is for sure."""

    counts: Mapping[str, int]
    """Nodes of each pool; pools without any are left out."""
    servers: int
    cost: float
    """USD per hour, servers included."""
    rate: float
    bound: float
    """No plan has a better value of what the goal asks for: cost, rate, or cost over rate."""
    proven: bool
    """Whether no plan is better by more than the tolerance."""
    gap: float
    """Relative distance between the value and the bound; 0 when proven."""
    method: Method
    price_of_rate: float = 0.0
    """USD per hour for one more unit of rate, where that is known; a warm start for the next."""

    @property
    def nodes(self) -> int:
        """How many nodes in all, servers aside."""
        return sum(self.counts.values())

    @property
    def cost_over_rate(self) -> float:
        """USD per hour for each unit of rate: times the work it is the money in all."""
        return self.cost / self.rate


@dataclass(frozen=True, slots=True)
class Infeasible:
    """No plan meets the limits."""

    reason: str
    nearest: float | None
    """The nearest goal that can be met, in its own unit; None where none can be."""


Outcome: TypeAlias = Answer | Infeasible
