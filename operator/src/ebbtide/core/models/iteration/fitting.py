"""Fits of the default and of physics alone, with what they would have been wrong by."""

from typing import Final

import numpy as np

from ebbtide.core.models.iteration.held import Held, deal, judge_held
from ebbtide.core.models.iteration.layout import Limits
from ebbtide.core.models.iteration.physics import Compute, Physics, fit_physics
from ebbtide.core.models.iteration.process import Learned, Points, learn, spread
from ebbtide.core.models.iteration.samples import Cells, Rows, gather, read_samples
from ebbtide.core.models.iteration.steps import Mean, Steps, Workload, log_mean
from ebbtide.core.models.table import Floats, Table

PROCESS: Final = "gaussian-process"
PHYSICS: Final = "physics"
SPLITS: Final = {PROCESS: "leave-one-out:placement", PHYSICS: "fold:placement"}


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
    parts = rows.by_workload()
    found = {name: _fit_workload(part, method) for name, part in parts.items()}
    return Steps(
        method=method,
        quality=judge_held(
            {name: held for name, (_, held) in found.items()},
            split=SPLITS[method],
            samples=len(rows.batch),
        ),
        workloads={name: workload for name, (workload, _) in found.items()},
    )


def _fit_workload(rows: Rows, method: str) -> tuple[Workload, Held]:
    cells = gather(rows)
    physics = fit_physics(compute_of(rows), cells.layout, cells.batch, np.exp(cells.log_seconds))
    if method == PROCESS:
        mean, learned = _smooth(physics, cells)
        process, residuals = learned.process, learned.residuals
    else:
        mean, process = Mean.PHYSICS, None
        residuals = _without_each(rows, cells)
    held = _hold(rows, cells, residuals, spread(physics.share(cells.layout, cells.batch)))
    return (
        Workload(
            physics=physics,
            mean=mean,
            process=process,
            limits=Limits.of(cells.layout),
            least_batch=float(cells.batch.min()),
            most_batch=float(cells.batch.max()),
            spread=held.spread(),
        ),
        held,
    )


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


def _without_each(rows: Rows, cells: Cells) -> Floats:
    """Return residuals of cells from physics fitted without their fold of placements."""
    compute = compute_of(rows)
    seconds = np.exp(cells.log_seconds)
    fold = np.where(cells.layout.alone, -1, deal(cells.places))
    residuals = np.zeros(len(fold))
    for number in range(int(fold.max()) + 1):
        held = fold == number
        if held.all():
            break  # one placement alone: nothing is left to fit from
        rest = cells.layout.take(~held)
        physics = fit_physics(compute, rest, cells.batch[~held], seconds[~held])
        predicted = physics.log_seconds(cells.layout.take(held), cells.batch[held])
        residuals[held] = cells.log_seconds[held] - predicted
    return residuals


def _hold(rows: Rows, cells: Cells, residuals: Floats, deviation: Floats) -> Held:
    """Turn residuals of means into those of measurements; only those of several GPUs count."""
    member = cells.members
    kept = np.flatnonzero((member >= 0) & ~cells.layout.alone[member])
    cell = member[kept]
    logs = np.log(rows.seconds[kept])
    return Held(
        places=cells.places[cell],
        log_seconds=logs,
        residuals=logs - cells.log_seconds[cell] + residuals[cell],
        deviation=deviation[cell],
    )
