"""
Lives of nodes: integrated Brier scores on lives that were held out.

20 seeded half splits, stratified by type; only type and zone are known at the start; lives that
their user ended are cut off there, and lives that were seen to the end count for them (inverse
probability of censoring, from the known half); 0 to 24 h.

Batches of nodes started and died together, and a split by chance puts them on both sides; that
helps peers and model alike. The last rows hold this against the figures: whole pools held out,
weights of each pool's own, and lives of another study.
"""

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from xgboost import XGBRegressor

from ebbtide.core.models.lifetime import KIND, scoring
from ebbtide.core.models.lifetime.ages import BINS, Curves
from ebbtide.core.models.lifetime.choosing import count, fit_fleet
from ebbtide.core.models.lifetime.families import find_wall
from ebbtide.core.models.lifetime.fitting import ask_of, fit, fit_lives
from ebbtide.core.models.lifetime.lives import START, Lives
from ebbtide.core.models.quality import Quality, Scores, leave_one_out
from ebbtide.core.models.table import Floats, Table, Texts
from ebbtide.data.shapes import lifetimes
from rows import Row

DATA: Final = Path(__file__).resolve().parents[2] / "tests" / "data"
SEEDS: Final = 20
BAR: Final = 8.0
"""Percent below each of the two peers."""
DAY: Final = 24.0
GRID: Final[Floats] = scoring.grid_to(DAY)
KAPLAN_MEIER: Final = "Kaplan-Meier, pooled"
BATHTUB: Final = "bathtub, pooled"

Forecast: TypeAlias = Callable[[Lives, Lives], Floats]
"""From known lives, the survival of held-out lives over the grid."""


def rows() -> list[Row]:
    """Score our methods and the peers."""
    table = lifetimes.read_preemptions(_text("goog-preemption/lifetimes.csv"))
    cells = {name: cells for name, cells in table.cells.items() if name != START.name}
    bare = Lives.read(Table(cells, table.rows))
    scores = score_all(bare, {**PEERS, **OWN}, weigh=_by_fleet)
    by_pool = score_all(bare, {**PEERS, **OWN}, weigh=_by_pool)
    with_hour = score_all(Lives.read(table), {"own": OWN[KIND.default]}, weigh=_by_fleet)["own"]
    own = scores[KIND.default]
    title = "lifetime, integrated Brier score, 20 halves"
    return [
        Row(title, own, "score", "lower", None, _others(scores)),
        *(
            Row(f"{title}, below {peer}", _below(scores, peer), "%", "higher", BAR)
            for peer in (KAPLAN_MEIER, BATHTUB)
        ),
        Row(
            f"{title}, below the better peer",
            min(_below(scores, peer) for peer in (KAPLAN_MEIER, BATHTUB)),
            "%",
            "higher",
            None,
            {name: _below(scores, KAPLAN_MEIER, own=name) for name in scores},
        ),
        Row(f"{title}, hour of start told", with_hour, "score", "lower", None, {"not told": own}),
        Row(
            f"{title}, weights by pool, below {KAPLAN_MEIER}",
            _below(by_pool, KAPLAN_MEIER),
            "%",
            "higher",
            None,
            {name: _below(by_pool, KAPLAN_MEIER, own=name) for name in by_pool},
        ),
        *unseen_pools(table),
        *gpu_nodes(),
    ]


def score_all(
    lives: Lives, forecasts: dict[str, Forecast], *, weigh: Callable[[Lives, Lives], Floats]
) -> dict[str, float]:
    """Score each forecast: the mean over the seeds."""
    found: dict[str, list[float]] = {name: [] for name in forecasts}
    for known, held in _halves(lives):
        weights = weigh(known, held)
        for name, forecast in forecasts.items():
            survival = np.broadcast_to(forecast(known, held), weights.shape)
            found[name].append(_brier(survival, held, weights))
    return {name: float(np.mean(values)) for name, values in found.items()}


