import numpy as np
import pytest

from ebbtide.core.models.iteration.timeline import (
    Caps,
    Timeline,
    Work,
    share_by_speed,
    share_equally,
    simulate,
)
from ebbtide.core.models.table import Floats

MB = 1e6
CAPS = Caps(first=1 * MB, later=25 * MB)


def make_work(*, scale: float = 1.0) -> Work:
    """Forward 40 ms, four layers of 20 ms each backward, 62 MB of gradients."""
    return Work(
        forward_s=0.040 * scale,
        backward_s=(0.020 * scale,) * 4,
        gradient_bytes=(2 * MB, 10 * MB, 20 * MB, 30 * MB),
    )


def lay_out(*works: Work, rate: float = 1e9, latency: float = 0.0, caps: Caps = CAPS) -> Timeline:
    def reduce(sizes: Floats) -> Floats:
        return latency + sizes / rate

    return simulate(works or (make_work(),), reduce, caps=caps)


def test_fills_buckets_in_the_order_in_which_gradients_arrive() -> None:
    timeline = lay_out()

    assert timeline.bucket_bytes == (30 * MB, 30 * MB, 2 * MB)
    assert timeline.ready_s == pytest.approx((0.060, 0.100, 0.120))
    assert timeline.reduced_s == pytest.approx((0.090, 0.130, 0.132))


@pytest.mark.parametrize(
    ("rate", "latency", "caps", "step_ms"),
    [
        pytest.param(1e9, 0.0, CAPS, 132, id="overlap"),
        pytest.param(1e9, 0.005, CAPS, 142, id="with-latency"),
        pytest.param(0.5e9, 0.0, CAPS, 184, id="half-the-bandwidth"),
        pytest.param(1e9, 0.0, Caps(first=1e12, later=1e12), 182, id="one-bucket"),
        pytest.param(float("inf"), 0.0, CAPS, 120, id="infinite-bandwidth"),
    ],
)
def test_agrees_with_a_step_laid_out_by_hand(
    rate: float, latency: float, caps: Caps, step_ms: float
) -> None:
    timeline = lay_out(rate=rate, latency=latency, caps=caps)

    assert timeline.step_s * 1000 == pytest.approx(step_ms)


def test_one_gpu_waits_for_nobody() -> None:
    timeline = simulate((make_work(),), np.zeros_like)

    assert timeline.communication_s == 0
    assert timeline.step_s == pytest.approx(timeline.compute_s)
    assert timeline.exposed_s == pytest.approx(0)


def test_the_optimizer_follows_the_last_bucket() -> None:
    work = make_work()
    slow = Work(
        forward_s=work.forward_s,
        backward_s=work.backward_s,
        gradient_bytes=work.gradient_bytes,
        optimizer_s=0.010,
    )

    assert lay_out(slow).step_s == pytest.approx(0.142)


def test_the_slowest_of_mixed_gpus_decides_when_a_bucket_is_ready() -> None:
    mixed = lay_out(make_work(), make_work(scale=2.0))

    assert mixed.ready_s == pytest.approx((0.120, 0.200, 0.240))
    assert mixed.step_s == pytest.approx(lay_out(make_work(scale=2.0)).step_s)


def test_a_batch_in_proportion_to_speed_beats_an_equal_one_on_mixed_gpus() -> None:
    speeds = (1.0, 1.0, 3.0)

    def step(shares: tuple[int, ...]) -> float:
        works = [
            make_work(scale=share / (8 * speed))
            for share, speed in zip(shares, speeds, strict=True)
        ]
        return lay_out(*works).step_s

    assert step(share_by_speed(120, speeds)) < step(share_equally(120, 3))


def test_the_default_buckets_are_those_of_pytorch() -> None:
    mib = 1024.0**2
    work = Work(forward_s=1.0, backward_s=(1.0,) * 4, gradient_bytes=(9 * mib,) * 4)

    timeline = simulate((work,), np.zeros_like)

    assert timeline.bucket_bytes == (9 * mib, 27 * mib)


@pytest.mark.parametrize(
    ("speeds", "batch", "shares"),
    [
        pytest.param((1, 1), 10, (5, 5), id="even"),
        pytest.param((1, 1, 1), 10, (4, 3, 3), id="first-of-equal-remainders"),
        pytest.param((1, 2), 10, (3, 7), id="largest-remainder"),
        pytest.param((1, 3, 4), 64, (8, 24, 32), id="exact"),
    ],
)
def test_shares_follow_speed_and_add_up(
    speeds: tuple[float, ...], batch: int, shares: tuple[int, ...]
) -> None:
    assert share_by_speed(batch, speeds) == shares


@pytest.mark.parametrize(
    ("speeds", "batch", "complaint"),
    [
        pytest.param((), 10, "at least one", id="nobody"),
        pytest.param((1.0, 0.0), 10, "above 0", id="stands-still"),
        pytest.param((1.0, float("nan")), 10, "finite", id="nan"),
        pytest.param((1.0, 1.0), 1, "idle", id="too-few-samples"),
    ],
)
def test_refuses_shares_without_sense(
    speeds: tuple[float, ...], batch: int, complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        share_by_speed(batch, speeds)


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        pytest.param({"forward_s": -1.0}, "forward_s: -1.0", id="negative"),
        pytest.param({"forward_s": float("nan")}, "forward_s: nan", id="nan"),
        pytest.param({"backward_s": ()}, "at least one layer", id="no-layers"),
        pytest.param({"backward_s": (1.0, 1.0)}, "2 backward times for 1", id="lengths"),
        pytest.param({"gradient_bytes": (float("inf"),)}, "gradient_bytes: inf", id="infinite"),
    ],
)
def test_refuses_work_without_sense(changed: dict[str, float], complaint: str) -> None:
    given = {"forward_s": 1.0, "backward_s": (1.0,), "gradient_bytes": (1.0,)} | changed

    with pytest.raises(ValueError, match=complaint):
        Work(**given)  # type: ignore[arg-type]  # wrong on purpose


def test_refuses_ranks_of_different_models() -> None:
    other = Work(forward_s=1.0, backward_s=(1.0,), gradient_bytes=(1.0,))

    with pytest.raises(ValueError, match="same model"):
        lay_out(make_work(), other)
    with pytest.raises(ValueError, match="no kind of rank"):
        simulate((), np.zeros_like)
