"""
The step time of one rank, by the best that is known about each question.

A workload measured on the GPU type that is asked for answers by its curve; one measured on
another type, by what that type takes over; one never seen, by three physical terms.
"""

from dataclasses import dataclass
from functools import partial
from typing import Final, Self, TypeAlias

import numpy as np

from ebbtide.core.models.forecast import Forecast, Json, Spread
from ebbtide.core.models.quality import Errors, Quality
from ebbtide.core.models.residuals import is_covered, spread_of
from ebbtide.core.models.step_time.known import (
    Known,
    Pair,
    Transfer,
    fit_known,
    fit_transfers,
    log_base,
    log_oddity,
)
from ebbtide.core.models.step_time.samples import Points, merge, read_samples
from ebbtide.core.models.step_time.setups import (
    FLOPS,
    GPU,
    LOCAL_BATCH,
    TENSORS,
    WORKLOAD,
    Setups,
    read_setups,
)
from ebbtide.core.models.step_time.shape import Shape, fit_shape
from ebbtide.core.models.table import DataError, Flags, Floats, Indices, Table

MOST_FOLDS: Final = 20
"""Groups of workloads that are held out in turn at most; each alone where there are fewer."""
CHANGED: Final = 0.01
"""A question whose terms differ by more from those of the known workload is beyond it."""

