"""
How nodes of one pool go together.

A provider that needs room takes many nodes of one kind at once, so the nodes of a pool are no
independent bets. The law here is the simplest that says so: a loss takes with it all nodes of its
pool, or it is alone.
"""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from ebbtide.core.models.forecast import Json
from ebbtide.core.models.table import DataError, Floats

WINDOW: Final = 5 / 60
"""Hours within which losses of one pool are one event."""
BEFORE: Final = (1.0, 1.0)
"""
Imagined nodes that went with the first one, and that stayed.

One of each: without data either is as likely. Public probes saw all nodes of a pool or none in
more than 94 % of the time.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bursts:
    """The chance that a loss takes the other nodes of its pool as well."""

    share: float
    events: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"share {self.share}: 0 to 1 is needed")

    @classmethod
    def of(cls, moments: Floats, alive: Floats, *, window: float = WINDOW) -> Self:
        """
        Estimate it from the losses of one pool.

        `moments` in hours from any origin, rising; `alive` the nodes just before each loss.
        """
        _check(moments, alive)
        went = stayed = 0.0
        events = start = 0
        while start < len(moments):
            end = int(np.searchsorted(moments, moments[start] + window, side="right"))
            lost = end - start
            others = max(alive[start], lost) - 1
            went += lost - 1
            stayed += others - (lost - 1)
            events += 1
            start = end
        more, fewer = BEFORE
        return cls(share=float((went + more) / (went + stayed + more + fewer)), events=events)

    def to_json(self) -> Json:
        """Return plain JSON."""
        return {"share": self.share, "events": self.events}

    @classmethod
    def from_json(cls, stored: Json) -> Self:
        """Read what `to_json` wrote; raises ValueError for a share that is none."""
        return cls(share=float(stored["share"]), events=int(stored["events"]))

    def num_lost(self, chance: float, nodes: int) -> Floats:
        """
        Return the chance of losing 0 ... `nodes` nodes, where each alone is lost with `chance`.

        The mean is nodes x chance, as without bursts; what changes is how far it scatters.
        """
        if nodes < 1 or not 0 <= chance <= 1:
            raise ValueError(f"{nodes} nodes, chance {chance}: at least 1, and 0 to 1 are needed")
        apart = np.array([1.0])
        for _ in range(nodes):
            apart = np.convolve(apart, [1 - chance, chance])
        found = (1 - self.share) * apart
        found[0] += self.share * (1 - chance)
        found[-1] += self.share * chance
        return found


def _check(moments: Floats, alive: Floats) -> None:
    if len(moments) != len(alive):
        raise DataError(f"{len(moments)} moments and {len(alive)} counts of nodes: one of each")
    for row, (moment, count) in enumerate(zip(moments, alive, strict=True)):
        if not (np.isfinite(moment) and np.isfinite(count) and count >= 1):
            raise DataError(f"loss {row}: at {moment} h of {count} nodes; a loss has 1 or more")
    if np.any(np.diff(moments) < 0):
        raise DataError("moments must rise: put the losses in order of time")
