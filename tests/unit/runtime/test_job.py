"""What a script holds: the same objects, and clear words for misuse."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from ebbtide.runtime.environment import Place
from ebbtide.runtime.errors import UsageError
from ebbtide.runtime.job import Job
from ebbtide.runtime.joining import link_to_nobody


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    place = Place(
        job="ns/j",
        worker="j-worker-0-1",
        index=0,
        attempt=1,
        local_rank=0,
        processes=1,
        address="127.0.0.1",
        coordinator="127.0.0.1:9",
        token_file="",
        checkpoint_path=str(tmp_path),
    )
    links = link_to_nobody(place)
    yield Job(links)
    links.group.close()


def make_parts() -> tuple[nn.Linear, torch.optim.SGD]:
    model = nn.Linear(2, 1)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def test_a_process_without_a_gpu_of_its_own_computes_on_the_cpu(job: Job) -> None:
    assert job.device == torch.device("cpu")


def test_wrapping_gives_the_same_objects_back(job: Job) -> None:
    model, optimizer = make_parts()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1)

    assert job.wrap(model, optimizer, scheduler) == (model, optimizer, scheduler)
    assert isinstance(scheduler, torch.optim.lr_scheduler.StepLR)
    assert "step" not in scheduler.state_dict()


@pytest.mark.parametrize("scheduler_first", [True, False])
def test_schedulers_made_before_or_after_warn_about_nothing(
    job: Job, *, scheduler_first: bool
) -> None:
    model, optimizer = make_parts()
    if scheduler_first:
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1)
        job.wrap(model, optimizer, scheduler)
    else:
        job.wrap(model, optimizer)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1)

    for _ in range(2):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        scheduler.step()

    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.001)


def test_before_the_loop_a_job_is_one_rank_at_step_zero(job: Job) -> None:
    assert (job.rank, job.world_size, job.step, job.is_chief) == (0, 1, 0, False)


def test_misuse_is_named(job: Job) -> None:
    model, optimizer = make_parts()
    data = job.shard([1.0, 2.0])
    with pytest.raises(UsageError, match=r"call wrap\(model, optimizer\) first"):
        next(iter(job.steps(data)))
    with pytest.raises(UsageError, match="call wrap"):
        job.track(x=torch.zeros(1))
    with pytest.raises(UsageError, match="inside the loop"):
        job.all_reduce(torch.zeros(1))

    job.wrap(model, optimizer)

    with pytest.raises(UsageError, match="called twice"):
        job.wrap(model, optimizer)
    with pytest.raises(UsageError, match=r"takes what shard\(\) returned"):
        next(iter(job.steps([1, 2])))  # type: ignore[arg-type]  # what a script might do


def test_state_that_cannot_be_saved_is_named_before_the_first_step(job: Job) -> None:
    class Odd:
        def state_dict(self) -> dict[str, object]:
            return {"pool": object()}

        def load_state_dict(self, state: object) -> None:
            raise NotImplementedError

    job.wrap(*make_parts())
    job.track(odd=Odd())

    with pytest.raises(UsageError, match=r"tracked\.odd\.pool is a object"):
        next(iter(job.steps(job.shard([1.0]))))