Answer: TypeAlias = tuple[Floats, Spread, Flags]
"""Seconds, their interval, and what lies beyond the data."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepTimeModel:
    """Curves of known workloads, and terms for others."""

    method: str
    quality: Quality
    has_batch: bool
    shape: Shape | None
    known: dict[Pair, Known]
    transfers: tuple[Transfer, ...]
    known_spread: Spread
    unseen_spreads: dict[str, Spread]
    """By GPU type."""

    def predict(self, table: Table) -> Forecast:
        """Return the seconds of a step for each row; raises DataError."""
        setups = read_setups(table)
        self._check(setups)
        number = len(setups)
        value, low, high = np.zeros(number), np.zeros(number), np.zeros(number)
        beyond = np.zeros(number, dtype=np.bool_)
        for (gpu, workload), rows in self._groups(setups).items():
            seconds, spread, outside = self._answer(setups, gpu, workload, rows)
            found = spread.around(seconds, beyond=outside)
            value[rows], low[rows], high[rows] = found.value, found.low, found.high
            beyond[rows] = found.beyond
        return Forecast(value=value, low=low, high=high, beyond=beyond)

    def _groups(self, setups: Setups) -> dict[Pair, Indices]:
        """Return rows by GPU type and workload; workloads of which nothing is known together."""
        measured = {workload for _, workload in self.known}
        found: dict[Pair, list[int]] = {}
        pairs = zip(setups.gpu.tolist(), setups.workload.tolist(), strict=True)
        for index, (gpu, workload) in enumerate(pairs):
            found.setdefault((gpu, workload if workload in measured else ""), []).append(index)
        return {pair: np.array(rows, dtype=np.intp) for pair, rows in found.items()}

    def _answer(self, setups: Setups, gpu: str, workload: str, rows: Indices) -> Answer:
        batch = setups.batch[rows] if self.has_batch else np.ones(len(rows))
        flops, tensors = setups.flops[rows], setups.tensors[rows]
        if (gpu, workload) in self.known:
            return self._of_known(self.known[gpu, workload], gpu, batch, (flops, tensors))
        for transfer in self.transfers:
            known = self.known.get((transfer.source, workload))
            if transfer.target == gpu and known is not None:
                return self._of_other(transfer, known, batch, (flops, tensors))
        elsewhere = next((one for (_, name), one in self.known.items() if name == workload), None)
        if elsewhere is not None:
            flops, tensors = _filled(flops, elsewhere.flops), _filled(tensors, elsewhere.tensors)
        shape = self._check_features(setups, gpu, rows, (flops, tensors))
        seconds = np.exp(log_base(shape, gpu, flops * batch, tensors))
        return seconds, self.unseen_spreads[gpu], shape.is_beyond(flops * batch, tensors)

    def _of_known(
        self, known: Known, gpu: str, batch: Floats, features: tuple[Floats, Floats]
    ) -> Answer:
        """Answer by the curve; a question with more FLOPs than were measured is slower by terms."""
        flops, tensors = features
        asked = _filled(flops, known.flops) * batch, _filled(tensors, known.tensors)
        base = log_base(self.shape, gpu, *asked)
        odd = log_oddity(known, self.shape, gpu, batch)
        plain = np.log(known.curve.at(batch))
        found = np.where(np.isfinite(base + odd), base + odd, plain)
        outside = known.curve.is_beyond(batch) | (np.abs(found - plain) > CHANGED)
        return np.exp(found), self.known_spread, outside

    def _of_other(
        self, transfer: Transfer, known: Known, batch: Floats, features: tuple[Floats, Floats]
    ) -> Answer:
        flops, tensors = features
        asked = _filled(flops, known.flops) * batch, _filled(tensors, known.tensors)
        odd = log_oddity(known, self.shape, transfer.source, batch)
        base = log_base(self.shape, transfer.target, *asked)
        seconds = np.exp(base + transfer.shift + transfer.slope * odd)
        outside = known.curve.is_beyond(batch)
        if self.shape is not None:
            outside |= self.shape.is_beyond(*asked)
        return seconds, transfer.spread, outside

    # ------------------------------------------------------------ questions without sense

    def _check(self, setups: Setups) -> None:
        types = {gpu for gpu, _ in self.known}
        for row, gpu in zip(setups.rows.tolist(), setups.gpu.tolist(), strict=True):
            if gpu not in types:
                raise DataError(
                    f"column {GPU.name}, row {row}: {gpu!r} is unknown; measured were: "
                    f"{', '.join(sorted(types))}"
                )
        if setups.has_batch != self.has_batch:
            wanted = "needed" if self.has_batch else "not to be given"
            raise DataError(
                f"column {LOCAL_BATCH.name}, row {setups.rows[0]}: it is {wanted}, as in the "
                "samples that the model was fitted from"
            )

    def _check_features(
        self, setups: Setups, gpu: str, rows: Indices, features: tuple[Floats, Floats]
    ) -> Shape:
        """Return the terms by which a workload that was not measured here can be answered."""
        workload = setups.workload[rows[0]]
        place = f"column {WORKLOAD.name}, row {setups.rows[rows[0]]}"
        if self.shape is None or gpu not in self.shape.gpus:
            raise DataError(
                f"{place}: {workload!r} was not measured on {gpu}, and without {FLOPS.name} in "
                "its samples the model knows no other way"
            )
        needed = ((FLOPS, features[0], True), (TENSORS, features[1], self.shape.needs_tensors))
        for column, values, is_needed in needed:
            for index in rows[np.isnan(values)] if is_needed else ():
                raise DataError(
                    f"column {column.name}, row {setups.rows[index]}: absent, but "
                    f"{setups.workload[index]!r} was not measured on {gpu}: a number is needed"
                )
        return self.shape

    # ------------------------------------------------------------ storage

    def parameters(self) -> Json:
        """Return plain JSON."""
        return {
            "has_batch": self.has_batch,
            "shape": self.shape.to_json() if self.shape is not None else None,
            "known": [
                {"gpu": gpu, "workload": workload, **known.to_json()}
                for (gpu, workload), known in self.known.items()
            ],
            "transfers": [transfer.to_json() for transfer in self.transfers],
            "known_spread": self.known_spread.to_json(),
            "unseen_spreads": {gpu: one.to_json() for gpu, one in self.unseen_spreads.items()},
        }

    @classmethod
    def read(cls, method: str, quality: Quality, stored: Json) -> Self:
        """Read what `parameters` wrote."""
        shape = stored["shape"]
        return cls(
            method=method,
            quality=quality,
            has_batch=bool(stored["has_batch"]),
            shape=Shape.from_json(shape) if shape is not None else None,
            known={
                (str(one["gpu"]), str(one["workload"])): Known.from_json(one)
                for one in stored["known"]
            },
            transfers=tuple(Transfer.from_json(one) for one in stored["transfers"]),
            known_spread=Spread.from_json(stored["known_spread"]),
            unseen_spreads={
                gpu: Spread.from_json(one) for gpu, one in stored["unseen_spreads"].items()
            },
        )


def fit(table: Table, *, method: str = "physical", shares: bool = True) -> StepTimeModel:
    """Fit from samples; `shares` lets GPU types share the proportions of the terms."""
    setups, seconds = read_samples(table)
    points = merge(setups, seconds)
    shape = fit_shape(points, shares=shares)
    known, known_spread = fit_known(points)
    unseen = _hold_out(points, shares=shares) if shape is not None else {}
    residuals = np.array(list(unseen.values()))
    gpu_of = np.array([gpu for gpu, _ in unseen], dtype=object)
    spreads = {
        gpu: spread_of(residuals[gpu_of == gpu])
        for gpu in (shape.gpus if shape is not None else ())
    }
    return StepTimeModel(
        method=method,
        quality=_judge(points, unseen, samples=len(setups)),
        has_batch=setups.has_batch,
        shape=shape,
        known=known,
        transfers=fit_transfers(points, known, partial(fit_shape, shares=shares)),
        known_spread=known_spread,
        unseen_spreads=spreads,
    )


def fit_alone(table: Table) -> StepTimeModel:
    """Fit each GPU type by itself."""
    return fit(table, method="physical-alone", shares=False)


def _filled(values: Floats, known: float) -> Floats:
    found: Floats = np.where(np.isnan(values), known, values)
    return found


def _hold_out(points: Points, *, shares: bool) -> dict[Pair, float]:
    """Return the mean log residual of each workload on each GPU type, held out on all types."""
    workloads = sorted(set(points.workload.tolist()))
    found: dict[Pair, float] = {}
    for fold in range(min(MOST_FOLDS, len(workloads))):
        held = np.isin(points.workload, np.array(workloads[fold::MOST_FOLDS], dtype=object))
        shape = fit_shape(points.take(~held), shares=shares)
        if shape is None:
            continue
        rest = points.take(held)
        for pair in dict.fromkeys(zip(rest.gpu.tolist(), rest.workload.tolist(), strict=True)):
            here = (rest.gpu == pair[0]) & (rest.workload == pair[1])
            base = log_base(shape, pair[0], rest.work[here], rest.tensors[here])
            residual = float((np.log(rest.seconds[here]) - base).mean())
            if np.isfinite(residual):
                found[pair] = residual
    return {pair: found[pair] for pair in sorted(found)}


def _judge(points: Points, unseen: dict[Pair, float], *, samples: int) -> Quality:
    if not unseen:
        return Quality(samples=samples, split="none")
    residuals = np.array(list(unseen.values()))
    gpus = np.array([gpu for gpu, _ in unseen], dtype=object)
    measured = np.array(
        [
            points.seconds[(points.gpu == gpu) & (points.workload == workload)].mean()
            for gpu, workload in unseen
        ]
    )
    predicted = measured / np.exp(residuals)
    covered = [is_covered(residuals[gpus == gpu]) for gpu in sorted(set(gpus.tolist()))]
    return Quality(
        samples=samples,
        split=f"leave-one-out:{WORKLOAD.name}",
        errors=Errors.of(measured, predicted),
        by_group={
            gpu: Errors.of(measured[gpus == gpu], predicted[gpus == gpu])
            for gpu in sorted(set(gpus.tolist()))
        },
        coverage=float(np.concatenate(covered).mean()),
    )
