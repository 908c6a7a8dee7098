"""The lifetime model on public lives: the bar, and checks 15 to 17 of the facts on CM-DARE."""

import csv
import io

import numpy as np
import pytest

from ebbtide.core.models.lifetime import scoring
from ebbtide.core.models.lifetime.ages import Curves
from ebbtide.core.models.lifetime.choosing import count, fit_fleet
from ebbtide.core.models.lifetime.families import find_wall
from ebbtide.core.models.lifetime.fitting import ask_of, fit_lives
from ebbtide.core.models.lifetime.lives import START, Lives
from ebbtide.core.models.table import Floats, Table
from support.lives import google, gpu_servers, read_text

REGIONS = {
    ("K80", "us-east1"): (30, 14),
    ("K80", "us-central1"): (48, 27),
    ("K80", "us-west1"): (48, 11),
    ("K80", "europe-west1"): (30, 20),
    ("P100", "us-east1"): (30, 21),
    ("P100", "us-central1"): (30, 16),
    ("P100", "us-west1"): (30, 20),
    ("P100", "europe-west1"): (30, 8),
    ("V100", "us-central1"): (30, 20),
    ("V100", "us-west1"): (30, 22),
    ("V100", "europe-west4"): (30, 13),
    ("V100", "asia-east1"): (30, 14),
}
TOTALS = {"K80": (156, 72), "P100": (120, 65), "V100": (120, 69)}
PEAKS = {"K80": 10, "P100": 13, "V100": 13}


def rows_of(path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(read_text(path))))


def hours_of(row: dict[str, str]) -> list[int]:
    return [int(row[f"h{hour}"]) for hour in range(24)]


def by_hour(of: str) -> dict[str, list[int]]:
    rows = rows_of("cm-dare/derived/revocations_by_hour.csv")
    return {row["gpu"]: hours_of(row) for row in rows if row["hour_of"] == of}


# ---------------------------------------------------------------- the bar


def without_start(table: Table) -> Table:
    """Drop the hour of the start: type and zone are all that the bar allows."""
    cells = {name: cells for name, cells in table.cells.items() if name != START.name}
    return Table(cells, table.rows)


def improvement(lives: Lives, *, seed: int, grid: Floats) -> tuple[float, float]:
    """By how much the held-out Brier score is below pooled Kaplan-Meier's and the bathtub's."""
    kinds = np.array([lives.pools[index][2] for index in lives.pool], dtype=object)
    known, held = (
        lives.take(half) for half in scoring.halves(kinds, chance=np.random.default_rng(seed))
    )
    seen = scoring.Steps.of(known.hours, ~known.revoked)

    def score(survival: Floats) -> float:
        wide = np.broadcast_to(survival, (len(held), len(grid)))
        return scoring.brier(wide, held.hours, held.revoked, seen=seen, grid=grid)

    law = fit_fleet(count(known), "bathtub", find_wall(known.hours))
    bathtub = Curves(rates=law.rates[None, :], walls=np.array([np.inf]))
    zeros = np.zeros(len(grid))
    peers = (
        score(scoring.Steps.of(known.hours, known.revoked).at(grid)),
        score(bathtub.survival(zeros.astype(np.intp), zeros, grid)),
    )
    own = score(ask_of(fit_lives(known, method="stacked"), held).survival(grid[None, :]))
    return 1 - own / peers[0], 1 - own / peers[1]


def test_held_out_brier_scores_are_8_percent_below_kaplan_meier_and_a_bathtub() -> None:
    lives, grid = Lives.read(without_start(google())), scoring.grid_to(24.0)

    # the bench takes all 20 seeds
    gains = np.array([improvement(lives, seed=seed, grid=grid) for seed in range(3)])

    assert gains.mean(axis=0).min() >= 0.08


