"""Scales of the iteration model come from samples: likelier ones are found, from any start."""

import json
from dataclasses import astuple, replace

import numpy as np
import pytest

from ebbtide.core.models.iteration.choosing import (
    CELLS,
    LEAST_CELLS,
    Sample,
    choose_scales,
    draw,
    invert,
    log_likelihood,
)
from ebbtide.core.models.iteration.covariance import Covariance, Measured, Points, noise
from ebbtide.core.models.iteration.layout import Layout, write_placement
from ebbtide.core.models.iteration.scales import CENTRE, Scales

PLACEMENTS = [
    counts
    for nodes in (1, 2, 3, 4)
    for counts in ((1,) * nodes, (2,) * nodes, (3,) * nodes, (4,) * nodes, (1, 4)[:nodes])
]
BATCHES = (8.0, 16.0, 32.0, 64.0, 128.0)
TRUE = Scales(
    gpus=1.5,
    nodes=0.5,
    uneven=3.0,
    batch=1.0,
    place_sync=0.5,
    place_all=0.05,
    place_batch=0.1,
    jump=0.02,
    noise_sync=0.02,
    noise_all=0.01,
    run_sync=0.1,
    run_all=0.01,
)


def measure(runs: float = 2.0) -> Measured:
    cases = [(counts, batch) for counts in sorted(set(PLACEMENTS)) for batch in BATCHES]
    layout = Layout.of([counts for counts, _ in cases])
    batch = np.array([batch for _, batch in cases])
    share = np.where(layout.alone, 0.0, 0.9 - 0.1 * np.log2(batch / 8))
    return Measured(
        points=Points(layout=layout, batch=batch, share=share),
        runs=np.full(len(cases), runs),
        places=np.array([write_placement(counts) for counts, _ in cases], dtype=object),
    )


def sample(seed: int, *, scales: Scales = TRUE) -> Sample:
    """Draw steps from a process whose scales are known."""
    measured = measure()
    matrix = Covariance(scales=scales, measured=measured).matrix
    matrix = matrix + np.diag(noise(scales, measured))
    values = np.linalg.cholesky(matrix) @ np.random.default_rng(seed).normal(size=len(matrix))
    return Sample(measured=measured, values=values)


def total(scales: Scales, samples: list[Sample]) -> float:
    return sum(log_likelihood(scales, each)[0] for each in samples)


def test_the_slope_is_that_of_the_likelihood() -> None:
    one, step = sample(1), 1e-5
    logs = CENTRE.logs() + np.linspace(-0.3, 0.3, len(CENTRE.logs()))

    _, slope = log_likelihood(Scales.of_logs(logs), one)

    for number in range(len(logs)):
        moved = np.eye(len(logs))[number] * step
        above, _ = log_likelihood(Scales.of_logs(logs + moved), one)
        below, _ = log_likelihood(Scales.of_logs(logs - moved), one)
        assert slope[number] == pytest.approx((above - below) / (2 * step), rel=1e-4, abs=1e-4)


def test_the_likelihood_is_that_of_a_normal_distribution() -> None:
    one = sample(2)
    matrix = Covariance(scales=TRUE, measured=one.measured).matrix
    matrix = matrix + np.diag(noise(TRUE, one.measured))

    found, _ = log_likelihood(TRUE, one)

    sign, log_determinant = np.linalg.slogdet(matrix)
    assert sign == 1
    expected = -(one.values @ np.linalg.solve(matrix, one.values) + log_determinant) / 2
    assert found == pytest.approx(expected)


def test_scales_that_made_the_samples_are_found_again() -> None:
    samples = [sample(seed) for seed in range(6)]

    found = choose_scales(samples, centre=CENTRE)

    assert total(found, samples) > total(TRUE, samples) - 5
    assert total(found, samples) > total(CENTRE, samples) + 100
    for name in ("place_sync", "run_sync", "noise_sync", "noise_all", "place_batch"):
        assert getattr(found, name) == pytest.approx(getattr(TRUE, name), rel=0.5), name


def test_other_samples_give_other_scales() -> None:
    calm = choose_scales([sample(1)], centre=CENTRE)
    noisy = replace(TRUE, noise_sync=0.3, noise_all=0.2)

    found = choose_scales([sample(1, scales=noisy)], centre=CENTRE)

    assert found.noise_all > 5 * calm.noise_all


@pytest.mark.parametrize("seed", range(4))
def test_the_start_hardly_matters(seed: int) -> None:
    samples = [sample(number) for number in range(6)]
    sides = np.random.default_rng(seed).choice([-1, 1], len(CENTRE.logs()))
    other = Scales.of_logs(CENTRE.logs() + np.log(2) * sides)

    found = total(choose_scales(samples, centre=other), samples)

    known = total(choose_scales(samples, centre=CENTRE), samples)
    assert found == pytest.approx(known, abs=5)
    assert found > max(total(other, samples), total(CENTRE, samples)) + 100


def test_samples_without_any_noise_still_have_scales() -> None:
    one = sample(1)
    flat = Sample(measured=one.measured, values=np.zeros(len(one.values)))

    found = choose_scales([flat], centre=CENTRE)

    assert np.isfinite(found.logs()).all()
    assert found.noise_all < CENTRE.noise_all
    invert(Covariance(scales=found, measured=one.measured).matrix, noise(found, one.measured))


def test_steps_without_noise_of_their_own_have_no_covariance() -> None:
    with pytest.raises(np.linalg.LinAlgError, match="too alike"):
        invert(np.ones((3, 3)), np.zeros(3))


def test_many_runs_of_a_cell_weigh_more() -> None:
    assert (noise(TRUE, measure(runs=8)) == noise(TRUE, measure(runs=2)) / 4).all()


# ---------------------------------------------------------------- which cells are looked at


def test_cells_are_drawn_without_sense_but_always_the_same() -> None:
    found = draw(5000, 2)

    assert len(found) == CELLS // 2
    assert (np.diff(found) > 0).all()
    assert len(set(np.diff(found).tolist())) > 5
    assert (found == draw(5000, 2)).all()


def test_of_many_workloads_some_cells_of_each_are_looked_at() -> None:
    assert len(draw(5000, 1000)) == LEAST_CELLS
    assert draw(10, 1).tolist() == list(range(10))


# ---------------------------------------------------------------- scales themselves


def test_scales_come_back_from_json_to_the_last_bit() -> None:
    assert Scales.from_json(json.loads(json.dumps(TRUE.to_json()))) == TRUE


def test_logarithms_stand_in_the_order_of_the_fields() -> None:
    logs = TRUE.logs()

    assert astuple(Scales.of_logs(logs)) == pytest.approx(astuple(TRUE))
    assert list(TRUE.to_json()) == [
        "gpus",
        "nodes",
        "uneven",
        "batch",
        "place_sync",
        "place_all",
        "place_batch",
        "jump",
        "noise_sync",
        "noise_all",
        "run_sync",
        "run_all",
    ]


def test_scales_are_rounded_to_digits_that_mean_something() -> None:
    assert replace(TRUE, gpus=1.23456, run_all=0.0123456).rounded(3) == replace(
        TRUE, gpus=1.23, run_all=0.0123
    )


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_a_scale_that_is_none_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match=r"scale nodes: .* is not finite and above 0"):
        replace(TRUE, nodes=value)
