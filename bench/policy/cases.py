"""Which jobs are replayed over which traces; all drawn from seeds."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, TypeAlias

import numpy as np

from ebbtide.core.planner.policies.history import HOUR_S, History
from ebbtide.core.planner.policies.moment import Terms
from ebbtide.data.shapes import spot_probes
from rows import ROOT

FOLDER: Final = ROOT / "tests" / "data" / "skypilot-spot-availability"
PING_TICKS: Final = 1_781
FIT_FRACTION: Final = 0.4

WORK_H: Final = 48.0
FRACTIONS: Final = (0.6, 0.7, 0.8, 0.9)
"""Work as a part of the time to the deadline."""
CHANGEOVERS_H: Final = (0.1, 0.2, 0.4)
JUDGED_H: Final = 0.2
SPOT_USD_H: Final = 0.918
ON_DEMAND_USD_H: Final = 3.06

NUM_STARTS: Final = 50
"""For each trace, changeover and fraction: 17 x 3 x 4 x 50 = 10,200 jobs."""
NUM_DOUBLED: Final = 12
NUM_TRIPLES: Final = 20
NUM_TRIPLE_STARTS: Final = 15

Part: TypeAlias = Literal["one zone", "doubled", "three zones"]
"""One zone at a time; the same with changeovers twice as long as planned; three at once."""

ONE_BY_ONE: Final[tuple[tuple[Part, int], ...]] = (
    ("one zone", NUM_STARTS),
    ("doubled", NUM_DOUBLED),
)


@dataclass(frozen=True, slots=True)
class Case:
    """Jobs over one set of zones with one changeover."""

    part: Part
    zones: tuple[int, ...]
    """Of `series`: the pings first, then the nine zones."""
    changeover_h: float
    fractions: tuple[float, ...]
    num_starts: int
    """For each fraction."""
    seed: int

    @property
    def num_jobs(self) -> int:
        """Jobs for each policy."""
        return len(self.fractions) * self.num_starts


@cache
def pings() -> tuple[History, ...]:
    """Return the traces of ten minutes, by name."""
    files = sorted((FOLDER / "ping" / "2022-10-26T22-05").glob("*.csv"))
    return tuple(
        spot_probes.read_ping(file.read_text("utf-8"), zone=file.stem, num_ticks=PING_TICKS)
        for file in files
    )


@cache
def nine() -> History:
    """Return the trace of nine zones."""
    return spot_probes.read_zones(
        (FOLDER / "multizone_2023-02-15_p3.2xlarge.csv").read_text("utf-8")
    )


def read(zones: Sequence[int]) -> tuple[History, tuple[History, ...]]:
    """Return the trace of a case, and the past of the other family of traces for the prior."""
    if zones[0] < len(pings()):
        return pings()[zones[0]], (_past(nine()),)
    chosen = nine().take([zone - len(pings()) for zone in zones])
    return chosen, tuple(_past(ping) for ping in pings())


def num_fit_rows(history: History) -> int:
    """Return how many rows are for fitting alone."""
    return math.ceil(FIT_FRACTION * len(history) - 1e-9)


def _past(history: History) -> History:
    return History(
        zones=history.zones,
        up=history.up[: num_fit_rows(history)],
        tick_s=history.tick_s,
        start_s=history.start_s,
    )


def jobs_of(case: Case, history: History) -> Iterator[tuple[Terms, int]]:
    """Draw jobs: what a policy is told, and the row before which the job comes."""
    chance = np.random.default_rng(case.seed)
    worst = 2 if case.part == "doubled" else 1
    for fraction in case.fractions:
        terms = Terms(
            work_s=WORK_H * HOUR_S,
            deadline_s=WORK_H / fraction * HOUR_S,
            changeover_s=case.changeover_h * HOUR_S,
            worst_changeover_s=worst * case.changeover_h * HOUR_S,
            spot_usd_per_s=SPOT_USD_H / HOUR_S,
            on_demand_usd_per_s=ON_DEMAND_USD_H / HOUR_S,
            tick_s=history.tick_s,
        )
        last = len(history) - math.ceil(terms.deadline_s / history.tick_s - 1e-9)
        first = num_fit_rows(history)
        for start in chance.integers(first, last + 1, size=case.num_starts).tolist():
            yield terms, start


def all_cases(share: float) -> list[Case]:
    """Return the cases of a run; `share` of the jobs, but at least one for each cell."""
    num_pings, num_zones = len(pings()), len(nine().zones)
    every = range(num_pings + num_zones)
    cases = [
        Case(part, (zone,), changeover, FRACTIONS, _some(number, share), seed=zone)
        for part, number in ONE_BY_ONE
        for changeover in CHANGEOVERS_H
        for zone in every
    ]  # fmt: skip
    chance = np.random.default_rng(20)
    for triple in range(_some(NUM_TRIPLES, share)):
        zones = sorted(chance.choice(num_zones, 3, replace=False).tolist())
        numbers = tuple(num_pings + zone for zone in zones)
        starts = _some(NUM_TRIPLE_STARTS, share)
        cases.append(Case("three zones", numbers, JUDGED_H, (0.9,), starts, seed=triple))
    # The longest first: the last ones then end together on all cores.
    return sorted(cases, key=lambda case: (case.part != "three zones", -case.num_starts))


def _some(number: int, share: float) -> int:
    return max(1, round(number * share))
