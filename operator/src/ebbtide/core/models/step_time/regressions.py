"""
The regressions of CM-DARE, as named alternatives.

S. Li, R. Walls, T. Guo, ICDCS 2020: step time by FLOPs, scaled to 0..1 over the samples, for each
GPU type; or for all types at once by FLOPs over the type's peak, or by FLOPs and peak. Straight
lines, or support vectors with C = 100 and a margin of 0.01 s. Their answers for workloads never
seen are worse than those of the three terms, and may fall with more FLOPs.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np

from ebbtide.core.models.forecast import Forecast, Json, Spread
from ebbtide.core.models.quality import Errors, Quality
from ebbtide.core.models.regression import (
    Regression,
    fit_linear,
    fit_support_vectors,
    from_json,
)
from ebbtide.core.models.residuals import is_covered, spread_of
from ebbtide.core.models.seen import Seen
from ebbtide.core.models.step_time.samples import read_samples
from ebbtide.core.models.step_time.setups import (
    FLOPS,
    GPU,
    PARAMS,
    TENSORS,
    WORKLOAD,
    Setups,
    read_setups,
)
from ebbtide.core.models.table import Column, DataError, Flags, Floats, Table, Texts

COST: Final = 100.0
MARGIN_S: Final = 0.01
"""Of the support vectors: what the authors' grid search found."""
FOLDS: Final = 5
"""Groups of workloads that are held out in turn to see how wrong a regression is."""
ALL: Final = "*"
"""Stands for every GPU type."""

PEAK_TFLOPS: Final[Mapping[str, float]] = {
    "K80": 4.113,
    "M60": 4.825,
    "P100": 9.526,
    "V100": 14.13,
    "T4": 8.141,
    "A10G": 31.52,
    "L4": 30.29,
    "A100": 19.49,
    "H100": 66.91,
    "H200": 66.91,
}
"""FP32 peak of one GPU, without tensor cores; K80 and P100 as in the authors' data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What a method takes, and how it fits."""

    columns: tuple[str, ...]
    fit: Callable[[Floats, Floats], Regression]
    by_gpu: bool = True


def _polynomial(features: Floats, target: Floats) -> Regression:
    return fit_support_vectors(features, target, kernel="poly", cost=COST, margin=MARGIN_S)


def _radial(features: Floats, target: Floats) -> Regression:
    return fit_support_vectors(features, target, kernel="rbf", cost=COST, margin=MARGIN_S)


