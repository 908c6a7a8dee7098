"""Laws of lives, intervals and ends of training."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.core.models import checkpoint_interval, goodput, training_time
from ebbtide.core.models.survival import Survival

SECONDS = st.floats(1.0, 1e6)
FALLS = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30)


def lives_of(falls: list[float], *, unit_s: float = 60.0) -> Survival:
    """Of those that live, a share falls in each unit; somebody lives on, so that work can end."""
    survival = np.cumprod(np.append(1.0, 1 - 0.3 * np.array(falls)))
    return Survival(unit_s=unit_s, alive=survival)


@given(falls=FALLS, ages=st.lists(st.floats(0, 1e5), min_size=2, max_size=20))
def test_survival_falls_from_one_and_its_area_grows(falls: list[float], ages: list[float]) -> None:
    lives, ordered = lives_of(falls), np.sort(np.array([0.0, *ages]))

    alive, area = lives.at(ordered), lives.area(ordered)

    assert alive[0] == 1
    assert (np.diff(alive) <= 1e-12).all()
    assert alive[-1] >= 0
    assert area[0] == 0
    assert (np.diff(area) >= -1e-6).all()
    assert (area <= ordered + 1e-6).all()


@given(save=SECONDS, mean=SECONDS)
def test_the_exact_interval_is_between_nothing_and_young(save: float, mean: float) -> None:
    case = {"save_s": save, "between_failures_s": mean}

    exact = checkpoint_interval.exact(**case)

    assert 0 < exact <= checkpoint_interval.young(**case) * (1 + 1e-6)
    assert exact <= mean * (1 + 1e-9)


@settings(max_examples=40)
@given(falls=FALLS, interval=st.integers(1, 12), save=st.floats(0, 30), restart=st.floats(0, 500))
def test_losses_only_prolong_and_the_plan_by_age_is_at_least_as_good(
    falls: list[float], interval: int, save: float, restart: float
) -> None:
    lives, save = lives_of(falls), save + 1
    case = {"work_s": 720.0, "save_s": save, "restart_s": restart}

    fixed = training_time.of_lives(lives, interval_s=60.0 * interval, **case)

    assert fixed >= (720 + save * -(-12 // interval)) * (1 - 1e-9)
    # ages between those of the grid are read between its values: a small difference
    best = checkpoint_interval.plan_by_age(lives, **case).expected_s
    assert best <= fixed * 1.02


@settings(max_examples=40)
@given(falls=FALLS, replace=st.floats(0, 2000), work=st.floats(60, 3000))
def test_the_share_that_trains_is_a_share_and_slower_replacement_never_helps(
    falls: list[float], replace: float, work: float
) -> None:
    lives = lives_of(falls)

    share = training_time.availability(lives, replace_s=replace, until_s=work)

    assert ((share >= 0) & (share <= 1)).all()
    ends = [training_time.of_cluster(lives, work_s=work, replace_s=r) for r in (0.0, replace)]
    assert work * (1 - 1e-9) <= ends[0] <= ends[1] * (1 + 1e-6)


@given(batch=st.floats(1, 1e6), more=st.floats(1, 10), noise=st.floats(0, 1e7))
def test_a_larger_batch_never_learns_more_per_sample_nor_less_per_step(
    batch: float, more: float, noise: float
) -> None:
    small, large = goodput.efficiency([batch, batch * more], first_batch=1, noise=noise)

    assert 0 < large <= small * (1 + 1e-12)
    assert large * more >= small * (1 - 1e-12)
