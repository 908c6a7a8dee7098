"""Whatever the layers and links: a step takes at least its parts and at most their sum."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.models.iteration.timeline import (
    Caps,
    Timeline,
    Work,
    share_by_speed,
    simulate,
)
from ebbtide.core.models.table import Floats

TIMES = st.floats(0, 10)
SIZES = st.one_of(st.just(0.0), st.floats(1, 1e9))
RATES = st.floats(1e6, 1e12)
LATENCIES = st.floats(0, 1)
CAPS = st.builds(Caps, first=st.floats(0, 1e8), later=st.floats(0, 1e8))


@st.composite
def works(draw: st.DrawFn) -> list[Work]:
    layers = draw(st.integers(1, 12))
    sizes = tuple(draw(st.lists(SIZES, min_size=layers, max_size=layers)))
    return [
        Work(
            forward_s=draw(TIMES),
            backward_s=tuple(draw(st.lists(TIMES, min_size=layers, max_size=layers))),
            gradient_bytes=sizes,
            optimizer_s=draw(TIMES),
        )
        for _ in range(draw(st.integers(1, 3)))
    ]


def lay_out(ranks: list[Work], *, rate: float, latency: float, caps: Caps) -> Timeline:
    def reduce(sizes: Floats) -> Floats:
        return latency + sizes / rate

    return simulate(ranks, reduce, caps=caps)


@given(ranks=works(), rate=RATES, latency=LATENCIES, caps=CAPS)
def test_a_step_lies_between_the_larger_and_the_sum_of_its_parts(
    ranks: list[Work], rate: float, latency: float, caps: Caps
) -> None:
    found = lay_out(ranks, rate=rate, latency=latency, caps=caps)

    least = max(found.compute_s, found.communication_s)
    assert least * (1 - 1e-9) <= found.step_s
    assert found.step_s <= (found.compute_s + found.communication_s) * (1 + 1e-9) + 1e-12


@given(ranks=works(), rate=RATES, latency=LATENCIES, caps=CAPS, more=st.floats(1, 100))
def test_more_bandwidth_is_never_slower(
    ranks: list[Work], rate: float, latency: float, caps: Caps, more: float
) -> None:
    slow = lay_out(ranks, rate=rate, latency=latency, caps=caps)
    fast = lay_out(ranks, rate=rate * more, latency=latency, caps=caps)

    assert fast.step_s <= slow.step_s * (1 + 1e-9)


@given(ranks=works(), rate=RATES, latency=LATENCIES, caps=CAPS)
def test_every_gradient_is_summed_once_and_in_order(
    ranks: list[Work], rate: float, latency: float, caps: Caps
) -> None:
    found = lay_out(ranks, rate=rate, latency=latency, caps=caps)

    total = sum(ranks[0].gradient_bytes)
    assert abs(sum(found.bucket_bytes) - total) <= 1e-9 * total
    assert list(found.reduced_s) == sorted(found.reduced_s)
    assert all(done >= at for at, done in zip(found.ready_s, found.reduced_s, strict=True))


@given(ranks=works(), rate=RATES, latency=LATENCIES, caps=CAPS)
def test_a_further_rank_never_makes_a_step_faster(
    ranks: list[Work], rate: float, latency: float, caps: Caps
) -> None:
    slower = replace(ranks[0], forward_s=ranks[0].forward_s * 1.5)

    alone = lay_out(ranks, rate=rate, latency=latency, caps=caps)
    mixed = lay_out([*ranks, slower], rate=rate, latency=latency, caps=caps)

    assert alone.step_s <= mixed.step_s


@given(speeds=st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=40), extra=st.integers(0, 10_000))
def test_shares_add_up_and_lie_within_one_of_their_exact_part(
    speeds: list[float], extra: int
) -> None:
    batch = len(speeds) + extra

    shares = share_by_speed(batch, speeds)

    assert sum(shares) == batch
    for share, speed in zip(shares, speeds, strict=True):
        assert abs(share - batch * speed / sum(speeds)) < 1 + 1e-6
