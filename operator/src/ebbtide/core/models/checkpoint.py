"""
The time that a checkpoint takes, from its size and the number of its tensors.

    seconds = constant + a * size + b * tensors

The constant is the round trips to the store, the size is what goes over the wire, and each tensor
costs an entry. All weights are at least zero, so a larger checkpoint is never faster. Fitted by
least squares on relative errors over the means of each workload: repeats of one workload are one
point.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Self

import numpy as np

from ebbtide.core.models.forecast import Forecast, Json
from ebbtide.core.models.kinds import Kind
from ebbtide.core.models.odd_rows import find_odd
from ebbtide.core.models.quality import Errors, Quality
from ebbtide.core.models.regression import (
    Linear,
    Regression,
    fit_linear,
    fit_principal,
    fit_relative,
    fit_support_vectors,
    from_json,
)
from ebbtide.core.models.residuals import is_covered, spread_of
from ebbtide.core.models.seen import FLOOR, Seen
from ebbtide.core.models.table import Column, DataError, Flags, Floats, Table, Texts, check

WORKLOAD: Final = Column(name="workload", unit="text")
SIZE: Final = Column(name="size_mb", unit="MB of 2^20 bytes", least=1e-6, most=1e10)
TENSORS: Final = Column(
    name="tensors", unit="tensors", least=1, most=1e9, open_below=False, optional=True
)
DURATION: Final = Column(name="duration_s", unit="s", least=1e-6, most=86_400.0)
"""A checkpoint takes a day at most: larger numbers are of another unit."""

MEGABYTE: Final = 2.0**20
BYTES: Final = 4.0
"""Of one parameter, and of one value of the optimiser for it (fp32)."""
LEAST_FOR_TENSORS: Final = 4
"""Different workloads that size and tensors need; with fewer the size alone is used."""
LEAST_FOR_SIZE: Final = 2
"""Different sizes that a line needs; one size gives its mean time, and others are beyond it."""
ODD: Final = 100.0
"""So far off the median, both in time and in time by size, a row is of another unit."""
FOLDS: Final = 20
"""Groups of workloads that are held out in turn at most; each alone where there are fewer."""


def size_mb(params: float, *, slots: int = 1) -> float:
    """
    Return the size of a checkpoint, in MB of 2^20 bytes.

    Weights and `slots` values of the optimiser for each: momentum has 1, Adam has 2. Names and
    shapes of the tensors come on top (1 to 5 MB for 50 to 330 tensors in TensorFlow).
    """
    if not (np.isfinite(params) and params > 0):
        raise DataError(f"{params!r} parameters: a number above 0 is needed")
    if slots < 0:
        raise DataError(f"{slots} values of the optimiser for each parameter: at least 0")
    return params * BYTES * (1 + slots) / MEGABYTE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Samples:
    workload: Texts
    features: Floats
    """Shape (rows, 1 or 2): size, and tensors where all rows have them."""
    seconds: Floats

    def take(self, chosen: Flags) -> "_Samples":
        return _Samples(
            workload=self.workload[chosen],
            features=self.features[chosen],
            seconds=self.seconds[chosen],
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CheckpointModel:
    """A regression of the time on size and, where `needs_tensors`, on tensors."""

    method: str
    quality: Quality
    regression: Regression
    seen: Seen
    """Of size and tensors."""

    @property
    def needs_tensors(self) -> bool:
        """Whether a question needs the number of tensors."""
        return len(self.seen.least) > 1

    def predict(self, table: Table) -> Forecast:
        """Return the seconds of a checkpoint for each row; raises DataError."""
        check(table, (SIZE, TENSORS))
        columns = [table.numbers(SIZE)]
        if self.needs_tensors:
            tensors = table.numbers(TENSORS)
            for index in np.flatnonzero(np.isnan(tensors)):
                raise DataError(
                    f"column {TENSORS.name}, row {table.rows[index]}: absent, but the model was "
                    "fitted with it: a number above 0 is needed"
                )
            columns.append(tensors)
        return self.answer(np.column_stack(columns))

    def answer(self, features: Floats) -> Forecast:
        """Return seconds for rows of size and tensors."""
        return self.seen.bound(features, self.regression.at(features))

    def parameters(self) -> Json:
        """Return plain JSON."""
        return {
            "regression": self.regression.to_json(),
            "seen": self.seen.to_json(),
        }

    @classmethod
    def read(cls, method: str, quality: Quality, stored: Json) -> Self:
        """Read what `parameters` wrote."""
        return cls(
            method=method,
            quality=quality,
            regression=from_json(stored["regression"]),
            seen=Seen.from_json(stored["seen"]),
        )


# ---------------------------------------------------------------- ways to fit


def _relative(samples: _Samples) -> Regression:
    means = _means(samples)
    terms = np.column_stack([np.ones(len(means.seconds)), means.features])
    weights = fit_relative(terms, means.seconds)
    return Linear(constant=float(weights[0]), weights=weights[1:])


def _linear(samples: _Samples) -> Regression:
    return fit_linear(samples.features, samples.seconds)


def _principal(samples: _Samples) -> Regression:
    return fit_principal(samples.features, samples.seconds, components=1)


def _radial(samples: _Samples) -> Regression:
    """As in CM-DARE: C = 10, a margin of 0.14 s."""
    return fit_support_vectors(
        samples.features, samples.seconds, kernel="rbf", cost=10.0, margin=0.14
    )


METHODS: Final[Mapping[str, tuple[Callable[[_Samples], Regression], bool]]] = {
    "physical": (_relative, True),
    "physical-size": (_relative, False),
    "linear": (_linear, False),
    "multivariate": (_linear, True),
    "principal-linear": (_principal, True),
    "svr-rbf": (_radial, False),
}
"""How to fit, and whether tensors are used where all rows have them."""


def fit(table: Table, *, method: str) -> CheckpointModel:
    """Fit a method of METHODS; raises DataError for what it cannot use."""
    samples = _read_samples(table, uses_tensors=METHODS[method][1])
    held, predicted = _hold_out(samples, METHODS[method][0])
    residuals = np.log(samples.seconds[held]) - np.log(predicted[held])
    # Repeats of one workload are one proof of the spread, not many.
    names = samples.workload[held]
    means = np.array([residuals[names == name].mean() for name in sorted(set(names.tolist()))])
    quality = Quality(samples=len(samples.seconds), split="none")
    if held.any():
        quality = Quality(
            samples=len(samples.seconds),
            split=f"leave-one-out:{WORKLOAD.name}",
            errors=Errors.of(samples.seconds[held], predicted[held]),
            by_group={
                str(name): Errors.of(samples.seconds[held & here], predicted[held & here])
                for name in sorted(set(names.tolist()))
                for here in [samples.workload == name]
            },
            coverage=float(is_covered(means).mean()),
        )
    return CheckpointModel(
        method=method,
        quality=quality,
        regression=_regress(samples, METHODS[method][0]),
        seen=Seen.of(samples.features, samples.seconds, spread=spread_of(means)),
    )


KIND: Final = Kind(
    name="checkpoint",
    inputs=(SIZE, TENSORS),
    target=DURATION,
    group=WORKLOAD.name,
    methods={method: partial(fit, method=method) for method in METHODS},
    read=CheckpointModel.read,
)


# ---------------------------------------------------------------- samples


def _read_samples(table: Table, *, uses_tensors: bool) -> _Samples:
    check(table, (WORKLOAD, SIZE, TENSORS, DURATION))
    workload, seconds = table.texts(WORKLOAD), table.numbers(DURATION)
    columns = [table.numbers(SIZE)]
    tensors = table.numbers(TENSORS)
    many = len(set(workload.tolist())) >= LEAST_FOR_TENSORS
    if uses_tensors and many and np.isfinite(tensors).all():
        columns.append(tensors)
    samples = _Samples(workload=workload, features=np.column_stack(columns), seconds=seconds)
    _check_units(table, samples)
    return samples


def _check_units(table: Table, samples: _Samples) -> None:
    """Raise for a row that is slow (or fast) both in time and in time by size, or absurd by one."""
    found = find_odd(samples.features[:, 0], samples.seconds)
    time = np.log(samples.seconds)
    rate = time - np.log(samples.features[:, 0])
    off_time, off_rate = time - np.median(time), rate - np.median(rate)
    least = np.where(
        np.sign(off_time) == np.sign(off_rate), np.minimum(np.abs(off_time), np.abs(off_rate)), 0.0
    )
    for index in np.flatnonzero(least > np.log(ODD)):
        raise DataError(
            f"column {DURATION.name}, row {table.rows[index]}: {samples.seconds[index]:g} s, but "
            f"half of the times are below {np.exp(np.median(time)):.3g} s: all must be in seconds"
        )
    if found is not None:
        row, other = found
        raise DataError(
            f"column {DURATION.name}, row {table.rows[row]}: {samples.seconds[row]:g} s for"
            f" {samples.features[row, 0]:g} MB, but row {table.rows[other]} has"
            f" {samples.seconds[other]:g} s for {samples.features[other, 0]:g} MB: all must be in"
            " seconds"
        )


def _means(samples: _Samples) -> _Samples:
    """Make one row of the rows of each workload and size."""
    places: dict[tuple[object, ...], list[int]] = {}
    for index, name in enumerate(samples.workload.tolist()):
        places.setdefault((name, *samples.features[index].tolist()), []).append(index)
    first = np.array([rows[0] for rows in places.values()])
    return _Samples(
        workload=samples.workload[first],
        features=samples.features[first],
        seconds=np.array([samples.seconds[rows].mean() for rows in places.values()]),
    )


def _regress(samples: _Samples, how: Callable[[_Samples], Regression]) -> Regression:
    if len(np.unique(samples.features[:, 0])) < LEAST_FOR_SIZE:
        flat = np.zeros(samples.features.shape[1])
        return Linear(constant=float(samples.seconds.mean()), weights=flat)
    return how(samples)


def _hold_out(samples: _Samples, how: Callable[[_Samples], Regression]) -> tuple[Flags, Floats]:
    """Return which rows could be held out, and what others say of them."""
    workloads = sorted(set(samples.workload.tolist()))
    held = np.zeros(len(samples.seconds), dtype=np.bool_)
    predicted = np.ones(len(samples.seconds))
    for fold in range(min(FOLDS, len(workloads)) if len(workloads) > LEAST_FOR_SIZE else 0):
        out = np.isin(samples.workload, np.array(workloads[fold::FOLDS], dtype=object))
        rest = samples.take(~out)
        found = _regress(rest, how).at(samples.features[out])
        predicted[out] = np.maximum(found, FLOOR * rest.seconds.min())
        held |= out
    return held, predicted
