"""Fits of the default and of physics alone, with what they would have been wrong by."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Self, TypeAlias

import numpy as np

from ebbtide.core.models.iteration.choosing import choose_scales, draw
from ebbtide.core.models.iteration.covariance import Measured, Points
from ebbtide.core.models.iteration.held import FOLDS, UNKNOWN, Held, deal, judge_held
from ebbtide.core.models.iteration.layout import Layout, Limits
from ebbtide.core.models.iteration.physics import Compute, Physics, fit_physics
from ebbtide.core.models.iteration.process import first_look, learn
from ebbtide.core.models.iteration.samples import Cells, Rows, gather, read_samples
from ebbtide.core.models.iteration.scales import CENTRE, Scales
from ebbtide.core.models.iteration.steps import Mean, Steps, Workload, log_mean
from ebbtide.core.models.table import Floats, Indices, Table

PROCESS: Final = "gaussian-process"
PHYSICS: Final = "physics"
IN_FOLDS: Final = "fold:placement"
EACH: Final = "leave-one-out:placement"
MANY: Final = 30
"""With more placements than these, five numbers of physics follow no single one of them, and a
process says by itself what it would have missed of each; with fewer all is fitted anew."""


Built: TypeAlias = "tuple[Gathered, Workload, Floats | None]"
"""A workload, what it comes from, and what a process would have been wrong by at each cell, had
it not seen its placement."""


Build: TypeAlias = Callable[[Mapping[str, Rows]], tuple[Scales, dict[str, Built]]]
"""Fits workloads by their rows, with scales that all share."""


def fit_process(table: Table, *, centre: Scales = CENTRE) -> Steps:
    """Fit physics, and the process on what it leaves over; scales are sought from `centre`."""
    return _fit(table, method=PROCESS, centre=centre)


def fit_physics_alone(table: Table) -> Steps:
    """Fit physics alone: five numbers for each workload beside the curve of one GPU."""
    return _fit(table, method=PHYSICS, centre=CENTRE)


def compute_of(rows: Rows, *, bare: bool = False) -> Compute:
    """
    Return what one GPU computes, from rows with one GPU; `bare`: less what it synchronised.

    Without any: from what a step takes beside synchronisation, where that is known; else from
    the fastest step of each batch, all of which then counts as computing.
    """
    alone = np.array([sum(counts) == 1 for counts in rows.placements])
    if alone.any():
        spent = rows.seconds - (np.nan_to_num(rows.sync) if bare else 0.0)
        return Compute.of(rows.batch[alone], spent[alone])
    known = np.isfinite(rows.sync)
    if known.any():
        return Compute.of(rows.batch[known], (rows.seconds - rows.sync)[known])
    batches, place = np.unique(rows.batch, return_inverse=True)
    fastest = np.full(len(batches), np.inf)
    np.minimum.at(fastest, place, rows.seconds)
    return Compute.of(batches, fastest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """Rows of one workload as cells, and physics fitted to them."""

    rows: Rows
    cells: Cells
    physics: Physics

    @classmethod
    def of(cls, rows: Rows) -> Self:
        """Gather rows, and fit physics."""
        cells = gather(rows)
        seconds = np.exp(cells.log_seconds)
        physics = fit_physics(compute_of(rows), cells.layout, cells.batch, seconds)
        return cls(rows=rows, cells=cells, physics=physics)

    @property
    def is_many(self) -> bool:
        """Whether five numbers of physics follow no single placement."""
        return len(set(self.cells.places[~self.cells.layout.alone].tolist())) > MANY

    @property
    def measured(self) -> Measured:
        """Cells as points of a process."""
        layout, batch = self.cells.layout, self.cells.batch
        share = self.physics.share(layout, batch)
        return Measured(
            points=Points(layout=layout, batch=batch, share=share),
            runs=self.cells.runs,
            places=self.cells.places,
        )

    @property
    def options(self) -> list[Floats]:
        """What each mean leaves over of each cell."""
        layout, batch = self.cells.layout, self.cells.batch
        return [
            self.cells.log_seconds - log_mean(self.physics, mean, layout, batch) for mean in Mean
        ]


def _fit(table: Table, *, method: str, centre: Scales) -> Steps:
    rows = read_samples(table)
    build = partial(_build, method=method, centre=centre)
    scales, built = build(rows.by_workload())
    held = {
        name: _hold_each(gathered, workload, residuals)
        for name, (gathered, workload, residuals) in built.items()
        if residuals is not None and gathered.is_many
    }
    few = {name: gathered.rows for name, (gathered, _, _) in built.items() if name not in held}
    held |= _hold_folds(few, build)
    return Steps(
        method=method,
        quality=judge_held(
            {name: held[name] for name in built},
            split=IN_FOLDS if few else EACH,
            samples=len(rows.batch),
        ),
        scales=scales,
        workloads={
            name: replace(workload, spread=held[name].spread())
            for name, (_, workload, _) in built.items()
        },
    )


def _build(
    parts: Mapping[str, Rows], *, method: str, centre: Scales
) -> tuple[Scales, dict[str, Built]]:
    """Fit workloads, with scales that all share."""
    found = {name: Gathered.of(rows) for name, rows in parts.items()}
    scales = _choose(list(found.values()), centre) if method == PROCESS else centre
    return scales, {name: _smooth(gathered, method, scales) for name, gathered in found.items()}


def _choose(found: Sequence[Gathered], centre: Scales) -> Scales:
    samples = []
    for gathered in found:
        looked_at = draw(len(gathered.cells.batch), len(found))
        options = [values[looked_at] for values in gathered.options]
        samples.append(first_look(gathered.measured.take(looked_at), options, scales=centre))
    return choose_scales(samples, centre=centre)


def _smooth(gathered: Gathered, method: str, scales: Scales) -> Built:
    """Fit one workload; a process takes the mean that predicts placements left out better."""
    physics, cells = gathered.physics, gathered.cells
    mean, process, residuals = Mean.PHYSICS, None, None
    if method == PROCESS:
        best, learned = learn(gathered.measured, gathered.options, scales=scales)
        mean, process, residuals = tuple(Mean)[best], learned.process, learned.residuals
    workload = Workload(
        physics=physics,
        mean=mean,
        process=process,
        scales=scales,
        limits=Limits.of(cells.layout),
        least_batch=float(cells.batch.min()),
        most_batch=float(cells.batch.max()),
        spread=UNKNOWN,
    )
    return gathered, workload, residuals


def _hold_each(gathered: Gathered, workload: Workload, residuals: Floats) -> Held:
    """Turn residuals of means into those of measurements; only those of several GPUs count."""
    rows, cells = gathered.rows, gathered.cells
    kept = np.flatnonzero((cells.members >= 0) & ~cells.layout.alone[cells.members])
    cell = cells.members[kept]
    logs = np.log(rows.seconds[kept])
    return Held(
        places=cells.places[cell],
        log_seconds=logs,
        residuals=logs - cells.log_seconds[cell] + residuals[cell],
        deviation=workload.deviation(cells.layout, cells.batch)[cell],
    )


def _hold_folds(parts: Mapping[str, Rows], build: Build) -> dict[str, Held]:
    """Fit anew without each fold of placements, scales included; one GPU is always known."""
    folds = {name: _deal(rows) for name, rows in parts.items()}
    held: dict[str, list[Held]] = {name: [] for name in parts}
    for number in range(FOLDS):
        asked = {name: fold == number for name, fold in folds.items()}
        # of one placement alone nothing is left to fit from
        asked = {name: here for name, here in asked.items() if here.any() and not here.all()}
        known = {name: parts[name].take(np.flatnonzero(~here)) for name, here in asked.items()}
        _, built = build(known)
        for name, (_, workload, _) in built.items():
            held[name].append(_ask(workload, parts[name].take(np.flatnonzero(asked[name]))))
    return {name: Held.join(each) for name, each in held.items()}


def _deal(rows: Rows) -> Indices:
    names = rows.names
    several = ~Layout.of(rows.placements).alone
    fold = np.full(len(names), -1)
    fold[several] = deal(names[several])
    return fold


def _ask(workload: Workload, rows: Rows) -> Held:
    layout, logs = Layout.of(rows.placements), np.log(rows.seconds)
    return Held(
        places=rows.names,
        log_seconds=logs,
        residuals=logs - workload.log_seconds(layout, rows.batch),
        deviation=workload.deviation(layout, rows.batch),
    )
