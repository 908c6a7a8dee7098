"""Statistical efficiency by the noise scale, and what checkpoints and losses leave."""

import numpy as np
import pytest

from ebbtide.core.models import goodput


def pollux(batch: float, first: float, *, squared: float, variance: float) -> float:
    """Gain / scale, as Pollux states it: by squared mean and variance at the first batch."""
    scale = batch / first
    gain = (variance + squared) / (variance / scale + squared)
    return gain / scale


@pytest.mark.parametrize("batch", [128.0, 256.0, 1024.0, 65_536.0])
def test_efficiency_is_that_of_pollux(batch: float) -> None:
    noise = goodput.noise_scale(batch=128, squared_mean=0.002, variance=0.05)

    found = goodput.efficiency(batch, first_batch=128, noise=noise)

    assert noise == 3200
    assert found == pytest.approx(pollux(batch, 128, squared=0.002, variance=0.05))


def test_a_larger_batch_learns_less_per_sample_and_more_per_step() -> None:
    batches = 2.0 ** np.arange(7, 20)

    found = goodput.efficiency(batches, first_batch=128, noise=3200)

    assert found[0] == 1
    assert (np.diff(found) < 0).all()
    assert (np.diff(found * batches) > 0).all()


def test_without_a_noise_scale_every_sample_counts_the_same() -> None:
    assert goodput.efficiency([1.0, 9.0], first_batch=4, noise=None).tolist() == [1, 1]
    assert goodput.efficiency(9.0, first_batch=4, noise=None) == 1


def test_pure_signal_makes_further_samples_worthless_and_pure_noise_makes_all_count() -> None:
    assert goodput.efficiency(256.0, first_batch=128, noise=0) == 0.5
    assert goodput.efficiency(256.0, first_batch=128, noise=1e12) == pytest.approx(1)


def test_overlap_goes_from_the_sum_to_the_longer() -> None:
    compute, network = np.array([3.0, 1.0]), np.array([4.0, 0.0])

    assert goodput.overlapped(compute, network, exponent=1).tolist() == [7, 1]
    assert goodput.overlapped(compute, network, exponent=2).tolist() == [5, 1]
    assert goodput.overlapped(compute, network, exponent=1e4) == pytest.approx([4, 1])


def test_the_effective_ratio_loses_saves_repeats_and_restarts() -> None:
    ratio = goodput.effective_ratio(
        save_s=10, interval_s=1000, between_failures_s=20_000, restart_s=100
    )

    assert ratio == pytest.approx(1 - 0.01 - 0.025 - 0.005)


def test_a_hopeless_job_keeps_a_ratio_above_nothing() -> None:
    ratio = goodput.effective_ratio(save_s=10, interval_s=5, between_failures_s=2, restart_s=100)

    assert ratio == goodput.LEAST_RATIO


def test_goodput_is_throughput_that_counts_and_lasts() -> None:
    found = goodput.goodput([1000.0, 1900.0], batch=[128.0, 256.0], first_batch=128, noise=0)

    assert found.tolist() == [1000, 950]
    assert goodput.goodput_net(found, ratio=0.9).tolist() == pytest.approx([900, 855])


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        pytest.param(
            lambda: goodput.noise_scale(batch=0, squared_mean=1, variance=1), "batch 0", id="batch"
        ),
        pytest.param(
            lambda: goodput.noise_scale(batch=1, squared_mean=1, variance=-1),
            "variance -1",
            id="variance",
        ),
        pytest.param(
            lambda: goodput.efficiency(0.0, first_batch=1, noise=1), "batch: samples", id="none"
        ),
        pytest.param(
            lambda: goodput.efficiency(1.0, first_batch=1, noise=-1), "noise -1", id="noise"
        ),
        pytest.param(
            lambda: goodput.overlapped(np.ones(1), np.ones(1), exponent=0.5),
            "exponent 0.5",
            id="exponent",
        ),
        pytest.param(
            lambda: goodput.effective_ratio(
                save_s=-1, interval_s=1, between_failures_s=1, restart_s=1
            ),
            "save_s -1",
            id="save",
        ),
        pytest.param(lambda: goodput.goodput_net(1.0, ratio=0), "ratio 0", id="ratio"),
    ],
)
def test_numbers_without_sense_are_refused(call: object, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        call()  # type: ignore[operator]  # a lambda of the list above
