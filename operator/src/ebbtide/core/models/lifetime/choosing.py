"""
What the data themselves choose: how much each way to fit counts, and whether the hour of day does.

Ways to fit are few and fixed. Their forecasts are averaged with the weights under which lives that
were held out are most likely (stacking of distributions; Yao et al. 2018, Bayesian Analysis 13,
917-1007). Every pool lies in every fold.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ebbtide.core.models.lifetime.ages import Counts, Curves, bin_of, blend
from ebbtide.core.models.lifetime.families import CAP, FAMILIES, Law, find_wall, fit_law
from ebbtide.core.models.lifetime.hours import ByHour
from ebbtide.core.models.lifetime.lives import Lives
from ebbtide.core.models.lifetime.pooling import Levels, draw
from ebbtide.core.models.table import Floats, Indices

FOLDS: Final = 3
LEAST_LIVES: Final = 30
LEAST_DEATHS: Final = 5
"""With fewer lives or revocations nothing is chosen: all ways count the same."""
ROUNDS: Final = 100
"""Of the EM algorithm that finds the weights; it only ever improves, and needs no last digit."""

NODES: Final = (5.0, 20.0, 80.0)
"""Imagined nodes beside those of a pool: few, some, many."""
ALONE: Final = 1e-6
"""Next to none: each pool counts for itself."""

HOUR_DEATHS: Final = (10.0, 40.0)
"""Imagined deaths that draw the factor of an hour of day to 1."""
LEAST_GAIN: Final = 10.0
"""
In logarithms of likelihood: by how much the hour of day must help held-out lives to be used.

More than chance gives two parameters, as nodes that started together often die together: one
event then counts several times.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to fit, and how much its forecast counts."""

    law: str
    nodes: float | None
    """Imagined nodes that follow the level above; None: every group follows the law."""
    weight: float = 1.0


METHODS: Final[dict[str, tuple[Way, ...]]] = {
    "stacked": (
        *(Way(law=law, nodes=None) for law in FAMILIES),
        *(Way(law="", nodes=nodes) for nodes in NODES),
    ),
    "nonparametric": tuple(Way(law="", nodes=nodes) for nodes in NODES),
    "bathtub": (Way(law="bathtub", nodes=None),),
    "weibull": (Way(law="weibull", nodes=None),),
    "exponential": (Way(law="exponential", nodes=None),),
    "empirical": (Way(law="exponential", nodes=ALONE),),
}
"""Ways by name of the method; where no law is named, the one that suits the fleet best."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What was chosen."""

    ways: tuple[Way, ...]
    """With weights that sum to 1."""
    hour_deaths: float | None = None
    """Imagined deaths by hour of day; None where the hour tells nothing."""


