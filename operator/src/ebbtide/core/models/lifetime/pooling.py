"""
Hazards of pools, drawn to those of their zone and GPU type, and these to the whole fleet.

Two steps at each level. First a pool may be as a whole better or worse than its kin: one factor on
their hazard, with a prior of heavy tails. Then each age bin counts its own deaths, beside so many
imagined nodes that die as the kin do (a beta process with its kin as the mean; Hjort 1990, Annals
of Statistics 18, 1259-1294).
"""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from ebbtide.core.models.lifetime.ages import EDGES, LEAST_RATE, MOST_RATE, WIDTHS, Counts
from ebbtide.core.models.lifetime.families import CAP
from ebbtide.core.models.lifetime.lives import Pool
from ebbtide.core.models.table import Floats, Indices

UNLIKE: Final = 0.1
"""One pool in ten is taken to be unlike all others, by any factor of `FACTORS`."""
FACTORS: Final[Floats] = np.geomspace(1 / 16, 256, 37)


SPREAD: Final = 0.5
"""
Standard deviation of the logarithm of the factor by which a group is unlike its kin.

That of -log(share that lived a day) over the 12 regions and GPU types of Li, Walls and Guo (ICDCS
2020) is 0.52.
"""

ANY: Final = "*"
"""Stands for any pool, zone or GPU type in a key."""
FLEET: Final[Pool] = (ANY, ANY, ANY)

MOST_DEAD: Final = 1 - 1e-12
"""The share of nodes that die in one bin, at most: a hazard stays finite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """Which pools share a GPU type, a zone, or both; indices count inside each level."""

    pools: tuple[Pool, ...]
    gpus: tuple[Pool, ...]
    zones: tuple[Pool, ...]
    pairs: tuple[Pool, ...]
    gpu_of: Indices
    """GPU type of each pair."""
    zone_of: Indices
    """Zone of each pair."""
    pair_of: Indices
    """Pair of each pool."""

    @classmethod
    def of(cls, pools: tuple[Pool, ...]) -> Self:
        """Group pools by what they share."""
        pair_keys = [(ANY, zone, gpu) for _, zone, gpu in pools]
        pairs = tuple(dict.fromkeys(pair_keys))
        gpu_keys = [(ANY, ANY, gpu) for _, _, gpu in pairs]
        zone_keys = [(ANY, zone, ANY) for _, zone, _ in pairs]
        gpus, zones = tuple(dict.fromkeys(gpu_keys)), tuple(dict.fromkeys(zone_keys))
        return cls(
            pools=pools,
            gpus=gpus,
            zones=zones,
            pairs=pairs,
            gpu_of=_places(gpu_keys, gpus),
            zone_of=_places(zone_keys, zones),
            pair_of=_places(pair_keys, pairs),
        )

    @property
    def keys(self) -> tuple[Pool, ...]:
        """The names of the rows of hazards, from the fleet down to the pools."""
        return (FLEET, *self.gpus, *self.zones, *self.pairs, *self.pools)


def draw(own: Counts, levels: Levels, law: Floats, nodes: float | None) -> Floats:
    """
    Return hazards for each of `levels.keys`, from the counts of each pool.

    A pair is drawn to the mean of its type's and its zone's hazards; where all pools have one type
    (or one zone), that level says nothing and is left out.
    """
    by_pair = own.merge(levels.pair_of, groups=len(levels.pairs))
    by_gpu = by_pair.merge(levels.gpu_of, groups=len(levels.gpus))
    by_zone = by_pair.merge(levels.zone_of, groups=len(levels.zones))
    whole = by_gpu.merge(np.zeros(len(levels.gpus), dtype=np.intp), groups=1)

    fleet = mix(whole, law[None, :], nodes)
    gpus, zones = _below(fleet, by_gpu, nodes), _below(fleet, by_zone, nodes)
    kin = gpus[levels.gpu_of]
    if len(zones) > 1:
        kin = zones[levels.zone_of] if len(gpus) == 1 else (kin + zones[levels.zone_of]) / 2
    pairs = fall(by_pair, kin, nodes)
    parents = pairs[levels.pair_of]
    num_pools = np.bincount(levels.pair_of, minlength=len(levels.pairs))[levels.pair_of]
    pools = np.where(num_pools[:, None] == 1, parents, fall(own, parents, nodes))
    return np.concatenate([fleet, gpus, zones, pairs, pools])


def _below(fleet: Floats, own: Counts, nodes: float | None) -> Floats:
    kin = np.repeat(fleet, len(own.deaths), axis=0)
    # the only type or zone is the fleet: its lives count once
    return kin if len(kin) == 1 else fall(own, kin, nodes)


def fall(own: Counts, kin: Floats, nodes: float | None) -> Floats:
    """Return hazards of groups, one level below those of their kin."""
    return mix(own, shift(own, kin), nodes)


def mix(own: Counts, kin: Floats, nodes: float | None) -> Floats:
    """Return hazards from own counts and so many imagined nodes that die as the kin do."""
    if nodes is None:
        return kin
    # By nodes, not by hours at risk: so survival at the edges is Kaplan and Meier's, also where all
    # deaths of a bin came at once. Past the cap, where all die, by hours: so they die in time.
    dead = -np.expm1(-kin * WIDTHS)
    share = np.minimum((own.deaths + nodes * dead) / (own.nodes + nodes), MOST_DEAD)
    by_hours = (own.deaths + nodes * dead) / (own.hours + nodes * dead / kin)
    found = np.where(EDGES < CAP, -np.log1p(-share) / WIDTHS, by_hours)
    return np.clip(found, LEAST_RATE, MOST_RATE)


def shift(own: Counts, kin: Floats) -> Floats:
    """
    Return the kin's hazards times a factor that is not quite known.

    Bayes over a grid of factors: a normal around 1 on a logarithmic scale, and for one pool in
    ten anything. The mean of survival over the factors gives the hazards: they fall with age,
    as the nodes of a bad pool go first.
    """
    scaled = EDGES < CAP  # past a cap all nodes die, in good pools and in bad ones
    logs = np.log(FACTORS)
    usual = np.exp(-((logs / SPREAD) ** 2) / 2)
    before = (1 - UNLIKE) * usual / usual.sum() + UNLIKE / len(FACTORS)
    seen = own.deaths[:, scaled].sum(axis=1, keepdims=True)
    expected = (kin * own.hours)[:, scaled].sum(axis=1, keepdims=True)
    weight = np.log(before) + seen * logs - expected * FACTORS

    steps = np.where(scaled, kin, 0.0)[:, :-1] * WIDTHS[:-1]
    sums = np.concatenate([np.zeros((len(kin), 1)), np.cumsum(steps, axis=1)], axis=1)
    alive = weight[:, None, :] - sums[:, :, None] * FACTORS
    top = alive.max(axis=2, keepdims=True)
    share = np.exp(alive - top)
    total = share.sum(axis=2)
    mean_factor = (share @ FACTORS) / total
    found = mean_factor * kin
    found[:, :-1] = -np.diff(np.log(total) + top[:, :, 0], axis=1) / WIDTHS[:-1]
    return np.clip(np.where(scaled, found, kin), LEAST_RATE, MOST_RATE)


def _places(keys: list[Pool], among: tuple[Pool, ...]) -> Indices:
    number = {key: index for index, key in enumerate(among)}
    return np.array([number[key] for key in keys], dtype=np.intp)
