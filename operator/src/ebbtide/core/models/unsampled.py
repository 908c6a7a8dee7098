"""
How wrong a model is about series that nobody sampled, by what of them was not.

A GPU type, a workload, or the two together may be new, or the number of servers. Each is a guess
of another kind, so each has an interval of its own, from holding out what it stands for. All about
one new GPU type is off together, and so on: each that is held out counts once.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Self

import numpy as np

from ebbtide.core.models.clusters import Clusters
from ebbtide.core.models.forecast import BEYOND, Json, Spread
from ebbtide.core.models.quality import Split
from ebbtide.core.models.residuals import spread_of
from ebbtide.core.models.table import Flags, Floats, Indices, Texts

MOST_FOLDS: Final = 5
"""Groups that are held out in turn at most for each kind; each alone where there are fewer."""


class New(IntEnum):
    """What of a row was not sampled; the later, the less is known."""

    NOTHING = 0
    SERVERS = 1
    PAIR = 2
    """Both the GPU type and the workload were sampled, but not together."""
    WORKLOAD = 3
    GPU = 4


UNKNOWN: Final[Mapping[New, Spread]] = {
    New.SERVERS: Spread(low=0.5, high=2.0),
    New.PAIR: Spread(low=0.1, high=10.0),
    New.WORKLOAD: Spread(low=0.1, high=10.0),
    New.GPU: Spread(low=0.1, high=10.0),
}
"""Where nothing could be held out: GPU types and workloads differ by a factor of ten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spreads:
    """Intervals by what was not sampled."""

    by_new: Mapping[New, Spread]

    def of(self, new: Indices) -> tuple[Floats, Floats]:
        """Return ratios low and high of each row."""
        low = np.array([self.by_new[kind].low for kind in New])
        high = np.array([self.by_new[kind].high for kind in New])
        return low[new], high[new]

    def to_json(self) -> Json:
        """Return plain JSON."""
        return {kind.name.lower(): self.by_new[kind].to_json() for kind in New}

    @classmethod
    def from_json(cls, stored: Json) -> Self:
        """Read what `to_json` wrote."""
        return cls(by_new={kind: Spread.from_json(stored[kind.name.lower()]) for kind in New})

    @classmethod
    def learn(cls, usual: Spread, residuals: Mapping[New, list[float]]) -> Self:
        """
        Take the interval of what was sampled, and the log residuals of what was held out.

        What is new is never more certain than what lies beyond the samples of a known series.
        """
        by_new = {New.NOTHING: usual}
        for kind, unknown in UNKNOWN.items():
            found = np.array(residuals.get(kind, []))
            spread = spread_of(found) if len(found) else unknown
            by_new[kind] = Spread(
                low=min(spread.low, usual.low**BEYOND), high=max(spread.high, usual.high**BEYOND)
            )
        return cls(by_new=by_new)


CERTAIN: Final = Spreads(by_new=dict.fromkeys(New, Spread(low=1.0, high=1.0)))
"""Of a fit that is only asked for its values."""


def residuals_of(
    clusters: Clusters, ask: Callable[[Clusters, Clusters], tuple[Floats, Indices]]
) -> dict[New, list[float]]:
    """
    Return log residuals of what was held out, by what of it was new to the fit.

    `ask` fits the first and returns for the second the speeds, and what of each row was new.
    A residual is the root of the mean square over what is off together, with the sign of its mean.
    """
    together: dict[tuple[New, str], list[float]] = {}
    for rest, held in _splits(clusters):
        asked = clusters.take(held)
        value, new = ask(clusters.take(rest), asked)
        off = np.log(asked.speed / value)
        for index, kind in enumerate(map(New, new.tolist())):
            name = _owner(kind, str(asked.gpu[index]), str(asked.workload[index]))
            together.setdefault((kind, name), []).append(float(off[index]))
    found: dict[New, list[float]] = {}
    for (kind, _), residuals in together.items():
        size = np.sqrt(np.mean(np.square(residuals)))
        found.setdefault(kind, []).append(float(np.copysign(size, np.mean(residuals))))
    return found


def _owner(kind: New, gpu: str, workload: str) -> str:
    """Name what is off together where so much is new."""
    return {New.GPU: gpu, New.WORKLOAD: workload}.get(kind, f"{gpu}\0{workload}")


def _splits(clusters: Clusters) -> Iterator[Split]:
    """Hold out numbers of servers, pairs of GPU type and workload, workloads, GPU types."""
    servers = np.array([f"{number:g}" for number in clusters.servers], dtype=object)
    pairs = np.array(
        [
            f"{gpu}\0{workload}"
            for gpu, workload in zip(clusters.gpu, clusters.workload, strict=True)
        ],
        dtype=object,
    )
    several = {pair for pair in set(pairs.tolist()) if len(set(servers[pairs == pair])) > 1}
    yield from _folds(servers, np.isin(pairs, sorted(several)))
    everything = np.ones(len(pairs), dtype=np.bool_)
    for groups in (pairs, clusters.workload, clusters.gpu):
        yield from _folds(groups, everything)


def _folds(groups: Texts, chosen: Flags) -> Iterator[Split]:
    names = sorted(set(groups[chosen].tolist()))
    for fold in range(min(MOST_FOLDS, len(names)) if len(names) > 1 else 0):
        held = chosen & np.isin(groups, np.array(names[fold::MOST_FOLDS], dtype=object))
        if not held.all():
            yield np.flatnonzero(~held), np.flatnonzero(held)