def test_pooled_kaplan_meier_scores_as_published_elsewhere() -> None:
    lives, grid = Lives.read(google()), scoring.grid_to(24.0)
    all_alive = scoring.Steps.of(lives.hours, lives.revoked).at(grid)[None, :]
    seen = scoring.Steps.of(lives.hours, ~lives.revoked)

    found = scoring.brier(
        np.repeat(all_alive, len(lives), axis=0), lives.hours, lives.revoked, seen=seen, grid=grid
    )

    assert found == pytest.approx(0.2076, abs=0.003)


def test_the_cap_is_found_in_the_lives_themselves() -> None:
    model = fit_lives(Lives.read(google()), method="weibull")

    assert model.curves.walls.max() == pytest.approx(24.83, abs=0.01)
    assert np.isfinite(model.curves.walls).all()


# ---------------------------------------------------------------- CM-DARE


def test_check_15_revocations_by_region_and_hour_agree() -> None:
    hourly = {
        (row["gpu"], row["region"]): (hours_of(row), int(row["survived_24h"]))
        for row in rows_of("cm-dare/derived/revocations_hourly.csv")
    }
    totals = {
        (row["gpu"], row["region"]): (int(row["launched"]), int(row["revoked"]))
        for row in rows_of("cm-dare/derived/revocations.csv")
    }

    found = {key: (sum(dead) + alive, sum(dead)) for key, (dead, alive) in hourly.items()}
    assert found == REGIONS
    assert {key: totals[key] for key in REGIONS} == REGIONS
    assert {gpu: totals[gpu, "ALL"] for gpu in TOTALS} == TOTALS
    for gpu, counts in by_hour("life").items():
        parts = [dead for (kind, _), (dead, _) in hourly.items() if kind == gpu]
        assert np.sum(parts, axis=0).tolist() == counts


def test_check_15_the_fitted_share_lost_rises_to_the_share_revoked() -> None:
    model = fit_lives(Lives.read(gpu_servers()), method="empirical")
    hours = np.append(np.arange(0.0, 24.0), 24 - 1e-6)

    for (gpu, region), (launched, revoked) in REGIONS.items():
        lost = 1 - model.survival(Table.of(pool=[f"{gpu}@{region}"]), hours[None, :])[0]
        assert (np.diff(lost) >= 0).all()
        assert lost[-1] == pytest.approx(revoked / launched, abs=1e-3)


def off_by(method: str) -> dict[tuple[str, str], tuple[float, float]]:
    """By how much drawn lives miss the share revoked, and the mean life in hours."""
    model = fit_lives(Lives.read(gpu_servers()), method=method)
    means = {
        (row["gpu"], row["region"]): float(row["mean_lifetime_h_mid"] or 0)
        for row in rows_of("cm-dare/derived/revocations.csv")
    }
    chance = np.random.default_rng(16)
    found = {}
    for key, (launched, revoked) in REGIONS.items():
        asked = model.ask(Table.of(pool=["@".join(key)]))
        first = np.zeros(20_000, dtype=np.intp)
        drawn = asked.curves.quantile(first, np.zeros(20_000), chance.random(20_000))
        share = float(np.mean(drawn < 24 - 1e-9)) - revoked / launched
        found[key] = (abs(share), abs(float(drawn.mean()) - means[key]))
    return found


def test_check_16_lives_drawn_from_own_history_are_as_they_were() -> None:
    for share, mean in off_by("empirical").values():
        assert share <= 0.01
        assert mean <= 0.5


def test_check_16_an_exponential_law_cannot_be_right() -> None:
    off = off_by("exponential")

    assert off["K80", "us-east1"][0] > 0.05
    assert sum(share > 0.01 for share, _ in off.values()) >= 10


def test_check_17_revocations_peak_at_these_hours_of_the_day() -> None:
    counts = by_hour("day")

    assert {gpu: int(np.argmax(hours)) for gpu, hours in counts.items()} == PEAKS
    assert sum(counts["V100"][16:21]) == 0
    assert {gpu: sum(hours) for gpu, hours in counts.items()} == {
        gpu: revoked for gpu, (_, revoked) in TOTALS.items()
    }
