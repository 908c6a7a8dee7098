"""
Times of all-reduces at sizes that the fit did not see.

Sizes are held out one at a time, of all systems together; and whole systems, one at a time. Peers
are our other methods and a support vector machine on the same columns.
"""

from pathlib import Path
from typing import Final

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from ebbtide.core.models.all_reduce import KIND
from ebbtide.core.models.all_reduce.calls import BYTES, GPUS, NODES, SYSTEM, TIME
from ebbtide.core.models.quality import Split, leave_one_out
from ebbtide.core.models.table import Floats, Table
from ebbtide.data.shapes import all_reduce
from rows import Row

DATA: Final = Path(__file__).resolve().parents[2] / "tests" / "data" / "ml-engineering-allreduce"
SVM: Final = "SVR"


def rows() -> list[Row]:
    """Measure all methods and the peer."""
    table = all_reduce.read((DATA / "allreduce_bandwidth.csv").read_text(encoding="utf-8"))
    measured = table.numbers(TIME)
    errors: dict[str, list[float]] = {name: [] for name in (*KIND.methods, SVM)}
    inside: list[bool] = []
    for known, held in splits(table):
        first, second = table.take(known), table.take(held)
        for name, fit in KIND.methods.items():
            answer = fit(first).predict(second)
            errors[name].extend(np.abs(answer.value / measured[held] - 1))
            if name == KIND.default:
                inside.extend((answer.low <= measured[held]) & (measured[held] <= answer.high))
        errors[SVM].extend(np.abs(regress(first, second) / measured[held] - 1))
    means = {name: float(np.mean(found) * 100) for name, found in errors.items()}
    own = means.pop(KIND.default)
    return [
        *unseen_systems(table),
        Row("all-reduce, unseen size", own, "% error", "lower", None, means),
        Row(
            "all-reduce, unseen size, measurements in the interval",
            float(np.mean(inside) * 100),
            "%",
            "higher",
        ),
    ]


def unseen_systems(table: Table) -> list[Row]:
    """Hold out one system at a time."""
    measured = table.numbers(TIME)
    off, peer, inside = (np.empty(len(table)) for _ in range(3))
    for known, held in leave_one_out(table.texts(SYSTEM)):
        first, second = table.take(known), table.take(held)
        answer = KIND.methods[KIND.default](first).predict(second)
        off[held] = np.abs(answer.value / measured[held] - 1)
        peer[held] = np.abs(regress(first, second) / measured[held] - 1)
        inside[held] = (answer.low <= measured[held]) & (measured[held] <= answer.high)
    what = "all-reduce, unseen system"
    return [
        Row(
            what, float(off.mean() * 100), "% error", "lower", None, {SVM: float(peer.mean()) * 100}
        ),
        Row(f"{what}, measurements in the interval", float(inside.mean() * 100), "%", "higher"),
    ]


def splits(table: Table) -> list[Split]:
    """Hold out one size at a time; systems with one size only stay known."""
    sizes, systems = table.numbers(BYTES), table.texts(SYSTEM)
    several = [name for name in set(systems.tolist()) if len(set(sizes[systems == name])) > 1]
    found = []
    for size in np.unique(sizes):
        held = (sizes == size) & np.isin(systems, several)
        found.append((np.flatnonzero(~held), np.flatnonzero(held)))
    return found


def regress(known: Table, asked: Table) -> Floats:
    """A support vector machine on the logarithms, with its usual settings."""
    systems = sorted(set(known.texts(SYSTEM).tolist()))

    def features(table: Table) -> Floats:
        codes = [(table.texts(SYSTEM) == name).astype(np.float64) for name in systems]
        columns = [np.log(table.numbers(column)) for column in (GPUS, NODES, BYTES)]
        return np.stack([*columns, *codes], axis=1)

    machine = make_pipeline(StandardScaler(), SVR(C=10.0, epsilon=0.01))
    machine.fit(features(known), np.log(known.numbers(TIME)))
    found: Floats = np.exp(np.asarray(machine.predict(features(asked)), dtype=np.float64))
    return found
