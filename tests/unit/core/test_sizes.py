"""The numbers of workers that a job may have."""

from datetime import timedelta

import pytest

from ebbtide.core.lifecycle.coordination import work_of
from ebbtide.core.planner.fixed_size import fix_size
from ebbtide.core.values.objective import PlanMode
from ebbtide.core.values.settings import Settings
from support.builders import ON_DEMAND, SPOT, make_job


@pytest.mark.parametrize(
    ("changes", "sizes"),
    [
        pytest.param({}, (2, 3, 4, 5, 6, 7), id="every number between the limits"),
        pytest.param({"replica_increment_step": 2}, (2, 4, 6), id="steps from the least on"),
        pytest.param({"replica_increment_step": 9}, (2,), id="a step beyond the limits"),
        pytest.param({"replica_discrete_values": (8, 4, 2, 1)}, (2, 4), id="a list, cut to limits"),
        pytest.param({"replica_discrete_values": (4, 4)}, (4,), id="a value twice"),
    ],
)
def test_legal_sizes_ascend(changes: dict[str, object], sizes: tuple[int, ...]) -> None:
    assert make_job(min_replicas=2, max_replicas=7, **changes).sizes() == sizes


def test_manual_runs_the_size_that_the_user_gave() -> None:
    job = make_job(min_replicas=1, max_replicas=8, plan_mode=PlanMode.MANUAL, replicas=3)

    assert fix_size(job, [SPOT, ON_DEMAND]).desired == 3


def test_the_largest_legal_size_is_run_until_something_better_is_known() -> None:
    job = make_job(min_replicas=1, max_replicas=8, replica_increment_step=3)

    assert fix_size(job, [SPOT, ON_DEMAND]).desired == 7


@pytest.mark.parametrize(
    ("interval", "seconds"),
    [
        pytest.param(None, 60.0, id="Auto without a plan"),
        pytest.param(timedelta(seconds=5), 5.0, id="given"),
    ],
)
def test_the_trainer_is_told_a_checkpoint_interval(
    interval: timedelta | None, seconds: float
) -> None:
    job = make_job(checkpoint_interval=interval)

    assert work_of(job, desired=2, settings=Settings()).checkpoint_interval == seconds