def unseen_pools(table: Table) -> Iterator[Row]:
    """Hold out whole zones: a new zone has only its type to go by."""
    zones = table.cells["zone"]
    judge = KIND.judge
    assert judge is not None  # noqa: S101 -- the kind is ours
    found = {
        method: _score_of(
            judge(table, leave_one_out(zones), method=method, group="zone", split="zone")
        )
        for method in KIND.methods
    }
    own = found.pop(KIND.default)
    yield Row("lifetime, Brier score, whole zones held out", own, "score", "lower", None, found)


def gpu_nodes() -> Iterator[Row]:
    """Score GPU nodes, which nobody looked at when the model was made."""
    table = lifetimes.read_blocks(_text("cakelab-gpu-lifetime/lifetime.csv"))
    found = {method: _score_of(fit(table, method=method).quality) for method in KIND.methods}
    own = found.pop(KIND.default)
    yield Row("lifetime, Brier score, 152 GPU nodes, 5 folds", own, "score", "lower", None, found)


def _score_of(quality: Quality) -> float:
    assert isinstance(quality.errors, Scores)  # noqa: S101 -- there are lives enough to hold out
    return quality.errors.integrated_brier


def _text(path: str) -> str:
    return (DATA / path).read_text(encoding="utf-8")


def _others(scores: dict[str, float]) -> dict[str, float]:
    return {name: score for name, score in scores.items() if name != KIND.default}


def _below(scores: dict[str, float], peer: str, *, own: str = KIND.default) -> float:
    return (1 - scores[own] / scores[peer]) * 100


def _halves(lives: Lives) -> Iterator[tuple[Lives, Lives]]:
    kinds: Texts = np.array([lives.pools[index][2] for index in lives.pool], dtype=object)
    for seed in range(SEEDS):
        known, held = scoring.halves(kinds, chance=np.random.default_rng(seed))
        yield lives.take(known), lives.take(held)


# ---------------------------------------------------------------- weights


def _by_fleet(known: Lives, held: Lives) -> Floats:
    """Weights of each held-out life at each time, from all known lives together."""
    return _weights(scoring.Steps.of(known.hours, ~known.revoked), held)


def _by_pool(known: Lives, held: Lives) -> Floats:
    """The same from the pool's own lives: users of some pools end theirs sooner."""
    found = np.zeros((len(held), len(GRID)))
    for pool in np.unique(held.pool):
        mine = held.pool == pool
        own = known.take(known.pool == pool)
        own = own if len(own) else known
        found[mine] = _weights(scoring.Steps.of(own.hours, ~own.revoked), held.take(mine))
    return found


LEAST_SEEN: Final = 0.05


def _weights(seen: scoring.Steps, held: Lives) -> Floats:
    dead = (held.hours[:, None] <= GRID) & held.revoked[:, None]
    alive = held.hours[:, None] > GRID
    before = np.maximum(seen.at(held.hours, before=True), LEAST_SEEN)
    now = np.maximum(seen.at(GRID), LEAST_SEEN)
    found: Floats = dead / before[:, None] + alive / now
    return found


def _brier(survival: Floats, held: Lives, weights: Floats) -> float:
    alive = held.hours[:, None] > GRID
    at = np.mean(weights * (alive - survival) ** 2, axis=0)
    return float(np.trapezoid(np.append(0.0, at), np.append(0.0, GRID)) / DAY)


# ---------------------------------------------------------------- forecasts


def kaplan_meier(known: Lives, held: Lives) -> Floats:
    """All lives together."""
    del held
    return scoring.Steps.of(known.hours, known.revoked).at(GRID)[None, :]


def kaplan_meier_by_type(known: Lives, held: Lives) -> Floats:
    """One estimate for each type."""
    types = np.array([pool[2] for pool in known.pools], dtype=object)
    found = np.zeros((len(held), len(GRID)))
    for name in set(types[held.pool].tolist()):
        mine = types[held.pool] == name
        own = known.take(types[known.pool] == name)
        found[mine] = scoring.Steps.of(own.hours, own.revoked).at(GRID)
    return found


