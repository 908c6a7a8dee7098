"""
Speed of clusters with 5 to 8 workers, fitted on 1 to 4 workers alone.

Bars: the mean over the 16 points of each row (4 models x 5 to 8 workers). Peers are our other
methods, and plain regressions on the logarithms of what the model is told. The last rows come from
runs of other years and GPU types, which nobody looked at when the model was made.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVR
from xgboost import XGBRegressor

from ebbtide.core.models import parameter_server
from ebbtide.core.models.clusters import BYTES, GPU, SERVERS, SPEED, WORKERS, WORKLOAD
from ebbtide.core.models.quality import hold_out, leave_one_out
from ebbtide.core.models.table import Floats, Table
from ebbtide.data.shapes import cluster_speed
from rows import Row

DATA: Final = Path(__file__).resolve().parents[2] / "tests" / "data" / "cm-dare"
SEEN: Final = 4
"""Workers up to which the fits may look."""
BARS: Final = {("P100", 1): 12.0, ("P100", 2): 16.0, ("K80", 1): 9.0}
OTHERS: Final = (("V100", 1), ("V100", 2), ("K80", 2))

Answers = dict[str, Floats]


def rows() -> list[Row]:
    """Measure all methods and the plain peers."""
    text = (DATA / "derived" / "cluster_speed.csv").read_text(encoding="utf-8")
    table = cluster_speed.read(text)
    answers, held = ask_all(table)
    found = [row_of(answers, held, key, bar=bar) for key, bar in BARS.items()]
    found.append(against_norm(answers, held))
    found.extend(unseen(table))
    runs = (DATA / "icac19" / "training_runs_resnet32_64k_steps.csv").read_text(encoding="utf-8")
    answers, held = ask_all(cluster_speed.read_all(text, runs))
    return found + [row_of(answers, held, key, bar=None) for key in OTHERS]


def unseen(table: Table) -> Iterator[Row]:
    """Hold out whole series: nothing of what is asked was measured."""
    gpu, workload = table.texts(GPU), table.texts(WORKLOAD)
    fit = parameter_server.KIND.methods[parameter_server.KIND.default]
    for name, groups in (
        ("pair of GPU type and workload", gpu + " " + workload),
        ("workload", workload),
        ("GPU type", gpu),
    ):
        held = hold_out(table, leave_one_out(groups), lambda known: fit(known).predict)
        measured = table.numbers(SPEED)[held.rows]
        off = np.abs(held.forecast.value / measured - 1)
        inside = (held.forecast.low <= measured) & (measured <= held.forecast.high)
        title = f"parameter server, unseen {name}"
        yield Row(title, float(off.mean() * 100), "% error", "lower")
        yield Row(f"{title}, in the interval", float(inside.mean() * 100), "%", "higher")


def ask_all(table: Table) -> tuple[Answers, Table]:
    """Fit everything on few workers; return the answers for many, and their rows."""
    few = table.numbers(WORKERS) <= SEEN
    known, held = table.take(few), table.take(~few)
    answers = {
        method: parameter_server.fit(known, method=method).predict(held).value
        for method in parameter_server.WAYS
    }
    return answers | {name: ask(known, held) for name, ask in PLAIN.items()}, held


def row_of(answers: Answers, held: Table, key: tuple[str, int], *, bar: float | None) -> Row:
    """Errors of one GPU type and number of servers, %."""
    errors = {name: error(values, held, key) for name, values in answers.items()}
    own = errors.pop(parameter_server.KIND.default)
    name = f"parameter server, {key[0]} x {key[1]} server{'s' * (key[1] > 1)}, 5-8 workers from 1-4"
    return Row(name, own, "% error", "lower", bar, errors)


def against_norm(answers: Answers, held: Table) -> Row:
    """The worst of the three rows, relative to a p-norm fitted to each series by itself."""
    ratios = [
        error(answers[parameter_server.KIND.default], held, key)
        / error(answers["p-norm"], held, key)
        for key in BARS
    ]
    name = "parameter server, error against p-norm per series, worst of the rows above"
    return Row(name, max(ratios), "ratio", "lower", 1.0)


def error(values: Floats, held: Table, key: tuple[str, int]) -> float:
    """Mean absolute relative error over the points of a row; repeats of a cluster are one point."""
    gpu, servers = held.texts(GPU), held.numbers(SERVERS)
    mine = np.flatnonzero((gpu == key[0]) & (servers == key[1]))
    measured = held.numbers(SPEED)
    points: dict[tuple[str, float], list[int]] = {}
    for row in mine:
        point = (str(held.texts(WORKLOAD)[row]), float(held.numbers(WORKERS)[row]))
        points.setdefault(point, []).append(int(row))
    off = [abs(values[same[0]] / np.mean(measured[same]) - 1) for same in points.values()]
    return float(np.mean(off) * 100)


# ---------------------------------------------------------------- plain peers


def features(table: Table) -> Floats:
    """Logarithms of the numbers."""
    columns = (WORKERS, SERVERS, BYTES)
    return np.stack([np.log(table.numbers(column)) for column in columns], axis=1)


def regress(known: Table, held: Table, *, make: Callable[[], object]) -> Floats:
    """A regression of log speed on the logarithms and the GPU type."""
    encoder = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    kinds = encoder.fit_transform(known.texts(GPU)[:, None])
    asked = encoder.transform(held.texts(GPU)[:, None])
    regression = make()
    regression.fit(np.hstack([features(known), kinds]), np.log(known.numbers(SPEED)))  # type: ignore[attr-defined]  # scikit-learn has no types
    predicted = regression.predict(np.hstack([features(held), asked]))  # type: ignore[attr-defined]  # scikit-learn has no types
    result: Floats = np.exp(np.asarray(predicted, dtype=np.float64))
    return result


PLAIN: Final[dict[str, Callable[[Table, Table], Floats]]] = {
    "linear regression": lambda known, held: regress(known, held, make=LinearRegression),
    "SVR": lambda known, held: regress(
        known, held, make=lambda: make_pipeline(StandardScaler(), SVR(C=100, epsilon=0.01))
    ),
    "xgboost": lambda known, held: regress(
        known, held, make=lambda: XGBRegressor(n_estimators=200, max_depth=3, n_jobs=1)
    ),
}
