"""Time of a checkpoint: leave one of CM-DARE's twenty models out of the means."""

from typing import Final

from ebbtide.core.models.checkpoint import DURATION, KIND, WORKLOAD
from ebbtide.core.models.quality import Errors, hold_out
from ebbtide.core.models.quality import leave_one_out as one_by_one
from ebbtide.core.models.table import Table
from ebbtide.data.shapes import cm_dare
from rows import ROOT, Row

MODELS: Final = ROOT / "tests" / "data" / "cm-dare" / "derived" / "models20.csv"
BARS: Final = {"physical-size": 7.05, "physical": 5.8}
PEERS: Final = {
    "physical-size": ("linear", "svr-rbf"),
    "physical": ("multivariate", "principal-linear", "svr-rbf"),
}
WHAT: Final = {"physical-size": "from size", "physical": "from size and tensors"}


def rows() -> list[Row]:
    """Return the error from size alone, and from size and tensors."""
    means = cm_dare.read_checkpoint_means(MODELS.read_text(encoding="utf-8"))
    found = {method: _left_out(means, method) for method in KIND.methods}
    return [
        Row(
            f"checkpoint time {WHAT[method]}, unseen model",
            found[method],
            "% MAPE",
            "lower",
            bar=bar,
            peers={peer: found[peer] for peer in PEERS[method]},
        )
        for method, bar in BARS.items()
    ]


def _left_out(means: Table, method: str) -> float:
    fit = KIND.methods[method]
    held = hold_out(means, one_by_one(means.texts(WORKLOAD)), lambda rest: fit(rest).predict)
    return 100 * Errors.of(means.numbers(DURATION)[held.rows], held.forecast.value).mape
