"""Training with parameter servers: real processes, of which some are lost."""

import json
import statistics
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from ebbtide.runtime.checkpoint import Shelf
from ebbtide.runtime.sharding import Order
from ebbtide.wire import names
from ebbtide.wire.messages import Report
from support import served_run
from support.processes import Fault, Job

from .conftest import DIGITS, MakeJob

SERVED_RUN = Path(__file__).parents[1] / "support" / "served_run.py"
PAUSE = ("--pause", "0.01")
ALONE = 0.9889  # what one process reaches on the digits in 400 steps, mean of three seeds


@pytest.fixture
def make(make_job: MakeJob) -> MakeJob:
    """Make jobs of two workers and two servers that take 120 steps, or as the keywords say."""

    def make(*arguments: str, **work: Any) -> Job:
        fields = {"servers": 2, "steps": 120, "global_batch_size": 16, "min_replicas": 1, **work}
        return make_job(*arguments, script=SERVED_RUN, **fields)

    return make


def steps_of(job: Job) -> Counter[int]:
    """How often each step was pushed by somebody who lived to say so."""
    lines = (job.folder / "steps").read_text().splitlines()
    return Counter(int(line.split()[0]) for line in lines)


def losses_of(job: Job) -> set[float]:
    return {round(result["loss"], 6) for result in job.results().values()}


def final_loss(job: Job) -> float:
    losses = losses_of(job)
    assert len(losses) == 1
    return losses.pop()


def codes(job: Job) -> list[int | None]:
    return [job.await_code(server) for server in job.servers.values()]


def test_all_steps_are_pushed_once_and_everybody_ends_with_one_model(make: MakeJob) -> None:
    job = make(*PAUSE)

    job.start(workers=2)
    job.await_done()

    assert steps_of(job) == Counter(range(120))
    assert all(result["pushed"] for result in job.results().values())
    assert final_loss(job) < 0.2
    assert codes(job) == [names.EXIT_DONE, names.EXIT_DONE]


@pytest.mark.parametrize("optimizer", ["SGD", "Adagrad"])
@pytest.mark.parametrize("share", ["1", "0"], ids=["shared memory", "connections"])
def test_one_worker_and_three_servers_end_where_torch_does(
    make: MakeJob, optimizer: str, share: str
) -> None:
    job = make("--rows", "--optimizer", optimizer, servers=3, steps=40, desired=1)

    job.start_coordinator()
    for index in range(3):
        job.start_server(index, EBBTIDE_SHARE_MEMORY=share)
    job.await_code(job.start_worker(0))

    assert final_loss(job) == pytest.approx(plain_loss(optimizer, steps=40), rel=1e-4)


def plain_loss(kind: str, *, steps: int) -> float:
    """The loss after as many steps of plain torch."""
    torch.manual_seed(0)
    model = served_run.Net(width=served_run.WIDTH, rows=True)
    optimizer = getattr(torch.optim, kind)(model.parameters(), lr=0.05)
    data = served_run.make_data()
    order = Order(seed=5, samples=len(data))
    with torch.sparse.check_sparse_tensor_invariants():
        for step in range(steps):
            rows = torch.from_numpy(order.take(start=step * 16, count=16))
            x, kind_of_row, answer = (tensor[rows] for tensor in data.tensors)
            optimizer.zero_grad()
            (model(x, kind_of_row) - answer).square().mean().backward()
            optimizer.step()
    x, kind_of_row, answer = data.tensors
    return float((model(x, kind_of_row) - answer).square().mean().detach())


@pytest.mark.parametrize("place", ["compute", "applied"])
def test_a_worker_that_is_killed_loses_nothing(make: MakeJob, place: str) -> None:
    fault = Fault(worker="test-worker-1-1", step=30, action="kill", where=place)
    job = make(*PAUSE, faults=[fault, *(_at(fault, step) for step in range(31, 40))])

    survivor, lost = job.start(workers=2)
    job.await_code(lost)
    job.await_code(survivor)

    assert job.fired()
    assert steps_of(job) == Counter(range(120))
    assert job.report().steps_redone == 0
    assert final_loss(job) < 0.2


def _at(fault: Fault, step: int) -> Fault:
    return Fault(worker=fault.worker, step=step, action=fault.action, where=fault.where)


