"""
What is known of one system, and what its like tell about one that was never measured.

A system that nobody measured takes the geometric mean of the bases of those that were: by its
GPUs, nodes, network and bytes. Only systems with several nodes speak for several nodes, where
there are any. Systems differ much more than sizes of one: the interval of such an answer comes
from holding out whole systems, each of which counts once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from ebbtide.core.models.all_reduce.base import Base
from ebbtide.core.models.all_reduce.calls import Calls
from ebbtide.core.models.all_reduce.trees import choose_knots
from ebbtide.core.models.forecast import BEYOND, Json, Spread
from ebbtide.core.models.residuals import spread_of
from ebbtide.core.models.table import Flags, Floats

UNKNOWN: Final = Spread(low=0.1, high=10.0)
"""Of a system never measured, where one alone was: links differ by a factor of ten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """What is known of one system."""

    base: Base
    knots: tuple[float, ...]
    """Sizes that were measured, rising."""
    floor: float
    """No answer is below this share of the ring's bound: 1, or less where less was measured."""
    limits: tuple[float, float, float, float]
    """The most GPUs and nodes, the least and the most Gbit/s; 0 where no network was used."""

    @property
    def spans(self) -> bool:
        """Whether several nodes were measured."""
        return self.limits[1] > 1

    def exclude(self, calls: Calls) -> Flags:
        """Tell which calls lie beyond what was measured."""
        gpus, nodes, slowest, fastest = self.limits
        several = calls.nodes > 1
        network = several & ((calls.nic_gbps < slowest) | (calls.nic_gbps > fastest))
        size = (calls.size < self.knots[0]) | (calls.size > self.knots[-1])
        outside: Flags = (calls.gpus > gpus) | (calls.nodes > nodes) | network | size
        return outside

    @classmethod
    def of(cls, base: Base, calls: Calls, seconds: Floats) -> Self:
        """Describe what was measured of one system."""
        several = calls.nodes > 1
        cards = calls.nic_gbps[several]
        below = seconds[several] / calls.bound[several]
        return cls(
            base=base,
            knots=tuple(choose_knots(calls.size).tolist()),
            floor=float(min(below.min(initial=1.0), 1.0)),
            limits=(
                float(calls.gpus.max()),
                float(calls.nodes.max()),
                float(cards.min(initial=np.inf)) if several.any() else 0.0,
                float(cards.max(initial=0.0)),
            ),
        )

    def to_json(self) -> Json:
        """Return plain JSON."""
        return {
            "base": self.base.to_json(),
            "knots": list(self.knots),
            "floor": self.floor,
            "limits": list(self.limits),
        }

    @classmethod
    def from_json(cls, stored: Json) -> Self:
        """Read what `to_json` wrote."""
        gpus, nodes, slowest, fastest = map(float, stored["limits"])
        return cls(
            base=Base.from_json(stored["base"]),
            knots=tuple(map(float, stored["knots"])),
            floor=float(stored["floor"]),
            limits=(gpus, nodes, slowest, fastest),
        )


def seconds_elsewhere(systems: Iterable[System], calls: Calls) -> Floats:
    """Return times on a system that was never measured; at least one was."""
    measured = list(systems)
    wide = [item for item in measured if item.spans] or measured
    found: Floats = np.where(
        calls.nodes > 1, _typical_seconds(wide, calls), _typical_seconds(measured, calls)
    )
    return found


def _typical_seconds(systems: list[System], calls: Calls) -> Floats:
    logs = [np.log(item.base.seconds(calls)) for item in systems]
    found: Floats = np.exp(np.mean(logs, axis=0))
    return found


def spread_elsewhere(
    systems: Mapping[str, System], calls: Calls, seconds: Floats, *, usual: Spread
) -> Spread:
    """Hold out each system; never narrower than `usual` is beyond the data of a known one."""
    residuals = []
    for name in systems if len(systems) > 1 else ():
        here = calls.system == name
        others = [item for other, item in systems.items() if other != name]
        off = np.log(seconds[here] / seconds_elsewhere(others, calls.take(here)))
        residuals.append(float(np.copysign(np.sqrt(np.mean(off**2)), off.mean())))
    found = spread_of(np.array(residuals)) if residuals else UNKNOWN
    return Spread(low=min(found.low, usual.low**BEYOND), high=max(found.high, usual.high**BEYOND))