RECIPES: Final[Mapping[str, Recipe]] = {
    "linear": Recipe(columns=("flops",), fit=fit_linear),
    "multivariate": Recipe(columns=("flops", "params", "tensors"), fit=fit_linear),
    "svr-polynomial": Recipe(columns=("flops",), fit=_polynomial),
    "svr-rbf": Recipe(columns=("flops",), fit=_radial),
    "agnostic-linear": Recipe(columns=("ratio",), fit=fit_linear, by_gpu=False),
    "agnostic-multivariate": Recipe(columns=("flops", "peak"), fit=fit_linear, by_gpu=False),
    "agnostic-svr-polynomial": Recipe(columns=("ratio",), fit=_polynomial, by_gpu=False),
    "agnostic-svr-rbf": Recipe(columns=("ratio",), fit=_radial, by_gpu=False),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RegressionModel:
    """One regression for each GPU type, or one for all."""

    method: str
    quality: Quality
    seen: Seen
    regressions: dict[str, Regression]
    """By GPU type, or under ALL; of features that are scaled to what was seen."""

    def predict(self, table: Table) -> Forecast:
        """Return the seconds of a step for each row; raises DataError."""
        return self.answer(read_setups(table))

    def answer(self, setups: Setups) -> Forecast:
        """Return the seconds of a step for set-ups that were read."""
        features = _features(setups, RECIPES[self.method].columns)
        scaled = self.seen.scale(features)
        groups = _groups(setups, RECIPES[self.method])
        found = np.zeros(len(setups))
        for group, rows in groups:
            if group not in self.regressions:
                raise DataError(
                    f"column {GPU.name}, row {setups.rows[rows][0]}: {group!r} is unknown; "
                    f"measured were: {', '.join(sorted(self.regressions))}"
                )
            found[rows] = self.regressions[group].at(scaled[rows])
        return self.seen.bound(features, found)

    def parameters(self) -> Json:
        """Return plain JSON."""
        return {
            "seen": self.seen.to_json(),
            "regressions": {gpu: one.to_json() for gpu, one in self.regressions.items()},
        }

    @classmethod
    def read(cls, method: str, quality: Quality, stored: Json) -> Self:
        """Read what `parameters` wrote."""
        return cls(
            method=method,
            quality=quality,
            seen=Seen.from_json(stored["seen"]),
            regressions={gpu: from_json(one) for gpu, one in stored["regressions"].items()},
        )


def fit_regression(table: Table, *, method: str) -> RegressionModel:
    """Fit a method of RECIPES; raises DataError for what it cannot use."""
    setups, seconds = read_samples(table)
    unknown = Spread(low=1.0, high=1.0)
    blank = Quality(samples=len(setups), split="none")
    model = _fit(setups, seconds, method, quality=blank, spread=unknown)
    held, predicted = _hold_out(setups, seconds, method)
    if not held.any():
        return _fit(setups, seconds, method, quality=blank, spread=spread_of(np.zeros(0)))
    # Repeats of one workload are one proof of the spread, not many.
    residuals = _by_setup(setups, np.log(seconds) - np.log(predicted), held)
    quality = Quality(
        samples=len(setups),
        split=f"fold:{WORKLOAD.name}",
        errors=Errors.of(seconds[held], predicted[held]),
        by_group={
            gpu: Errors.of(seconds[held & here], predicted[held & here])
            for gpu, here in _by_gpu(setups, held)
        },
        coverage=float(is_covered(residuals).mean()),
    )
    return replace(model, quality=quality, seen=replace(model.seen, spread=spread_of(residuals)))


def _fit(
    setups: Setups, seconds: Floats, method: str, *, quality: Quality, spread: Spread
) -> RegressionModel:
    recipe = RECIPES[method]
    features = _features(setups, recipe.columns)
    seen = Seen.of(features, seconds, spread=spread)
    scaled = seen.scale(features)
    groups = list(_groups(setups, recipe))
    for group, rows in groups:
        workloads = set(setups.workload[rows].tolist())
        if len(workloads) < 2:  # noqa: PLR2004 -- a line has two parameters
            where = "" if group == ALL else f" of {group}"
            raise DataError(
                f"column {WORKLOAD.name}: only {', '.join(workloads)}{where}: {method} needs two "
                "workloads or more; `physical` does with one"
            )
    return RegressionModel(
        method=method,
        quality=quality,
        seen=seen,
        regressions={group: recipe.fit(scaled[rows], seconds[rows]) for group, rows in groups},
    )


def _hold_out(setups: Setups, seconds: Floats, method: str) -> tuple[Flags, Floats]:
    """Return which rows could be held out, and what others say of them."""
    held, predicted = np.zeros(len(setups), dtype=np.bool_), np.ones(len(setups))
    workloads = sorted(set(setups.workload.tolist()))
    blank = Quality(samples=0, split="none")
    for fold in range(min(FOLDS, len(workloads))):
        out = np.isin(setups.workload, np.array(workloads[fold::FOLDS], dtype=object))
        try:
            model = _fit(
                setups.take(~out),
                seconds[~out],
                method,
                quality=blank,
                spread=Spread(low=1.0, high=1.0),
            )
            predicted[out] = model.answer(setups.take(out)).value
        except DataError:  # too few workloads are left without this fold
            continue
        held |= out
    return held, predicted


# ---------------------------------------------------------------- features


def _features(setups: Setups, columns: tuple[str, ...]) -> Floats:
    """Return shape (rows, columns), none of them NaN."""
    return np.column_stack([_feature(setups, column) for column in columns])


def _feature(setups: Setups, name: str) -> Floats:
    if name == "params":
        return _present(setups, PARAMS, setups.params)
    if name == "tensors":
        return _present(setups, TENSORS, setups.tensors)
    if name == "peak":
        return _peaks(setups)
    work = _present(setups, FLOPS, setups.work)
    return work / _peaks(setups) if name == "ratio" else work


def _present(setups: Setups, column: Column, values: Floats) -> Floats:
    for index in np.flatnonzero(np.isnan(values)):
        raise DataError(
            f"column {column.name}, row {setups.rows[index]}: absent, but this method needs it"
        )
    return values


def _peaks(setups: Setups) -> Floats:
    for row, gpu in zip(setups.rows.tolist(), setups.gpu.tolist(), strict=True):
        if gpu not in PEAK_TFLOPS:
            raise DataError(
                f"column {GPU.name}, row {row}: the peak of {gpu!r} is not known; known are: "
                f"{', '.join(PEAK_TFLOPS)}"
            )
    return np.array([PEAK_TFLOPS[gpu] for gpu in setups.gpu.tolist()])


def _groups(setups: Setups, recipe: Recipe) -> Iterator[tuple[str, Flags]]:
    if recipe.by_gpu:
        yield from _by_gpu(setups, np.ones(len(setups), dtype=np.bool_))
    else:
        yield ALL, np.ones(len(setups), dtype=np.bool_)


def _by_gpu(setups: Setups, chosen: Flags) -> Iterator[tuple[str, Flags]]:
    for gpu in sorted(set(setups.gpu[chosen].tolist())):
        yield gpu, setups.gpu == gpu


def _by_setup(setups: Setups, residuals: Floats, held: Flags) -> Floats:
    keys: Texts = np.array([f"{a}\n{b}" for a, b in zip(setups.gpu, setups.workload, strict=True)])
    return np.array([residuals[held & (keys == key)].mean() for key in sorted(set(keys[held]))])
