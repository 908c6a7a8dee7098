"""What the solver can be asked: a fleet that can be had, and a goal for it."""

import math
from dataclasses import dataclass
from typing import Final, TypeAlias

from ebbtide.core.values.errors import EbbtideError

MOST_NODES: Final = 1_000_000_000
"""Of one pool; sums of counts stay exact in the floats that hold them."""


class QuestionError(EbbtideError, ValueError):
    """A question that makes no sense; names the value and what would."""


@dataclass(frozen=True, slots=True)
class PoolOffer:
    """What one node of a pool costs and does, and how many can be had."""

    name: str
    usd_per_hour: float
    rate: float
    """Useful work of one node in any unit, the same for all: steps or samples per second."""
    most: int
    is_on_demand: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.usd_per_hour < math.inf:
            raise _wrong(f"pool {self.name}: a price of {self.usd_per_hour} USD per hour")
        if not 0 < self.rate < math.inf:
            raise _wrong(f"pool {self.name}: a rate of {self.rate}; leave out what does no work")
        if not 0 <= self.most <= MOST_NODES:
            text = f"pool {self.name}: at most {self.most} nodes; from 0 to {MOST_NODES} are right"
            raise QuestionError(text)


@dataclass(frozen=True, slots=True)
class Servers:
    """Parameter servers: each costs money and lets through so much rate."""

    usd_per_hour: float
    rate: float
    most: int

    def __post_init__(self) -> None:
        if not 0 <= self.usd_per_hour < math.inf:
            raise QuestionError(f"a server at {self.usd_per_hour} USD per hour; 0 or more is right")
        if not 0 < self.rate < math.inf:
            raise _wrong(f"servers: a rate of {self.rate}")
        if self.most < 1:
            raise QuestionError(f"at most {self.most} servers; 1 or more is right")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The pools and what holds for all their nodes together."""

    pools: tuple[PoolOffer, ...]
    sizes: tuple[int, ...] = ()
    """Legal numbers of nodes; empty where any will do."""
    most_nodes: int | None = None
    on_demand_floor: int = 0
    """So many nodes at least are not spot."""
    servers: Servers | None = None
    efficiency: tuple[float, ...] = ()
    """Of 1, 2, ... nodes: what the summed rate is multiplied by. Empty: 1, for any number."""
    most_pools: int | None = None
    """So many different pools at most have nodes in one plan."""

    def __post_init__(self) -> None:
        names = [pool.name for pool in self.pools]
        if len(set(names)) != len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise QuestionError(f"two pools of one name: {', '.join(twice)}")
        if any(size < 1 for size in self.sizes):
            raise QuestionError(f"a legal size of {min(self.sizes)}; 1 or more is right")
        if self.most_nodes is not None and self.most_nodes < 1:
            raise QuestionError(f"at most {self.most_nodes} nodes; 1 or more is right")
        if self.most_pools is not None and self.most_pools < 1:
            raise QuestionError(f"at most {self.most_pools} pools; 1 or more is right")
        if self.on_demand_floor < 0:
            raise QuestionError(f"a floor of {self.on_demand_floor} nodes; 0 or more is right")
        for place, value in enumerate(self.efficiency, start=1):
            if not 0 < value < math.inf:
                raise _wrong(f"an efficiency of {value} for {place} nodes")


@dataclass(frozen=True, slots=True)
class CheapestAt:
    """The least USD per hour at a rate of so much or more."""

    rate: float

    def __post_init__(self) -> None:
        if not 0 < self.rate < math.inf:
            raise _wrong(f"a demanded rate of {self.rate}")


@dataclass(frozen=True, slots=True)
class FastestFor:
    """The most rate for so many USD per hour or fewer."""

    usd_per_hour: float

    def __post_init__(self) -> None:
        if not 0 < self.usd_per_hour < math.inf:
            raise _wrong(f"a budget of {self.usd_per_hour} USD per hour")


@dataclass(frozen=True, slots=True)
class LeastTotal:
    """The least money for the whole work, which is cost over rate; at `rate` or more."""

    rate: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.rate < math.inf:
            raise QuestionError(f"a demanded rate of {self.rate}; 0 or more is right")


@dataclass(frozen=True, slots=True)
class FastestWithin:
    """The most rate such that the whole work costs no more: cost over rate is limited."""

    usd_per_work: float
    """USD per hour for each unit of rate: the budget over the work, in hours times rate."""

    def __post_init__(self) -> None:
        if not 0 < self.usd_per_work < math.inf:
            raise _wrong(f"a budget of {self.usd_per_work} USD for a unit of work")


Goal: TypeAlias = CheapestAt | FastestFor | LeastTotal | FastestWithin


@dataclass(frozen=True, slots=True)
class Question:
    """A goal for a fleet."""

    fleet: Fleet
    goal: Goal


def _wrong(text: str) -> QuestionError:
    return QuestionError(f"{text}; a finite number above 0 is right")
