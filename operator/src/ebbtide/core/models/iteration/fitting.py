"""Fits of the default and of physics alone, with what they would have been wrong by."""

from dataclasses import replace
from typing import Final

import numpy as np

from ebbtide.core.models.iteration.held import UNKNOWN, Held, deal, judge_held
from ebbtide.core.models.iteration.layout import Layout, Limits
from ebbtide.core.models.iteration.physics import Compute, Physics, fit_physics
from ebbtide.core.models.iteration.process import Learned, Points, learn
from ebbtide.core.models.iteration.samples import Cells, Rows, gather, read_samples
from ebbtide.core.models.iteration.steps import Mean, Steps, Workload, log_mean
from ebbtide.core.models.table import Floats, Table

PROCESS: Final = "gaussian-process"
PHYSICS: Final = "physics"
FOLDS: Final = "fold:placement"
EACH: Final = "leave-one-out:placement"
MANY: Final = 30
"""With more placements than these, five numbers of physics follow no single one of them, and a
process says by itself what it would have missed of each; with fewer all is fitted anew."""


def fit_process(table: Table) -> Steps:
    """Fit physics, and the process on what it leaves over."""
    return _fit(table, method=PROCESS)


def fit_physics_alone(table: Table) -> Steps:
    """Fit physics alone: five numbers for each workload beside the curve of one GPU."""
    return _fit(table, method=PHYSICS)


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


def _fit(table: Table, *, method: str) -> Steps:
    rows = read_samples(table)
    found = {name: _fit_workload(part, method) for name, part in rows.by_workload().items()}
    return Steps(
        method=method,
        quality=judge_held(
            {name: held for name, (_, held) in found.items()},
            split=EACH if all(_is_many(held, method) for _, held in found.values()) else FOLDS,
            samples=len(rows.batch),
        ),
        workloads={name: workload for name, (workload, _) in found.items()},
    )


def _fit_workload(rows: Rows, method: str) -> tuple[Workload, Held]:
    workload, cells, residuals = _build(rows, method)
    held = _hold_each(rows, cells, residuals, workload) if residuals is not None else None
    if held is None or not _is_many(held, method):
        held = _hold_folds(rows, method)
    return replace(workload, spread=held.spread()), held


def _is_many(held: Held, method: str) -> bool:
    return method == PROCESS and len(set(held.places.tolist())) > MANY


def _build(rows: Rows, method: str) -> tuple[Workload, Cells, Floats | None]:
    """Fit one workload; a process says what it would have been wrong by, had it not seen them."""
    cells = gather(rows)
    physics = fit_physics(compute_of(rows), cells.layout, cells.batch, np.exp(cells.log_seconds))
    mean, learned = _smooth(physics, cells) if method == PROCESS else (Mean.PHYSICS, None)
    workload = Workload(
        physics=physics,
        mean=mean,
        process=learned.process if learned is not None else None,
        limits=Limits.of(cells.layout),
        least_batch=float(cells.batch.min()),
        most_batch=float(cells.batch.max()),
        spread=UNKNOWN,
    )
    return workload, cells, learned.residuals if learned is not None else None


def _smooth(physics: Physics, cells: Cells) -> tuple[Mean, Learned]:
    """Fit over either mean; take the one that predicts placements left out better."""
    points = Points(
        layout=cells.layout, batch=cells.batch, share=physics.share(cells.layout, cells.batch)
    )
    means = tuple(Mean)
    values = [
        cells.log_seconds - log_mean(physics, mean, cells.layout, cells.batch) for mean in means
    ]
    best, learned = learn(points, values, runs=cells.runs, places=cells.places)
    return means[best], learned


def _hold_each(rows: Rows, cells: Cells, residuals: Floats, workload: Workload) -> Held:
    """Turn residuals of means into those of measurements; only those of several GPUs count."""
    kept = np.flatnonzero((cells.members >= 0) & ~cells.layout.alone[cells.members])
    cell = cells.members[kept]
    logs = np.log(rows.seconds[kept])
    return Held(
        places=cells.places[cell],
        log_seconds=logs,
        residuals=logs - cells.log_seconds[cell] + residuals[cell],
        deviation=workload.deviation(cells.layout, cells.batch)[cell],
    )


def _hold_folds(rows: Rows, method: str) -> Held:
    """Fit anew without each fold of placements; one GPU is always known."""
    layout, names = Layout.of(rows.placements), rows.names
    fold = np.full(len(names), -1)
    fold[~layout.alone] = deal(names[~layout.alone])
    logs = np.log(rows.seconds)
    residuals, deviation = np.full(len(names), np.nan), np.ones(len(names))
    for number in range(int(fold.max()) + 1):
        here = fold == number
        if here.all():
            break  # one placement alone: nothing is left to fit from
        workload, _, _ = _build(rows.take(np.flatnonzero(~here)), method)
        asked = layout.take(here)
        residuals[here] = logs[here] - workload.log_seconds(asked, rows.batch[here])
        deviation[here] = workload.deviation(asked, rows.batch[here])
    known = np.isfinite(residuals)
    return Held(
        places=names[known],
        log_seconds=logs[known],
        residuals=residuals[known],
        deviation=deviation[known],
    )