def pooled_law(name: str) -> Forecast:
    """A law for all lives together, with the same censoring; the cap is not held against it."""

    def forecast(known: Lives, held: Lives) -> Floats:
        del held
        wall = find_wall(known.hours)
        rates = fit_fleet(count(known), name, wall).rates[None, :]
        zeros = np.zeros(len(GRID))
        curves = Curves(rates=rates, walls=np.array([wall]))
        return curves.survival(zeros.astype(np.intp), zeros, GRID)[None, :]

    return forecast


def trees(known: Lives, held: Lives) -> Floats:
    """Hazards by bin, type and zone from boosted trees (xgboost, Poisson)."""
    own = count(known)
    features = _features(known)
    at_risk = own.hours.ravel() > 0
    margin = np.log(own.hours.ravel()[at_risk])
    model = XGBRegressor(
        objective="count:poisson", n_estimators=150, max_depth=3, learning_rate=0.1, n_jobs=1
    )
    model.fit(features[at_risk], own.deaths.ravel()[at_risk], base_margin=margin)
    rates = model.predict(features, base_margin=np.zeros(len(features))).reshape(-1, BINS)
    curves = Curves(rates=rates.astype(np.float64), walls=np.full(len(rates), np.inf))
    return _spread(curves, held)


def _features(known: Lives) -> Floats:
    names = [sorted({pool[part] for pool in known.pools}) for part in (1, 2)]
    one_hot = [
        [
            float(pool[part] == name)
            for part, some in zip((1, 2), names, strict=True)
            for name in some
        ]
        for pool in known.pools
    ]
    pools = np.repeat(np.array(one_hot), BINS, axis=0)
    bins = np.tile(np.arange(BINS, dtype=np.float64), len(known.pools))
    return np.hstack([pools, bins[:, None]])


def _spread(curves: Curves, held: Lives) -> Floats:
    number = len(GRID)
    return curves.survival(
        np.repeat(held.pool, number), np.zeros(len(held) * number), np.tile(GRID, len(held))
    ).reshape(-1, number)


def cox(known: Lives, held: Lives) -> Floats:
    """Cox's proportional hazards by type and zone (lifelines), slightly penalised."""
    pandas = importlib.import_module("pandas")  # by name: neither it nor lifelines is in our lock
    lifelines = importlib.import_module("lifelines")

    def frame(lives: Lives) -> Any:  # noqa: ANN401 -- a data frame, of a library not installed
        columns = {
            f"{part}={name}": [float(lives.pools[index][part] == name) for index in lives.pool]
            for part in (1, 2)
            for name in sorted({pool[part] for pool in lives.pools})
        }
        return pandas.DataFrame(columns)

    fitter = lifelines.CoxPHFitter(penalizer=0.1)
    fitter.fit(frame(known).assign(T=known.hours, E=known.revoked), "T", "E")
    survival = fitter.predict_survival_function(frame(held), times=GRID)
    found: Floats = survival.to_numpy().T
    return found


def own_method(name: str) -> Forecast:
    """One of our methods."""

    def forecast(known: Lives, held: Lives) -> Floats:
        return ask_of(fit_lives(known, method=name), held).survival(GRID[None, :])

    return forecast


PEERS: Final[dict[str, Forecast]] = {
    KAPLAN_MEIER: kaplan_meier,
    BATHTUB: pooled_law("bathtub"),
    "Weibull, pooled": pooled_law("weibull"),
    "exponential, pooled": pooled_law("exponential"),
    "Kaplan-Meier by type": kaplan_meier_by_type,
    "xgboost": trees,
    **({"Cox": cox} if importlib.util.find_spec("lifelines") else {}),
}
OWN: Final[dict[str, Forecast]] = {name: own_method(name) for name in KIND.methods}
