"""Step time of a model never seen (one of CM-DARE's twenty left out), by GPU type and batch."""

import csv
from collections.abc import Callable
from typing import Final

import numpy as np

from ebbtide.core.models.batch_curve import Curve, fit_curve, fit_line
from ebbtide.core.models.quality import Errors, hold_out, judge, leave_one_out
from ebbtide.core.models.step_time import KIND
from ebbtide.core.models.step_time.setups import (
    FLOPS,
    GPU,
    PARAMS,
    STEP_TIME,
    TENSORS,
    WORKLOAD,
)
from ebbtide.core.models.table import Floats, Table
from ebbtide.data.shapes import cm_dare
from rows import ROOT, Row

DATA: Final = ROOT / "tests" / "data"
PROFILES: Final = ("bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3")
BAR: Final = "physical-alone"
"""Three terms of each GPU type alone, in the same run: what the default must not be worse than."""


def rows() -> list[Row]:
    """Return the errors of every method, and what a breakpoint in the batch brings."""
    text = (DATA / "cm-dare" / "derived" / "models20.csv").read_text(encoding="utf-8")
    means = cm_dare.read_means(text)
    found = {method: _left_out(means, method) for method in KIND.methods}
    trees = _trees(means)
    unseen = [
        Row(
            f"step time, unseen model, {gpu}",
            found[KIND.default][gpu],
            "% MAPE",
            "lower",
            bar=found[BAR][gpu],
            peers={
                **{name: one[gpu] for name, one in found.items() if name != KIND.default},
                "xgboost": trees[gpu],
            },
        )
        for gpu in ("K80", "P100")
    ]
    return [*unseen, *_elsewhere(means), *_by_batch()]


def _left_out(means: Table, method: str) -> dict[str, float]:
    fit = KIND.methods[method]
    names = means.texts(WORKLOAD)
    held = hold_out(means, leave_one_out(names), lambda rest: fit(rest).predict)
    quality = judge(
        means.numbers(STEP_TIME)[held.rows],
        held.forecast,
        groups=means.texts(GPU)[held.rows],
        split="leave-one-out:workload",
        samples=len(means),
    )
    errors = {gpu: one for gpu, one in quality.by_group.items() if isinstance(one, Errors)}
    return {gpu: 100 * one.mape for gpu, one in errors.items()}


def _trees(means: Table) -> dict[str, float]:
    """Boosted trees on FLOPs, parameters and tensors, for each GPU type, on log seconds."""
    from xgboost import XGBRegressor  # noqa: PLC0415 -- only this peer needs it

    features = np.column_stack([means.numbers(one) for one in (FLOPS, PARAMS, TENSORS)])
    seconds, names, gpus = means.numbers(STEP_TIME), means.texts(WORKLOAD), means.texts(GPU)
    found = {}
    for gpu in ("K80", "P100"):
        off = []
        for name in sorted(set(names.tolist())):
            known, held = (gpus == gpu) & (names != name), (gpus == gpu) & (names == name)
            trees = XGBRegressor(n_estimators=200, max_depth=3, learning_rate=0.05, n_jobs=1)
            trees.fit(features[known], np.log(seconds[known]))
            off.append(abs(np.exp(trees.predict(features[held])[0]) / seconds[held][0] - 1))
        found[gpu] = 100 * float(np.mean(off))
    return found


def _elsewhere(means: Table) -> list[Row]:
    """Ask about each model on one GPU type where it was measured on the other."""
    names, gpus, seconds = means.texts(WORKLOAD), means.texts(GPU), means.numbers(STEP_TIME)
    found = []
    for source, target in (("K80", "P100"), ("P100", "K80")):
        ours, ratio, power = [], [], []
        for name in sorted(set(names.tolist())):
            held = (gpus == target) & (names == name)
            model = KIND.methods[KIND.default](means.take(~held))
            ours.append(model.predict(means.take(held)).value[0] / seconds[held][0] - 1)
            others = names != name
            x, y = (np.log(seconds[(gpus == gpu) & others]) for gpu in (source, target))
            there = np.log(seconds[(gpus == source) & (names == name)][0])
            ratio.append(np.exp(there + (y - x).mean()) / seconds[held][0] - 1)
            power.append(np.exp(np.polyval(np.polyfit(x, y, 1), there)) / seconds[held][0] - 1)
        found.append(
            Row(
                f"step time, {target} from {source}",
                _percent(ours),
                "% MAPE",
                "lower",
                peers={"constant ratio": _percent(ratio), "log-linear": _percent(power)},
            )
        )
    return found


def _by_batch() -> list[Row]:
    """Leave each batch but the ends out of one workload's curve."""
    found = []
    for workload in PROFILES:
        batch, seconds = _one_gpu(workload)
        found.append(
            Row(
                f"step time by batch, {workload}",
                _interior(fit_curve, batch, seconds),
                "% MAPE",
                "lower",
                peers={"one line": _interior(fit_line, batch, seconds)},
            )
        )
    return found


def _one_gpu(workload: str) -> tuple[Floats, Floats]:
    path = DATA / "pollux-profiles" / workload / "placements.csv"
    with path.open(encoding="utf-8", newline="") as file:
        lines = [line for line in csv.DictReader(file) if line["placement"] == "1"]
    points = sorted((float(line["local_bsz"]), float(line["step_time"])) for line in lines)
    batch, seconds = np.array(points).T
    return batch, seconds


def _interior(fit: Callable[[Floats, Floats], Curve], batch: Floats, seconds: Floats) -> float:
    off = []
    for index in range(1, len(batch) - 1):
        rest = np.arange(len(batch)) != index
        curve = fit(batch[rest], seconds[rest])
        off.append(float(curve.at(batch[index : index + 1])[0] / seconds[index] - 1))
    return _percent(off)


def _percent(off: list[float]) -> float:
    return 100 * float(np.abs(off).mean())