def test_a_worker_that_comes_later_takes_its_share(make: MakeJob) -> None:
    job = make("--pause", "0.02", desired=2)

    first = job.start(workers=1)[0]
    job.await_step(10)
    job.start_worker(1)
    job.await_code(first)
    job.await_done()

    assert steps_of(job) == Counter(range(120))
    assert len(job.results()["test-worker-1-1-0"]["pushed"]) > 5


def test_a_worker_told_to_go_leaves_after_its_step(make: MakeJob) -> None:
    job = make("--pause", "0.02")

    first, second = job.start(workers=2)
    job.await_step(10)
    second.terminate()

    assert job.await_code(second) == names.EXIT_LEFT
    job.await_code(first)
    assert steps_of(job) == Counter(range(120))
    assert job.report().steps_redone == 0


def test_b076_a_worker_that_was_frozen_and_returns_pushes_nothing_old(make: MakeJob) -> None:
    fault = Fault(worker="test-worker-1-1", step=30, action="stop")
    job = make(*PAUSE, faults=[fault, *(_at(fault, step) for step in range(31, 36))])

    survivor, frozen = job.start(workers=2)
    job.await_code(survivor)

    assert steps_of(job) == Counter(range(120))
    assert final_loss(job) < 0.2
    frozen.kill()


def test_the_loss_goes_on_falling_when_a_server_is_killed(make: MakeJob) -> None:
    job = make("--pause", "0.02", steps=200, checkpoint_interval=0.5)

    job.start(workers=2)
    job.await_step(60)
    job.servers["test-server-1-1"].kill()
    job.await_step(100)
    job.start_server(1, attempt=2)
    job.await_done()

    assert final_loss(job) < 0.2
    assert job.report().steps_redone == 0
    assert set(steps_of(job)) == set(range(200))
    assert "map" in job.servers["test-server-0-1"].said()


def test_the_lead_may_be_lost_too(make: MakeJob) -> None:
    job = make("--pause", "0.02", steps=200)

    job.start(workers=2)
    job.await_step(60)
    job.servers["test-server-0-1"].kill()
    job.await_done()

    assert final_loss(job) < 0.2
    assert job.report().steps_redone == 0
    assert set(steps_of(job)) == set(range(200))


def test_b078_when_all_servers_are_lost_the_workers_parameters_count(make: MakeJob) -> None:
    job = make("--pause", "0.02", steps=200, checkpoint_interval=0.5)

    job.start(workers=2)
    job.await_step(60)
    for server in list(job.servers.values()):
        server.kill()
    for index in range(2):
        job.start_server(index, attempt=2)
    job.await_done()

    assert final_loss(job) < 0.2
    assert job.report().steps_redone == 0
    assert set(steps_of(job)) == set(range(200))
    assert "from workers" in job.servers["test-server-0-2"].said()


@pytest.mark.parametrize(("before", "after"), [(1, 2), (3, 2), (2, 3)])
def test_b078_the_number_of_servers_changes_without_losing_a_step(
    make: MakeJob, before: int, after: int
) -> None:
    job = make("--pause", "0.01", steps=200, servers=before)

    job.start(workers=2)
    job.await_step(40)
    for index in range(before, after):
        job.start_server(index)
    job.call("configure", work=job.work_with(servers=after))
    job.await_report(
        lambda report: sum(server.in_map for server in report.servers) == after, "the new map"
    )
    job.await_done()

    # What was in flight may be computed by two; the servers apply it once.
    assert set(steps_of(job)) == set(range(200))
    assert steps_of(job).total() <= 202
    assert job.report().steps_redone == 0
    assert final_loss(job) < 0.2


def test_a_server_told_to_go_hands_its_part_over_first(make: MakeJob) -> None:
    job = make("--pause", "0.02", steps=200)

    job.start(workers=2)
    job.await_step(40)
    job.servers["test-server-1-1"].terminate()

    assert job.await_code(job.servers["test-server-1-1"]) == names.EXIT_LEFT
    job.await_done()
    assert set(steps_of(job)) == set(range(200))
    assert job.report().steps_redone == 0


