"""A picture of the front of cost and time. matplotlib is an extra, and imported only to draw."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from ebbtide.cli.plots import RC
from ebbtide.cli.tables import FileError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ebbtide.core.values.plan import Plan

SIZE: Final = (7.0, 4.5)
"""Inches."""
HOUR_S: Final = 3600.0


def draw_front(front: "Sequence[Plan]", path: Path, *, chosen: "Plan | None") -> None:
    """Write hours against USD as one picture; raises FileError."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(RC):
        figure = Figure(figsize=SIZE, layout="constrained")
        axes = figure.subplots()
        hours, costs = _points(front)
        axes.plot(hours, costs, marker="o", gid="front", label="least cost by time")
        for plan, x, y in zip(front, hours, costs, strict=True):
            axes.annotate(str(plan.workers), (x, y), textcoords="offset points", xytext=(4, 4))
        if chosen is not None:
            axes.plot(
                *_points([chosen]),
                marker="*",
                markersize=14,
                linestyle="",
                gid="plan",
                label="the plan",
            )
        axes.set_xlabel("hours to the end")
        axes.set_ylabel("USD (numbers of workers beside)")
        axes.legend()
        try:
            figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
        except OSError as error:
            raise FileError(str(path), f"cannot be written: {error.strerror}") from error


def _points(plans: "Sequence[Plan]") -> tuple[list[float], list[float]]:
    hours = [(one.predicted.finish - one.made_at).total_seconds() / HOUR_S for one in plans]
    return hours, [float(one.predicted.cost_usd) for one in plans]