def choose(lives: Lives, ways: tuple[Way, ...]) -> Choice:
    """Choose by held-out likelihood; with few lives, let all ways count the same."""
    deaths = int(np.sum(lives.revoked & (lives.hours < CAP)))
    even = 1 / len(ways)
    if len(lives) < LEAST_LIVES or deaths < LEAST_DEATHS:
        usual = next(iter(FAMILIES))
        return Choice(ways=tuple(replace(way, law=way.law or usual, weight=even) for way in ways))
    laws = [name for name in FAMILIES if any(way.law in {"", name} for way in ways)]
    folds = tuple(_deal(lives, laws))
    law = max(laws, key=lambda name: sum(fold.law_score(name) for fold in folds))
    named = tuple(replace(way, law=way.law or law, weight=even) for way in ways)
    pools = [np.array([fold.pools(way) for way in named]) for fold in folds]
    weights = _weigh(folds, pools) if len(named) > 1 else np.ones(1)
    return Choice(
        ways=tuple(
            replace(way, weight=round(float(weight), 6))
            for way, weight in zip(named, weights, strict=True)
        ),
        hour_deaths=_choose_hours(folds, [blend(each, weights) for each in pools]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """Hazards of all levels, and the laws of the fleet behind them."""

    laws: tuple[Law, ...]
    rates: Floats
    """By `Levels.keys`, shape (keys, BINS)."""


def fit_ways(lives: Lives, ways: Sequence[Way]) -> Fitted:
    """Fit in each of the ways, and average survival by their weights."""
    own = count(lives)
    wall = find_wall(lives.hours)
    laws = {name: fit_fleet(own, name, wall) for name in dict.fromkeys(way.law for way in ways)}
    levels = Levels.of(lives.pools)
    each = [draw(own, levels, laws[way.law].rates, way.nodes) for way in ways]
    weights = np.array([way.weight for way in ways])
    return Fitted(laws=tuple(laws.values()), rates=blend(np.array(each), weights))


def count(lives: Lives) -> Counts:
    """Count deaths and time at risk by pool."""
    return Counts.of(lives.hours, lives.revoked, lives.pool, groups=len(lives.pools))


def fit_fleet(own: Counts, name: str, wall: float) -> Law:
    """Fit a law to all pools together."""
    return fit_law(name, own.deaths.sum(axis=0), own.hours.sum(axis=0), wall=wall)


# ---------------------------------------------------------------- held out


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fold:
    """Lives to fit from and lives that are held out."""

    known: Lives
    held: Lives
    own: Counts
    """Of the known lives."""
    levels: Levels
    laws: dict[str, Law]

    def law_score(self, name: str) -> float:
        whole = np.zeros_like(self.held.pool)
        return float(_log_densities(self.laws[name].rates[None, :], self.held, whole).sum())

    def pools(self, way: Way) -> Floats:
        """Return the hazards of the pools."""
        found = draw(self.own, self.levels, self.laws[way.law].rates, way.nodes)
        return found[-len(self.known.pools) :]


def _deal(lives: Lives, laws: Sequence[str]) -> Iterator[_Fold]:
    fold, levels, wall = lives.deal(FOLDS), Levels.of(lives.pools), find_wall(lives.hours)
    for number in range(FOLDS):
        known = lives.take(fold != number)
        own = count(known)
        yield _Fold(
            known=known,
            held=lives.take(fold == number),
            own=own,
            levels=levels,
            laws={name: fit_fleet(own, name, wall) for name in laws},
        )


def _weigh(folds: Sequence[_Fold], pools: Sequence[Floats]) -> Floats:
    """Maximise the likelihood of held-out lives under the average; the EM steps of a mixture."""
    logs = np.concatenate(
        [
            np.stack([_log_densities(rates, fold.held, fold.held.pool) for rates in each], axis=1)
            for fold, each in zip(folds, pools, strict=True)
        ]
    )
    density = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights = np.full(density.shape[1], 1 / density.shape[1])
    for _ in range(ROUNDS):
        weights = (density * weights / (density @ weights)[:, None]).mean(axis=0)
    found: Floats = weights / weights.sum()
    return found


def _log_densities(rates: Floats, lives: Lives, group: Indices) -> Floats:
    """Return how likely each life is; one that was still going on counts by its survival."""
    curves = Curves(rates=rates, walls=np.full(len(rates), np.inf))
    alive = curves.hazard_until(group, lives.hours)
    dead = np.log(rates[group, bin_of(lives.hours)])
    found: Floats = np.where(lives.revoked, dead, 0.0) - alive
    return found


def _choose_hours(folds: Sequence[_Fold], pools: Sequence[Floats]) -> float | None:
    if not any(np.isfinite(fold.known.start).any() for fold in folds):
        return None
    pairs = [
        (ByHour.of(fold.known, rates), ByHour.of(fold.held, rates))
        for fold, rates in zip(folds, pools, strict=True)
    ]
    gains = {
        deaths: sum(held.gain(known.factors(deaths)) for known, held in pairs)
        for deaths in HOUR_DEATHS
    }
    best = max(gains, key=lambda deaths: gains[deaths])
    return best if gains[best] > LEAST_GAIN else None