def test_b078_after_a_total_loss_all_parts_are_of_the_checkpoint(make: MakeJob) -> None:
    job = make("--pause", "0.02", steps=200, checkpoint_interval=0.3)

    job.start(workers=2)
    job.await_report(lambda report: report.checkpoint_step > 20, "a checkpoint")
    for process in (*job.workers.values(), *job.servers.values()):
        process.kill()
        job.await_code(process)
    saved = Shelf(str(job.checkpoints), owner="test").newest_step()
    for index in range(2):
        job.start_server(index, attempt=2)
        job.start_worker(index, attempt=2)
    job.await_done()

    report = job.report()
    assert report.resumed_step == saved
    assert report.steps_redone > 0
    assert final_loss(job) < 0.2


def test_cm_dare_check_21_duty_goes_to_a_living_worker_and_nothing_is_rolled_back(
    make: MakeJob,
) -> None:
    job = make("--pause", "0.03", steps=600, checkpoint_interval=0.5, desired=3)

    job.start(workers=3)
    former = ""
    for _ in range(2):
        report = job.await_report(partial(_has_other_duty, former), "duty of another")
        former = report.duty
        job.workers[former].kill()
        job.await_report(partial(_has_saved_after, report.checkpoint_step), "the next checkpoint")
    job.await_done()

    report = job.report()
    assert report.finished
    assert report.steps_redone == 0
    assert report.resumed_generation == 0
    assert len(set(steps_of(job))) >= 598  # the two that were killed may not have said their last


def _has_other_duty(former: str, report: Report) -> bool:
    return bool(report.duty) and report.duty != former


def _has_saved_after(step: int, report: Report) -> bool:
    return report.checkpoint_step > step


def test_either_strategy_goes_on_from_the_others_checkpoint(make: MakeJob) -> None:
    job = make(*PAUSE, steps=40)
    job.start(workers=2)
    job.await_done()
    saved = Shelf(str(job.checkpoints), owner="test").load()
    assert saved is not None

    other = make(*PAUSE, steps=80, servers=0, min_replicas=2)
    _copy(job, other)
    other.start(workers=2)
    other.await_done()
    third = make(*PAUSE, steps=120, servers=3)
    _copy(other, third)
    third.start(workers=1)
    third.await_done()

    assert other.report().resumed_step == 40
    assert third.report().resumed_step == 80
    assert steps_of(third) == Counter(range(80, 120))
    weights = saved.tree["model"]["first.weight"]
    assert isinstance(weights, torch.Tensor)
    assert weights.shape == (8, 8)


def _copy(source: Job, target: Job) -> None:
    source.checkpoints.rename(target.checkpoints)


def test_a_script_with_another_model_is_refused_by_name(make: MakeJob) -> None:
    job = make("--pause", "0.05", desired=2)

    first = job.start(workers=1)[0]
    job.await_step(5)
    job.arguments = ["--width", "9"]
    other = job.start_worker(1)

    assert job.await_code(other) not in {0, names.EXIT_LEFT}
    assert "first.weight has the shape [9, 8] here and [8, 8] there" in other.said()
    first.kill()


def test_b076_with_a_bound_no_gradient_is_older(make: MakeJob) -> None:
    job = make(*PAUSE, desired=3, max_staleness=1)

    job.start(workers=3)
    job.await_done()

    assert steps_of(job) == Counter(range(120))
    assert final_loss(job) < 0.2


@pytest.mark.timeout(300)  # four hundred steps of a convolution, up to three times
@pytest.mark.parametrize(
    ("workers", "servers", "runs"),
    [(1, 1, 1), (1, 2, 1), (2, 1, 2), (2, 2, 2), (4, 1, 3), (4, 2, 3)],
)
def test_digits_are_learned_within_a_point_of_one_process(
    make_job: MakeJob, workers: int, servers: int, runs: int
) -> None:
    # No two runs of several workers are alike, and a point is four of the pictures: their mean.
    found = [learn_digits(make_job, workers=workers, servers=servers) for _ in range(runs)]

    assert statistics.mean(found) >= ALONE - 0.01, found


def learn_digits(make_job: MakeJob, *, workers: int, servers: int) -> float:
    """Train the example; return its accuracy on pictures it has not seen."""
    job = make_job(
        script=DIGITS,
        steps=400,
        global_batch_size=64,
        min_replicas=workers,
        desired=workers,
        servers=servers,
    )
    job.start(workers=workers)
    for step in (100, 200, 300):
        job.await_step(step)
    job.await_done()
    return accuracy_of(job)


def accuracy_of(job: Job) -> float:
    return float(json.loads((job.checkpoints / "result.json").read_text())["accuracy"])
