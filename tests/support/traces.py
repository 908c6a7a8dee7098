"""Traces and jobs for tests of policies: made up, and those of the public data."""

from functools import cache

import numpy as np

from architecture.tree import ROOT
from ebbtide.core.planner.policies.history import History
from ebbtide.core.planner.policies.moment import IDLE, Moment, Place, Terms
from ebbtide.data.shapes import spot_probes

FOLDER = ROOT / "tests" / "data" / "skypilot-spot-availability"
PINGS = FOLDER / "ping" / "2022-10-26T22-05"
HOUR_S = 3600.0
TICK_S = 600.0


def make_terms(
    *,
    work_h: float = 48.0,
    deadline_h: float = 60.0,
    changeover_h: float = 0.2,
    worst_h: float | None = None,
    tick_s: float = TICK_S,
) -> Terms:
    """Return a job of two days with the prices of a p3.2xlarge."""
    return Terms(
        work_s=work_h * HOUR_S,
        deadline_s=deadline_h * HOUR_S,
        changeover_s=changeover_h * HOUR_S,
        worst_changeover_s=(changeover_h if worst_h is None else worst_h) * HOUR_S,
        spot_usd_per_s=0.918 / HOUR_S,
        on_demand_usd_per_s=3.06 / HOUR_S,
        tick_s=tick_s,
    )


def make_history(*zones: str, tick_s: float = TICK_S, start_s: float = 0.0) -> History:
    """Return a history of zones from texts of 0 and 1, one digit for each tick."""
    up = np.array([[digit == "1" for digit in zone] for zone in zones]).T
    names = tuple("abcdefghi"[: len(zones)])
    return History(zones=names, up=up, tick_s=tick_s, start_s=start_s)


def make_flapping(
    chance: np.random.Generator, *, rows: int, num_zones: int = 1, tick_s: float = TICK_S
) -> History:
    """Return zones that are up and down for geometric times of six ticks in the mean."""
    flips = chance.random((rows, num_zones)) < 1 / 6
    up = np.cumsum(flips, axis=0) % 2 == 0
    return History(zones=tuple("abcdefghi"[:num_zones]), up=up, tick_s=tick_s)


def make_moment(
    *,
    row: int = 0,
    elapsed_h: float = 0.0,
    left_h: float = 60.0,
    work_h: float = 48.0,
    place: Place = IDLE,
    changing_s: float = -1.0,
    up: tuple[bool, ...] = (True,),
) -> Moment:
    """Return the first moment of a job of two days, changed as asked."""
    return Moment(row, elapsed_h * HOUR_S, left_h * HOUR_S, work_h * HOUR_S, place, changing_s, up)


@cache
def read_pings() -> tuple[History, ...]:
    """Return the eight public traces of ten minutes."""
    return tuple(
        spot_probes.read_ping(path.read_text(encoding="utf-8"), zone=path.stem)
        for path in sorted(PINGS.glob("*.csv"))
    )


@cache
def read_zones() -> History:
    """Return the public trace of nine zones."""
    path = FOLDER / "multizone_2023-02-15_p3.2xlarge.csv"
    return spot_probes.read_zones(path.read_text(encoding="utf-8"))
