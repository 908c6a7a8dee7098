"""
Step times of placements that the fit did not see: six workloads of Pollux on up to 16 T4.

Placements are dealt into five folds, ten times; repeats in another order of nodes stay together.
One GPU is always known, as it is when a job is profiled. Peers are fitted on the same rows: the
curve of one GPU plus boosted trees on the time of synchronisation, and boosted trees on the
logarithm of the step time. Scales are chosen by each fit from what it sees; one row says how the
error moves where the search starts from others, each halved or doubled by chance. The last row
asks for 6 to 16 nodes from up to four.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from xgboost import XGBRegressor

from ebbtide.core.models.iteration import KIND
from ebbtide.core.models.iteration.fitting import fit_process
from ebbtide.core.models.iteration.layout import PLACEMENT, Layout, read_placements
from ebbtide.core.models.iteration.samples import BATCH, STEP, SYNC, WORKLOAD
from ebbtide.core.models.iteration.scales import CENTRE, Scales
from ebbtide.core.models.quality import Split, fold_by
from ebbtide.core.models.table import Flags, Floats, Table
from ebbtide.data.shapes import pollux
from rows import Row

DATA: Final = Path(__file__).resolve().parents[2] / "tests" / "data" / "pollux-profiles"
SEEDS: Final = 10
STARTS: Final = 5
"""Other starts of the search for scales, all on one split."""
WORST: Final = 8.0
WORKLOADS: Final = ("bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3")
ONE: Final = "1"

Ask: TypeAlias = Callable[[Table, Table], Floats]
"""Step times of the second table, having seen the first."""


def rows() -> list[Row]:
    """Measure the default, physics alone and the peers."""
    table = read_placements_of(WORKLOADS)
    errors, inside = errors_of(table)
    own = errors.pop(KIND.default)
    peers = {name: float(np.mean(list(found.values()))) for name, found in errors.items()}
    bar = min(peers[name] for name in PEERS)
    mean = float(np.mean(list(own.values())))
    worst = max(own, key=lambda name: own[name])
    return [
        Row(
            "iteration, unseen placement, mean of 6 workloads", mean, "% error", "lower", bar, peers
        ),
        Row(
            f"iteration, unseen placement, worst workload ({worst})",
            own[worst],
            "% error",
            "lower",
            WORST,
            {name: max(found.values()) for name, found in errors.items()},
        ),
        *(
            Row(
                f"iteration, unseen placement, {name}",
                own[name],
                "% error",
                "lower",
                None,
                {peer: found[name] for peer, found in errors.items()},
            )
            for name in WORKLOADS
        ),
        Row("iteration, unseen placement, measurements in the interval", inside, "%", "higher"),
        other_starts(table),
        beyond(table),
    ]


def read_placements_of(workloads: tuple[str, ...]) -> Table:
    """Read the measured placements of workloads."""
    return pollux.join(
        pollux.read_placements(name, (DATA / name / "placements.csv").read_text(encoding="utf-8"))
        for name in workloads
    )


def splits(table: Table, seed: int) -> Iterator[Split]:
    """Hold out folds of placements; one GPU is in every fit."""
    names = table.texts(PLACEMENT)
    several = np.flatnonzero(names != ONE)
    alone = np.flatnonzero(names == ONE)
    chance = np.random.default_rng(seed)
    for known, held in fold_by(names[several], chance=chance):
        yield np.concatenate([alone, several[known]]), several[held]


def errors_of(table: Table) -> tuple[dict[str, dict[str, float]], float]:
    """Mean relative errors by method and workload, %, and the share inside the interval."""
    measured, names = table.numbers(STEP), table.texts(WORKLOAD)
    asks = {"physics": ask_kind("physics"), **PEERS}
    sums: dict[str, dict[str, list[float]]] = {}
    inside: list[Flags] = []
    for seed in range(SEEDS):
        off = {name: np.full(len(table), np.nan) for name in (KIND.default, *asks)}
        for known, held in splits(table, seed):
            first, second = table.take(known), table.take(held)
            answer = KIND.methods[KIND.default](first).predict(second)
            inside.append((answer.low <= measured[held]) & (measured[held] <= answer.high))
            off[KIND.default][held] = np.abs(answer.value / measured[held] - 1)
            for name, ask in asks.items():
                off[name][held] = np.abs(ask(first, second) / measured[held] - 1)
        for name, found in off.items():
            for workload in WORKLOADS:
                part = found[names == workload]
                sums.setdefault(name, {}).setdefault(workload, []).append(float(np.nanmean(part)))
    means = {
        name: {workload: float(np.mean(each)) * 100 for workload, each in found.items()}
        for name, found in sums.items()
    }
    return means, float(np.concatenate(inside).mean() * 100)


def other_starts(table: Table) -> Row:
    """Look for scales from starts that are halved or doubled by chance; give the largest error."""
    chance = np.random.default_rng(0)
    logs = CENTRE.logs()
    starts = [CENTRE] + [
        Scales.of_logs(logs + np.log(2) * chance.choice([-1, 1], len(logs))) for _ in range(STARTS)
    ]
    first, *others = (error_from(table, centre) for centre in starts)
    return Row(
        f"iteration, unseen placement, largest of {STARTS} other starts",
        max(others),
        "% error",
        "lower",
        None,
        {"least of them": min(others), "the start that ships": first},
    )


def error_from(table: Table, centre: Scales) -> float:
    """Mean error over workloads on the first split, %, where the search starts from `centre`."""
    measured, names = table.numbers(STEP), table.texts(WORKLOAD)
    off = np.full(len(table), np.nan)
    for known, held in splits(table, 0):
        answer = fit_process(table.take(known), centre=centre).predict(table.take(held))
        off[held] = np.abs(answer.value / measured[held] - 1)
    return float(np.mean([np.nanmean(off[names == name]) for name in WORKLOADS]) * 100)


def beyond(table: Table) -> Row:
    """Ask for 6 to 16 nodes, having seen up to four."""
    asked = pollux.join(
        pollux.read_scalability(name, (DATA / name / "scalability.csv").read_text(encoding="utf-8"))
        for name in WORKLOADS
    )
    measured = asked.numbers(STEP)
    asks = {KIND.default: ask_kind(KIND.default), "physics": ask_kind("physics"), **PEERS}
    errors = {
        name: float(np.abs(ask(table, asked) / measured - 1).mean() * 100)
        for name, ask in asks.items()
    }
    own = errors.pop(KIND.default)
    return Row("iteration, 6-16 nodes from 1-4", own, "% error", "lower", None, errors)


# ---------------------------------------------------------------- peers


def ask_kind(method: str) -> Ask:
    """One of our own methods."""
    return lambda known, asked: KIND.methods[method](known).predict(asked).value


def features(table: Table) -> Floats:
    """Nodes, GPUs, GPUs of the fullest and the emptiest node, batch."""
    layout = Layout.of(read_placements(table))
    columns = (layout.nodes, layout.gpus, layout.most, layout.least, table.numbers(BATCH))
    return np.stack(columns, axis=1)


def grow(known: Table, target: Floats, asked: Table) -> Floats:
    """Boosted trees on a logarithm."""
    trees = XGBRegressor(n_estimators=200, max_depth=3, learning_rate=0.05, n_jobs=1)
    trees.fit(features(known), np.log(target))
    found: Floats = np.exp(trees.predict(features(asked)).astype(np.float64))
    return found


def ask_curve(known: Table, asked: Table) -> Floats:
    """The curve of one GPU plus trees on the time of synchronisation."""
    alone = known.texts(PLACEMENT) == ONE
    one, several = known.take(alone), known.take(~alone)
    order = np.argsort(one.numbers(BATCH))
    compute = (one.numbers(STEP) - one.numbers(SYNC))[order]
    curve = np.interp(asked.numbers(BATCH), one.numbers(BATCH)[order], compute)
    found: Floats = curve + grow(several, several.numbers(SYNC), asked)
    return found


def ask_trees(known: Table, asked: Table) -> Floats:
    """Trees on the step time."""
    return grow(known, known.numbers(STEP), asked)


def each_workload(ask: Ask) -> Ask:
    """Fit each workload by itself."""

    def ask_all(known: Table, asked: Table) -> Floats:
        found = np.empty(len(asked))
        for name in sorted(set(asked.texts(WORKLOAD).tolist())):
            here = asked.texts(WORKLOAD) == name
            found[here] = ask(known.take(known.texts(WORKLOAD) == name), asked.take(here))
        return found

    return ask_all


PEERS: Final[dict[str, Ask]] = {
    "one-GPU curve + trees on sync": each_workload(ask_curve),
    "trees on log step time": each_workload(ask_trees),
}
