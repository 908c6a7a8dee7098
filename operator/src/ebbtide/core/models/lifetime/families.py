"""
Laws of life for a whole fleet: exponential, Weibull, bathtub; hazards by age bin.

All are fitted by maximum likelihood from deaths and time at risk by bin, so a life that was still
going on counts for what was seen of it. A weak prior keeps every parameter finite.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from ebbtide.core.models.lifetime import prior
from ebbtide.core.models.lifetime.ages import EDGES, LEAST_RATE, MOST_RATE, WIDTHS
from ebbtide.core.models.table import Floats

CAP: Final = 24.0
"""Hours after which Google Cloud ends a preemptible node."""
SLACK: Final = 1.5
"""Hours by which ends at the cap scatter around it: 24.8 h is the longest life seen."""
LEAST_AT_CAP: Final = 5
"""Ends at the cap, and none beyond, that show that there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """A fitted law: its parameters by name, and hazards in 1/h, one for each age bin."""

    name: str
    parameters: dict[str, float]
    rates: Floats


Fit: TypeAlias = Callable[[Floats, Floats], Law]


def find_wall(hours: Floats, *, otherwise: float = np.inf) -> float:
    """
    Return the age that no node outlives; infinite where the lives show none.

    At least five nodes came near the cap of 24 h, and none got past it by more than 1.5 h. Where
    too few came near and none got past, it is as it is for others.
    """
    longest = float(hours.max(initial=0.0))
    if longest > CAP + SLACK:
        return np.inf
    near = int(np.sum(hours >= CAP - SLACK / 3))
    return max(longest, CAP) if near >= LEAST_AT_CAP else max(longest, otherwise)


def fit_exponential(deaths: Floats, hours: Floats) -> Law:
    """One hazard for every age."""
    rate = prior.mean_rate(float(deaths.sum()), float(hours.sum()))
    return Law(
        name="exponential", parameters={"rate_per_hour": rate}, rates=np.full(len(EDGES), rate)
    )


def fit_weibull(deaths: Floats, hours: Floats) -> Law:
    """
    H(t) = (t / scale)^shape.

    For each shape the best scale has a closed form, so one search over the shape is enough.
    """

    def at(shape: float) -> tuple[float, Floats, float]:
        form = _slopes(np.exp(shape) * np.log(np.maximum(EDGES, 1e-12) / prior.HALF_LIFE))
        factor = (deaths.sum() + prior.EVENTS) / (hours @ form + prior.EVENTS / np.log(2))
        rates = np.clip(factor * form, LEAST_RATE, MOST_RATE)
        return _log_likelihood(deaths, hours, rates) - shape**2 / 2, rates, factor

    grid = np.log(np.geomspace(0.2, 5.0, 25))
    best = max(grid, key=lambda shape: at(shape)[0])
    fine = np.linspace(best - 0.14, best + 0.14, 15)
    best = max(fine, key=lambda shape: at(shape)[0])
    _, rates, factor = at(best)
    shape = float(np.exp(best))
    return Law(
        name="weibull",
        parameters={"shape": shape, "scale_h": float(prior.HALF_LIFE * factor ** (-1 / shape))},
        rates=rates,
    )


def _slopes(log_cumulative: Floats) -> Floats:
    """Turn the logarithm of a cumulative hazard at the edges into a mean hazard of each bin."""
    sums = np.exp(log_cumulative)
    sums[0] = 0.0
    slopes = np.diff(sums) / WIDTHS[:-1]
    return np.append(slopes, slopes[-1])


BATHTUB_NAMES: Final = ("share", "early_h", "late_h", "end_h")
BATHTUB: Final[Floats] = np.log([0.45, 1.0, 0.8, 24.5])
"""Start of the search and centre of its weak prior: the values of Kadupitiya et al. 2020."""
BATHTUB_SPREAD: Final[Floats] = np.array([1.0, 1.0, 1.0, 0.2])


def fit_bathtub(deaths: Floats, hours: Floats) -> Law:
    """
    F(t) = share (1 - exp(-t / early) + exp((t - end) / late)).

    The law of Kadupitiya, Jadhao and Sharma for preemptible nodes (HPDC 2020): many die early, few
    in the middle, the rest near the cap. Theirs took every end for a death; here it is not so.
    """
    from scipy.optimize import minimize  # noqa: PLC0415 -- the operator starts without scipy

    def loss(logs: Floats) -> float:
        off = (logs - BATHTUB) / BATHTUB_SPREAD
        return float(off @ off) / 2 - _log_likelihood(deaths, hours, _bathtub(np.exp(logs)))

    # a hundredth, of likelihood and of each parameter, is far below what the data can tell
    found = minimize(loss, BATHTUB, method="Nelder-Mead", options={"xatol": 1e-2, "fatol": 1e-2})
    values = np.exp(found.x)
    named = zip(BATHTUB_NAMES, values.tolist(), strict=True)
    return Law(name="bathtub", parameters=dict(named), rates=_bathtub(values))


def _bathtub(values: Floats) -> Floats:
    share, early, late, end = values
    ends = EDGES[1:]
    dead = share * (-np.expm1(-ends / early) + np.exp(np.minimum((ends - end) / late, 50.0)))
    alive = np.maximum(1 - dead, 1e-9)
    sums = np.concatenate([[0.0], -np.log(np.minimum(alive, 1.0))])
    slopes = np.diff(sums) / WIDTHS[:-1]
    found: Floats = np.clip(np.append(slopes, slopes[-1]), LEAST_RATE, MOST_RATE)
    return found


def _log_likelihood(deaths: Floats, hours: Floats, rates: Floats) -> float:
    return float(deaths @ np.log(rates) - hours @ rates)


FAMILIES: Final[Mapping[str, Fit]] = {
    "exponential": fit_exponential,
    "weibull": fit_weibull,
    "bathtub": fit_bathtub,
}


def fit_law(name: str, deaths: Floats, hours: Floats, *, wall: float) -> Law:
    """
    Fit a law to a fleet.

    Past the cap no law holds: there the hazard is what it was seen to be. Ages that no node has
    reached get what the prior says of the unseen.
    """
    below = EDGES < CAP if np.isfinite(wall) else np.ones(len(EDGES), dtype=np.bool_)
    law = FAMILIES[name](np.where(below, deaths, 0.0), np.where(below, hours, 0.0))
    rates = law.rates.copy()
    unseen = (hours <= 0) & below
    rates[unseen] = prior.unseen_rate(float(deaths.sum()), float(hours.sum()))
    rates[~below] = (deaths[~below] + prior.EVENTS) / (hours[~below] + prior.EVENTS)
    return replace(law, rates=np.clip(rates, LEAST_RATE, MOST_RATE))
