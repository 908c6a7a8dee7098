"""How wrong a model was on what its fit had not seen."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

import numpy as np

from ebbtide.core.models.forecast import Forecast
from ebbtide.core.models.table import DataError, Floats, Indices, Table, Texts

Split: TypeAlias = tuple[Indices, Indices]
"""Rows to fit from, rows to ask about."""
Fit: TypeAlias = Callable[[Table], "Asked"]
Asked: TypeAlias = Callable[[Table], Forecast]


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Held-out errors: of all rows, and of each group."""

    mae: float
    """Mean absolute error, in the model's unit."""
    mape: float
    """Mean absolute error relative to what was measured, as a fraction."""
    samples: int

    @classmethod
    def of(cls, measured: Floats, predicted: Floats) -> Self:
        """Compare predictions with measurements; measurements are positive."""
        off = np.abs(predicted - measured)
        return cls(
            mae=float(off.mean()), mape=float((off / measured).mean()), samples=len(measured)
        )

    def to_json(self) -> dict[str, float | int]:
        """Return plain JSON."""
        return {"mae": self.mae, "mape": self.mape, "samples": self.samples}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Held-out errors of forecasts of survival, where some ends were not seen."""

    ks: float
    """The largest gap between mean forecast and Kaplan and Meier's estimate, as a fraction."""
    integrated_brier: float
    """Mean squared error of the chance to be alive, over time; 0.25 is a coin."""
    samples: int

    def to_json(self) -> dict[str, float | int]:
        """Return plain JSON."""
        return {
            "ks": self.ks,
            "integrated_brier": self.integrated_brier,
            "samples": self.samples,
        }


def _read_errors(stored: dict[str, Any]) -> Errors | Scores:
    samples = int(stored["samples"])
    if "ks" in stored:
        brier = float(stored["integrated_brier"])
        return Scores(ks=float(stored["ks"]), integrated_brier=brier, samples=samples)
    return Errors(mae=float(stored["mae"]), mape=float(stored["mape"]), samples=samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """What a model knows of itself."""

    samples: int
    split: str
    """How samples were held out: `none`, `random`, `leave-one-out:COLUMN`, `fold:COLUMN`."""
    errors: Errors | Scores | None = None
    """Held-out errors of all; None where nothing could be held out."""
    by_group: Mapping[str, Errors | Scores] = field(default_factory=dict)
    coverage: float | None = None
    """The share of held-out measurements inside their interval."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "samples": self.samples,
            "split": self.split,
            "errors": self.errors.to_json() if self.errors is not None else None,
            "by_group": {name: errors.to_json() for name, errors in self.by_group.items()},
            "coverage_90": self.coverage,
        }

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        coverage = stored["coverage_90"]
        return cls(
            samples=int(stored["samples"]),
            split=str(stored["split"]),
            errors=_read_errors(stored["errors"]) if stored["errors"] is not None else None,
            by_group={name: _read_errors(each) for name, each in stored["by_group"].items()},
            coverage=float(coverage) if coverage is not None else None,
        )


# ---------------------------------------------------------------- splits


def leave_one_out(groups: Texts) -> Iterator[Split]:
    """Hold out one group at a time, in order of name."""
    names = sorted(set(groups.tolist()))
    if len(names) < 2:  # noqa: PLR2004 -- one to fit from, one to ask about
        raise DataError(f"only one group ({', '.join(names)}): nothing can be held out")
    for name in names:
        held = groups == name
        yield np.flatnonzero(~held), np.flatnonzero(held)


def fold_by(groups: Texts, *, chance: np.random.Generator, folds: int = 5) -> Iterator[Split]:
    """Deal the groups into folds by chance; each fold is held out once."""
    names = np.array(sorted(set(groups.tolist())), dtype=object)
    if len(names) < folds:
        raise DataError(f"{len(names)} groups cannot be dealt into {folds} folds")
    chance.shuffle(names)
    for number in range(folds):
        held = np.isin(groups, names[number::folds])
        yield np.flatnonzero(~held), np.flatnonzero(held)


def at_random(rows: int, *, chance: np.random.Generator, folds: int = 5) -> Iterator[Split]:
    """Deal the rows into folds by chance. Repeats of one measurement leak: see `leave_one_out`."""
    if rows < folds:
        raise DataError(f"{rows} rows cannot be dealt into {folds} folds")
    order = chance.permutation(rows)
    for number in range(folds):
        held = np.zeros(rows, dtype=np.bool_)
        held[order[number::folds]] = True
        yield np.flatnonzero(~held), np.flatnonzero(held)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Predictions for rows that the fit had not seen."""

    rows: Indices
    forecast: Forecast


def hold_out(table: Table, splits: Iterator[Split], fit: Fit) -> HeldOut:
    """Fit and ask once for each split; the rows come back in the order in which they were asked."""
    asked: list[Indices] = []
    answers: list[Forecast] = []
    for known, held in splits:
        asked.append(held)
        answers.append(fit(table.take(known))(table.take(held)))
    return HeldOut(
        rows=np.concatenate(asked),
        forecast=Forecast(
            value=np.concatenate([answer.value for answer in answers]),
            low=np.concatenate([answer.low for answer in answers]),
            high=np.concatenate([answer.high for answer in answers]),
            beyond=np.concatenate([answer.beyond for answer in answers]),
        ),
    )


def judge(
    measured: Floats, forecast: Forecast, *, groups: Texts, split: str, samples: int
) -> Quality:
    """Put held-out predictions beside the measurements; all arrays in the same order."""
    inside = (forecast.low <= measured) & (measured <= forecast.high)
    return Quality(
        samples=samples,
        split=split,
        errors=Errors.of(measured, forecast.value),
        by_group={
            str(name): Errors.of(measured[groups == name], forecast.value[groups == name])
            for name in sorted(set(groups.tolist()))
        },
        coverage=float(inside.mean()),
    )
