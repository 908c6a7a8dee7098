"""
Every fleet that is the cheapest at its rate, counted in workers: nodes may be half full.

Pool by pool, partial fleets of the same number of workers (and of those on demand, as far as the
floor asks) are kept where none of them is both cheaper and faster: what is added later is the same
for both, so nothing that is dropped could have been better. Exact for any mixture of nodes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ebbtide.core.planner.risk import Offer

Floats: TypeAlias = NDArray[np.float64]
Places: TypeAlias = NDArray[np.intp]

FINER: Final = 1e-10
"""Relative: a fleet must be faster by more than this to be kept beside a cheaper one."""


@dataclass(frozen=True, slots=True)
class Point:
    """One fleet of a front."""

    usd_per_hour: float
    """Of its nodes."""
    rate: float
    """Late samples per hour, scaling loss counted."""
    place: int


@dataclass(frozen=True, slots=True)
class _Stage:
    """Partial fleets after one pool."""

    size: Places
    on_demand: Places
    """As far as the floor asks."""
    usd: Floats
    rate: Floats
    before: Places
    """The partial fleet of the stage before that each came from."""
    taken: Places
    """Workers of this stage's pool."""


@dataclass(frozen=True, slots=True)
class Front:
    """The fleets of some pools that may be the best of their number of workers."""

    names: tuple[str, ...]
    stages: tuple[_Stage, ...]
    floor: int

    def points(
        self, sizes: Sequence[int], efficiency_of: Callable[[int], float]
    ) -> tuple[Point, ...]:
        """Return by rising cost the fleets of legal sizes that are the cheapest at their rate."""
        stage = self.stages[-1]
        # by number of workers: what each keeps of its pace, 0 where there may not be so many
        scales = np.zeros(max(*sizes, int(stage.size.max(initial=0))) + 1)
        scales[list(sizes)] = [efficiency_of(size) for size in sizes]
        scale = scales[stage.size]
        places = np.flatnonzero((scale > 0) & (stage.on_demand >= self.floor))
        usd, rate = stage.usd[places], stage.rate[places] * scale[places]
        kept = _best(np.zeros(len(places), dtype=np.intp), usd, rate)
        return tuple(Point(float(usd[i]), float(rate[i]), int(places[i])) for i in kept)

    def workers_of(self, point: Point) -> dict[str, int]:
        """Return workers by pool."""
        found: dict[str, int] = {}
        place = point.place
        for name, stage in zip(reversed(self.names), reversed(self.stages), strict=True):
            found[name] = int(stage.taken[place])
            place = int(stage.before[place])
        return found


Fronts: TypeAlias = dict[tuple[tuple[str, float], ...], Front]
"""By names of pools and the rates that they are counted with."""


def list_front(offers: Sequence[Offer], *, sizes: Sequence[int], floor: int) -> Front:
    """List what fleets of some legal sizes may be made of."""
    least, most = min(sizes), max(sizes)
    none, zero = np.zeros(1), np.zeros(1, dtype=np.intp)
    stage = _Stage(zero, zero, none, none, zero, zero)
    stages: list[_Stage] = []
    rest = sum(offer.room for offer in offers)
    for offer in offers:
        rest -= offer.room
        counts = _count(offer, offers, sizes=sizes, floor=floor)
        stage = _add(stage, offer, counts, most=most, floor=floor)
        stage = _take(stage, np.flatnonzero(stage.size + rest >= least))
        stages.append(stage)
    return Front(names=tuple(offer.name for offer in offers), stages=tuple(stages), floor=floor)


def _count(offer: Offer, offers: Sequence[Offer], *, sizes: Sequence[int], floor: int) -> Places:
    """
    Return the numbers of workers of one pool that can be of use.

    Of two half full nodes of one market the faster takes workers of the other for no more money,
    and so it is between markets unless the workers on demand are the floor and no more. So where
    all nodes are alike and sizes fill them, a node is half full for that floor alone: with what
    the floor leaves over on demand, and with the rest on spot.
    """
    counts: Places = np.arange(min(offer.room, max(sizes)) + 1, dtype=np.intp)
    number = offer.per_node
    if any(one.per_node != number for one in offers) or any(size % number for size in sizes):
        return counts
    rest = floor % number
    residue = (number - rest) % number if offer.is_spot else rest
    left = counts % number
    useful: Places = counts[(left == 0) | (left == residue)]
    return useful


def _add(stage: _Stage, offer: Offer, counts: Places, *, most: int, floor: int) -> _Stage:
    """Add these numbers of workers of one pool to every partial fleet."""
    before, taken = (
        grid.ravel() for grid in np.meshgrid(np.arange(len(stage.size)), counts, indexing="ij")
    )
    size = stage.size[before] + taken
    inside = size <= most
    before, taken, size = before[inside], taken[inside], size[inside]
    on_demand = stage.on_demand[before] + (0 if offer.is_spot else taken)
    nodes = -(-taken // offer.per_node)
    whole = _Stage(
        size=size,
        on_demand=np.minimum(on_demand, floor),
        usd=stage.usd[before] + nodes * offer.usd_per_hour,
        rate=stage.rate[before] + taken * offer.late_rate,
        before=before,
        taken=taken,
    )
    group = whole.size * (floor + 1) + whole.on_demand
    return _take(whole, _best(group, whole.usd, whole.rate))


def _take(stage: _Stage, places: Places) -> _Stage:
    return _Stage(
        size=stage.size[places],
        on_demand=stage.on_demand[places],
        usd=stage.usd[places],
        rate=stage.rate[places],
        before=stage.before[places],
        taken=stage.taken[places],
    )


def _best(group: Places, usd: Floats, rate: Floats) -> Places:
    """Return what is on the front of its group, by group and rising cost."""
    if not len(usd):
        return np.zeros(0, dtype=np.intp)
    order = np.lexsort((-rate, usd, group))
    # rates of a later group all lie above those of an earlier one, so one running maximum will do
    lifted = rate[order] / max(rate.max(), 1e-300) + 2.0 * group[order]
    best = np.maximum.accumulate(lifted)
    better = np.ones(len(order), dtype=np.bool_)
    better[1:] = lifted[1:] > best[:-1] + FINER
    kept: Places = order[better]
    return kept
