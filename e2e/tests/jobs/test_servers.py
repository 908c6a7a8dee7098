"""The digits on parameter servers: workers and servers are lost, and change in number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.outcome import check_whole
from world.recoveries import ask_coordinator

if TYPE_CHECKING:
    from support.bed import Bed
    from world.training import Training

SERVED: dict[str, Any] = {"strategy": "ParameterServer", "parameterServer": {"replicas": 2}}
STEPS = 400
GOOD = 0.95  # of the pictures; the example alone comes to 0.98


async def test_b078_training_goes_on_through_the_loss_of_a_worker_and_of_a_server(
    bed: Bed,
) -> None:
    job = await bed.train(workers=(1, 2), steps=STEPS, pause=0.1, **SERVED)
    await job.until(lambda job: _is_whole(job, servers=2), what="whole")
    await job.until_step(40)
    [machine] = await job.machines()
    bed.world.revoke("gke-spot", node=machine.name)
    await job.until(lambda job: job.counter("revocations") == 1, what="counted")
    server = f"{bed.world.path('pods')}/digits-server-1-1"
    await bed.world.api.request("DELETE", server, gracePeriodSeconds="0")
    await job.until(
        lambda job: _attempts(job, "server-1") == 2 and _is_whole(job, servers=2), what="made good"
    )
    report = await ask_coordinator(job)
    on_spot = {m.name for m in await job.machines()}
    nodes = {pod["spec"]["nodeName"] for pod in await job.pods("server")}
    await job.until_over()

    check_whole(job, revocations=1)
    assert job.counter("restarts") == 1
    assert job.result["accuracy"] > GOOD
    assert report is not None
    assert report.work is not None
    assert (report.work.servers, report.work.max_staleness) == (2, None)
    assert not on_spot & nodes
    await job.until(lambda job: _num_servers(job) == 0, what="without servers")


async def test_the_number_of_servers_changes_and_a_suspended_job_goes_on_where_it_was(
    bed: Bed,
) -> None:
    job = await bed.train(workers=(2, 2), steps=150, pause=0.3, **SERVED)
    await job.until(lambda job: _is_whole(job, servers=2), what="whole")
    await job.until_step(10)
    await job.change(parameterServer={"replicas": 3})
    await job.until(lambda job: _is_whole(job, servers=3), what="with three servers")
    await job.change(suspend=True, parameterServer={"replicas": 1})
    await job.until_state("Suspended")
    left = job.step
    pods = [*await job.pods("server"), *await job.pods("coordinator")]
    await job.change(suspend=False)
    await job.until_over()

    check_whole(job, revocations=0)
    assert pods == []
    assert 10 <= left < 150
    assert _attempts(job, "server-0") == 2
    assert _attempts(job, "server-1") == 1
    assert job.counter("restarts") == 0
    assert job.result["accuracy"] > 0.9


def _is_whole(job: Training, *, servers: int) -> bool:
    train = job.status.get("replicas", {}).get("ready") == 2
    ready = job.status.get("replicaStatuses", {}).get("server", {}).get("ready")
    return bool(train and ready == servers)


def _num_servers(job: Training) -> int:
    return int(job.status["replicaStatuses"]["server"]["active"])


def _attempts(job: Training, key: str) -> int:
    return int(job.status["attempts"].get(key, {}).get("last", 0))
