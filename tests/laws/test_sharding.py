"""Every sample once per epoch and the same global batch, whatever happens to the members."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.runtime.sharding import Order, divide, divide_by_speed, permute

WORLDS = st.lists(st.integers(1, 9), min_size=1, max_size=40)


def steps_of(order: Order, *, batch: int, worlds: list[int]) -> list[list[int]]:
    """Each step's samples, all ranks together, with a world of its own per step."""
    return [
        [
            int(index)
            for rank in range(world)
            for index in order.share(step=step, batch=batch, rank=rank, world=world)
        ]
        for step, world in enumerate(worlds)
    ]


@given(batch=st.integers(1, 300), world=st.integers(1, 64))
def test_shares_are_contiguous_disjoint_and_differ_by_at_most_one(batch: int, world: int) -> None:
    shares = [divide(batch=batch, rank=rank, world=world) for rank in range(world)]

    assert [position for share in shares for position in share] == list(range(batch))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(samples=st.integers(1, 60), batch=st.integers(1, 40), seed=st.integers(0, 5), worlds=WORLDS)
def test_each_sample_comes_once_per_epoch_whatever_the_worlds(
    samples: int, batch: int, seed: int, worlds: list[int]
) -> None:
    taken = steps_of(Order(seed=seed, samples=samples), batch=batch, worlds=worlds)

    sequence = [index for step in taken for index in step]
    assert all(len(step) == batch for step in taken)
    for start in range(0, len(sequence) - samples + 1, samples):
        assert sorted(sequence[start : start + samples]) == list(range(samples))


@given(samples=st.integers(1, 60), batch=st.integers(1, 40), worlds=WORLDS)
def test_a_step_takes_the_same_samples_in_every_world(
    samples: int, batch: int, worlds: list[int]
) -> None:
    order = Order(seed=1, samples=samples)

    disturbed = steps_of(order, batch=batch, worlds=worlds)
    undisturbed = steps_of(order, batch=batch, worlds=[1] * len(worlds))

    assert disturbed == undisturbed


@given(samples=st.integers(1, 60), batch=st.integers(1, 40), step=st.integers(0, 200))
def test_a_step_does_not_depend_on_what_was_taken_before(
    samples: int, batch: int, step: int
) -> None:
    used, fresh = Order(seed=2, samples=samples), Order(seed=2, samples=samples)
    for earlier in range(min(step, 20)):
        used.share(step=earlier, batch=batch, rank=0, world=2)

    again = used.share(step=step, batch=batch, rank=1, world=2)

    assert np.array_equal(again, fresh.share(step=step, batch=batch, rank=1, world=2))


def test_sixty_thousand_samples_resume_at_another_size_in_mid_epoch() -> None:
    """B072: 56,800 samples done by 8 ranks, then 6 ranks to the end of the next epoch."""
    order, batch, samples = Order(seed=0, samples=60_000), 400, 60_000
    worlds = [8] * 142 + [6] * 158

    seen = Counter(index for step in steps_of(order, batch=batch, worlds=worlds) for index in step)

    assert seen == Counter(dict.fromkeys(range(samples), 2))


def test_twelve_samples_stopped_after_four_are_completed_by_any_world() -> None:
    """B074: what is left of the epoch is the same for 4, 3 and 1 ranks."""
    order = Order(seed=0, samples=12)

    for world in (4, 3, 1):
        taken = steps_of(order, batch=4, worlds=[4, world, world])
        assert sorted(index for step in taken for index in step) == list(range(12))


def test_the_global_batch_stays_what_it_is_when_members_come_and_go() -> None:
    """B075: 256 samples per step for every one of these worlds, and equal shares at eight."""
    taken = steps_of(Order(seed=0, samples=999), batch=256, worlds=[8, 5, 3, 8, 1, 8])

    assert [len(step) for step in taken] == [256] * 6
    assert {len(divide(batch=256, rank=rank, world=8)) for rank in range(8)} == {32}


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = {
        tuple(permute(seed=seed, epoch=epoch, samples=50)) for seed in (0, 1) for epoch in (0, 1)
    }

    assert len(orders) == 4


@given(
    batch=st.integers(1, 2000),
    speeds=st.lists(st.sampled_from([1.0, 1.37, 2.0, 3.3, 11.0]), min_size=1, max_size=24),
)
def test_shares_by_speed_are_whole_contiguous_and_follow_the_speeds(
    batch: int, speeds: list[float]
) -> None:
    shares = divide_by_speed(batch=batch, speeds=speeds)

    assert [number for share in shares for number in share] == list(range(batch))
    if batch < len(speeds):
        return
    for share, speed in zip(shares, speeds, strict=True):
        assert abs(len(share) - batch * speed / sum(speeds)) <= 1


@given(batch=st.integers(1, 2000), world=st.integers(1, 24))
def test_equal_speeds_divide_as_if_there_were_none(batch: int, world: int) -> None:
    shares = divide_by_speed(batch=batch, speeds=[1.0] * world)

    assert shares == tuple(divide(batch=batch, rank=rank, world=world) for rank in range(world))
