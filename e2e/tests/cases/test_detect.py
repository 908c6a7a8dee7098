"""How the end of a pod is told from a failure, on Nodes and Pods as the cluster writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from support.bare import is_running
from support.bare_bed import count_verdicts, name_of
from support.bare_status import failed_init, lost, rejected, running, starting
from support.bed import spot_pool
from support.outcome import check_history
from world.cloud.pool import Provider

if TYPE_CHECKING:
    from support.bare_bed import BareBed, OpenBareBed
    from world.training import Training


@dataclass(frozen=True, slots=True)
class Loss:
    """One way in which a pod ends, and what it counts as."""

    reason: str
    disruption: str
    revocations: int
    restarts: int
    tainted: bool = False


LOSSES = [
    Loss("Terminated", "TerminationByKubelet", revocations=1, restarts=0),  # (a)
    Loss("Evicted", "", revocations=0, restarts=1),  # (b)
    Loss("NodeShutdown", "", revocations=1, restarts=0),  # (c)
    Loss("Shutdown", "", revocations=1, restarts=0),  # (d)
    Loss("Preempting", "", revocations=0, restarts=1),  # (e)
    Loss("", "PreemptionByScheduler", revocations=0, restarts=1),  # (f)
    Loss("", "DeletionByTaintManager", revocations=0, restarts=1),  # (g), any taint
    Loss("", "DeletionByTaintManager", revocations=1, restarts=0, tainted=True),  # (g), going away
    Loss("", "DeletionByPodGC", revocations=1, restarts=0),  # (h)
]


async def test_b001_each_loss_is_told_from_a_failure_and_made_good_within_10_s(
    bed: BareBed,
) -> None:
    await bed.fleet.add("spot", 4)
    job = await bed.start(3, backoffLimit=0)
    for number, loss in enumerate(LOSSES):
        await _lose(bed, job, index=number % 3, attempt=1 + number // 3, loss=loss)

    assert count_verdicts(job) == (5, 4, 0)
    assert job.condition("Failed")["status"] == "False"
    check_history(job)


async def _lose(bed: BareBed, job: Training, *, index: int, attempt: int, loss: Loss) -> None:
    revocations, restarts, _ = count_verdicts(job)
    name, successor = name_of(index, attempt), name_of(index, attempt + 1)
    node = bed.fleet.node_of(name)
    if loss.tainted:
        await bed.fleet.mark(node.name, node.pool.warning_taint("spot-itn"), cordon=True)
        await bed.fleet.until(lambda pods: successor in pods, what="a replacement beside it")
    await bed.fleet.set_pod(name, lost(reason=loss.reason, disruption=loss.disruption))
    await bed.fleet.until_running(successor, within=10.0)
    expected = (revocations + loss.revocations, restarts + loss.restarts, 0)
    await job.until(lambda job: count_verdicts(job) == expected, what=f"counted: {loss}")
    cause = loss.disruption or loss.reason
    await bed.until_event(f"worker-{index} attempt {attempt} ", cause)
    await bed.fleet.until(
        lambda pods: all(sum(_is_dead_of(pod, i) for pod in pods.values()) <= 1 for i in range(3)),
        what="at most one dead pod for each index",
    )
    await bed.fleet.mark(node.name, cordon=False)


def _is_dead_of(pod: dict[str, dict[str, object]], index: int) -> bool:
    name = str(pod["metadata"]["name"])
    return pod["status"].get("phase") == "Failed" and name.startswith(f"digits-worker-{index}-")


async def test_b002_a_node_deleted_without_a_word_is_one_revocation(bed: BareBed) -> None:
    await bed.fleet.add("spot", 3)
    job = await bed.start(2)
    await bed.fleet.delete(bed.fleet.node_of(name_of(1)).name)
    await bed.fleet.until_running(name_of(1, 2))
    await bed.fleet.until(lambda pods: name_of(1) not in pods, what="free of the zombie")

    assert count_verdicts(job) == (1, 0, 0)
    assert name_of(0, 2) not in bed.fleet.made


@pytest.mark.parametrize("away", ["shorter than nodeLostSeconds", "longer than nodeLostSeconds"])
async def test_b002_a_node_back_from_another_boot_is_one_revocation(
    bed: BareBed, away: str
) -> None:
    await bed.fleet.add("spot", 3)
    job = await bed.start(2)
    node = bed.fleet.node_of(name_of(1))
    await bed.until_marked(2)
    await bed.fleet.silence(node.name)
    if away.startswith("longer"):
        await job.until(lambda job: job.counter("revocations") == 1, what="counted")
    node.holds.add(name_of(1))  # its kubelet starts the containers again before it reads the news
    await bed.fleet.reboot(node.name)
    [resumed] = running(bed.fleet.pods[name_of(1)])["containerStatuses"]
    await bed.fleet.set_pod(name_of(1), {"containerStatuses": [{**resumed, "restartCount": 1}]})
    await bed.fleet.until_running(name_of(1, 2))
    await bed.fleet.until(lambda pods: _is_told_to_go(pods[name_of(1)]), what="told to go")
    await bed.fleet.release(name_of(1))
    await bed.fleet.until(lambda pods: name_of(1) not in pods, what="gone")

    assert count_verdicts(job) == (1, 0, 0)
    assert name_of(1, 3) not in bed.fleet.made


def _is_told_to_go(pod: dict[str, dict[str, object]]) -> bool:
    return "deletionTimestamp" in pod["metadata"]


async def test_b003_a_job_recovers_from_the_loss_itself_and_not_from_its_survivors_failing(
    bed: BareBed,
) -> None:
    await bed.fleet.add("spot", 4)
    bed.train()
    job = await bed.submit(4, minimum=2, steps=100_000)
    await job.until(lambda job: job.status.get("generation", {}).get("members") == 4, what="four")
    before = job.status["generation"]["number"]
    await bed.fleet.delete(bed.fleet.node_of(name_of(2)).name)
    await job.until(
        lambda job: (
            job.status["state"] == "Recovering"
            and job.status["generation"]["members"] == 3
            and job.status["generation"]["number"] > before
        ),
        what="three in a new generation, and told",
        timeout=60.0,
    )

    assert job.status["display"]["ready"] == "3/4"
    assert count_verdicts(job) == (1, 0, 0)
    assert all(is_running(bed.fleet.pods[name_of(index)]) for index in (0, 1, 3))


async def test_b004_nodes_lost_under_init_containers_never_fail_a_job(bed: BareBed) -> None:
    await bed.fleet.add("spot", 2)
    for node in bed.fleet.nodes.values():
        node.behaviour = starting
    job = await bed.submit(1, init=True, backoffLimit=0)
    for attempt in (1, 2, 3):
        await _until_initializing(bed, name_of(0, attempt))
        [fresh] = await bed.fleet.add("spot")
        fresh.behaviour = starting
        await bed.fleet.delete(bed.fleet.node_of(name_of(0, attempt)).name)
        await _until_revoked(job, attempt)
    await bed.fleet.until(lambda pods: name_of(0, 4) in pods, what="a fourth try")

    assert count_verdicts(job) == (3, 0, 0)
    assert job.condition("Failed")["status"] == "False"


async def _until_initializing(bed: BareBed, name: str) -> None:
    await bed.fleet.until(
        lambda pods: name in pods and "initContainerStatuses" in pods[name]["status"],
        what=f"{name} in its init container",
    )


async def _until_revoked(job: Training, times: int) -> None:
    await job.until(lambda job: job.counter("revocations") == times, what="counted")


async def test_b004_an_init_container_that_always_exits_1_fails_the_job_and_says_why(
    bed: BareBed,
) -> None:
    await bed.fleet.add("spot", 2)
    for node in bed.fleet.nodes.values():
        node.behaviour = failed_init
    job = await bed.submit(1, init=True, backoffLimit=1)
    await job.until_state("Failed", timeout=60)

    message = job.condition("Failed")["message"]
    assert job.condition("Failed")["reason"] == "BackoffLimitExceeded"
    assert "container data exited 1" in message
    assert "no such data set: gs://nowhere" in message
    assert count_verdicts(job) == (0, 0, 2)
    assert list(bed.fleet.made) == [name_of(0, 1), name_of(0, 2)]


async def test_b005_a_node_that_admits_no_pod_is_fed_slower_and_slower(bed: BareBed) -> None:
    [node] = await bed.fleet.add("spot")
    node.behaviour = rejected
    job = await bed.submit(1, backoffLimit=0)
    await bed.fleet.until(lambda pods: name_of(0, 4) in pods, what="a fourth try", within=20.0)
    times = [bed.fleet.made[name_of(0, attempt)] for attempt in (1, 2, 3, 4)]
    await job.until(lambda job: job.counter("restarts") >= 3, what="counted")

    assert times[2] - times[1] > 1.0
    assert times[3] - times[2] > 2.0
    assert bed.fleet.most_dead <= 5
    assert job.counter("revocations") == job.counter("failures") == 0
    assert job.condition("Failed")["status"] == "False"


async def test_b005_a_job_recovers_when_another_node_comes(bed: BareBed) -> None:
    [node] = await bed.fleet.add("spot")
    node.behaviour = rejected
    job = await bed.submit(1, backoffLimit=0)
    await bed.fleet.until(lambda pods: name_of(0, 2) in pods, what="a second try")
    await bed.fleet.mark(node.name, cordon=True)  # by hand: the operator avoids no node by itself
    await bed.fleet.add("spot")
    await bed.fleet.until(
        lambda pods: any(is_running(pod) for pod in pods.values()), what="running elsewhere"
    )

    assert job.counter("revocations") == job.counter("failures") == 0
    assert bed.fleet.most_dead <= 5


@pytest.mark.parametrize("provider", list(Provider))
async def test_b007_a_warned_worker_gets_a_replacement_and_counts_only_if_it_goes(
    open_bed: OpenBareBed, provider: Provider
) -> None:
    bed = await open_bed(spot_pool("spot", provider=provider))
    await bed.fleet.add("spot", 3)
    job = await bed.start(2)
    node = bed.fleet.node_of(name_of(0))
    warning = node.pool.warning_taint("spot-itn")

    await bed.fleet.mark(node.name, warning, cordon=True)
    await bed.fleet.until_running(name_of(0, 2))
    assert bed.fleet.node_of(name_of(0, 2)) is not node
    assert is_running(bed.fleet.pods[name_of(0)])
    await bed.fleet.mark(node.name, cordon=False)  # a false alarm
    await bed.fleet.until(lambda pods: name_of(0, 2) not in pods, what="the spare released")
    assert count_verdicts(job) == (0, 0, 0)

    await bed.fleet.mark(node.name, warning, cordon=True)
    await bed.fleet.until_running(name_of(0, 3))
    await bed.fleet.delete(node.name)
    await job.until(lambda job: count_verdicts(job) == (1, 0, 0), what="counted")
    await bed.fleet.until(lambda pods: name_of(0) not in pods, what="free of the zombie")
    assert all(is_running(bed.fleet.pods[name]) for name in (name_of(1), name_of(0, 3)))
    assert len(bed.fleet.made) == 4
