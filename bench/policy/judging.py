"""From what came of all cases to rows with bars."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ebbtide.core.simulator.fleet import OURS
from policy.cases import CHANGEOVERS_H, JUDGED_H, Case
from policy.playing import CHEAP, Found
from rows import Row

TO_UNIFORM: Final = 0.53
TO_GREEDY: Final = 0.37
TO_UNIFORM_THREE: Final = 0.65
DAYS_PER_S: Final = 200.0
LIMIT_S: Final = 1_800.0

Results = Sequence[tuple[Case, Mapping[str, Found]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """How long a run took."""

    wall_s: float
    cpu_s: float
    """Of all its processes."""


def rows(results: Results, took: Took, *, is_full: bool) -> list[Row]:
    """Return all rows; ratios are judged at full size alone, for a few jobs say little."""
    found = []
    for changeover in CHANGEOVERS_H:
        chosen = _select(results, "one zone", changeover)
        bars = is_full and changeover == JUDGED_H
        found += _quality(
            chosen,
            f"changeover {changeover} h",
            uniform=TO_UNIFORM if bars else None,
            greedy=TO_GREEDY if bars else None,
        )
    for changeover in CHANGEOVERS_H:
        chosen = _select(results, "doubled", changeover)
        name = f"changeover {changeover} h planned, twice that real"
        found.append(_misses(chosen, name))
        found.append(Row(f"{name}: points", _points(chosen, OURS), "%", "lower"))
    found += _quality(
        _select(results, "three zones", JUDGED_H),
        f"three zones, changeover {JUDGED_H} h",
        uniform=TO_UNIFORM_THREE if is_full else None,
        greedy=None,
    )
    found.append(_speed([policies for _, policies in results]))
    limit = LIMIT_S if is_full else None
    peers = {"time of all processors": took.cpu_s}
    found.append(Row("this bench", took.wall_s, "s", "lower", limit, peers, of_machine=True))
    return found


def _select(results: Results, part: str, changeover: float) -> list[Mapping[str, Found]]:
    return [
        policies
        for case, policies in results
        if case.part == part and case.changeover_h == changeover
    ]


def _quality(
    chosen: Sequence[Mapping[str, Found]],
    name: str,
    *,
    uniform: float | None,
    greedy: float | None,
) -> list[Row]:
    means = {policy: _points(chosen, policy) for policy in chosen[0]}
    ours = means.pop(OURS)
    jobs = sum(len(policies[OURS].points) for policies in chosen)
    return [
        Row(f"{name}, {jobs} jobs: points above omniscient", ours, "%", "lower", peers=means),
        _ratio(f"{name}: points / Uniform Progress", ours, means["uniform-progress"], uniform),
        _ratio(f"{name}: points / greedy", ours, means["greedy"], greedy),
        Row(
            f"{name}: 95th percentile of cost / least",
            _percentile(chosen, OURS),
            "x",
            "lower",
            peers={policy: _percentile(chosen, policy) for policy in means},
        ),
        _misses(chosen, name),
    ]


def _ratio(name: str, ours: float, theirs: float, bar: float | None) -> Row:
    return Row(name, ours / theirs, "x", "lower", bar)


def _misses(chosen: Sequence[Mapping[str, Found]], name: str) -> Row:
    missed = sum(policies[OURS].misses for policies in chosen)
    jobs = sum(len(policies[OURS].points) for policies in chosen)
    return Row(f"{name}: deadlines missed in {jobs} jobs", missed, "jobs", "lower", 0)


def _points(chosen: Sequence[Mapping[str, Found]], policy: str) -> float:
    return float(np.mean([value for policies in chosen for value in policies[policy].points]))


def _percentile(chosen: Sequence[Mapping[str, Found]], policy: str) -> float:
    ratios = [value for policies in chosen for value in policies[policy].ratios]
    return float(np.percentile(ratios, 95))


def _speed(results: Sequence[Mapping[str, Found]]) -> Row:
    speeds = {}
    for policy in (*CHEAP, OURS):
        having = [policies[policy] for policies in results if policy in policies]
        # cases of a few jobs take less than the clock can tell
        cpu_s = max(sum(found.cpu_s for found in having), 1e-3)
        speeds[policy] = sum(found.simulated_days for found in having) / cpu_s
    slowest = min(speeds[policy] for policy in CHEAP)
    name = "simulated days per second of a core, the slowest plain policy"
    return Row(name, slowest, "1/s", "higher", DAYS_PER_S, speeds, of_machine=True)
