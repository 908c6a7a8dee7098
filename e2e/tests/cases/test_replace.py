"""How lost pods come back: all of them, soon, once, and without harm to the others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from support.bare import is_running
from support.bare_bed import count_ready, count_verdicts, name_of
from support.bed import on_demand_pool, spot_pool
from world.api import MERGE

if TYPE_CHECKING:
    from support.bare_bed import BareBed, OpenBareBed


@pytest.mark.parametrize(
    ("workers", "deleted"),
    [
        pytest.param(4, 1, id="one of four"),
        pytest.param(4, 4, id="all four"),
        pytest.param(1, 1, id="the only one"),
    ],
)
async def test_b010_deleted_workers_come_back_within_10_s(
    bed: BareBed, workers: int, deleted: int
) -> None:
    await bed.fleet.add("spot", workers)
    job = await bed.start(workers, backoffLimit=0)
    lost = [name_of(index) for index in range(deleted)]
    await asyncio.gather(*(bed.fleet.delete_pod(name) for name in lost))
    await bed.fleet.until_running(*(name_of(index, 2) for index in range(deleted)), within=10.0)
    await job.until(lambda job: job.counter("restarts") == deleted, what="counted")

    assert count_verdicts(job) == (0, deleted, 0)
    assert len(bed.fleet.made) == workers + deleted
    assert job.condition("Failed")["status"] == "False"


async def test_b010_a_worker_deleted_while_the_operator_is_away_comes_back_within_10_s(
    bed: BareBed,
) -> None:
    await bed.fleet.add("spot", 2)
    job = await bed.start(2, backoffLimit=0)
    await job.until(lambda job: count_ready(job) == 2, what="in the status")
    bed.installation.operator.kill()
    await bed.fleet.delete_pod(name_of(1))
    await bed.fleet.until(lambda pods: name_of(1) not in pods, what="gone")
    bed.installation.operator.start()
    await bed.fleet.until_running(name_of(1, 2), within=20.0)  # start of the process included

    assert set(bed.fleet.made) == {name_of(0), name_of(1), name_of(1, 2)}


async def test_b011_news_that_come_late_make_no_pod_twice(open_bed: OpenBareBed) -> None:
    bed = await open_bed(spot_pool("spot", gpus_per_node=8))
    await bed.fleet.add("spot")
    job = await bed.submit(8, suspend=True)
    await job.until_state("Suspended")
    bed.proxy.pod_delay = 3.0
    await job.change(suspend=False)
    for number in range(5):
        await bed.fleet.until(lambda pods: len(pods) == 8, what="eight pods")
        labels = {"metadata": {"labels": {"bumped": str(number)}}}
        await bed.world.api.request("PATCH", job.path, labels, content_type=MERGE)
    await job.until(lambda job: count_ready(job) == 8, what="told of by the watch")

    assert bed.proxy.count("POST", "/pods") == 9  # eight workers and the coordinator
    assert [write for write in bed.proxy.writes if write.method == "DELETE"] == []
    assert sorted(bed.fleet.made) == [name_of(index) for index in range(8)]


async def test_b013_a_job_made_again_while_old_pods_go_is_a_new_job(bed: BareBed) -> None:
    await bed.fleet.add("spot", 3)
    old = await bed.start(3)
    await bed.fleet.set_pod(name_of(0), {"phase": "Failed", "reason": "Terminated"})
    await bed.fleet.until_running(name_of(0, 2))
    await old.until(lambda job: job.counter("revocations") == 1, what="counted")
    for name in (name_of(0, 2), name_of(1), name_of(2)):
        bed.fleet.node_of(name).holds.add(name)  # they use up their grace
    began = old.status["firstStartTime"]
    await old.delete()
    await old.until(lambda job: job.gone, what="gone")
    await bed.fleet.add("spot", 3)
    new = await bed.submit(3)
    fresh = (name_of(0, 3), name_of(1, 2), name_of(2, 2))
    await bed.fleet.until_running(*fresh)
    await new.until(lambda job: count_ready(job) == 3, what="three of its own")
    for name in (name_of(0, 2), name_of(1), name_of(2)):
        await bed.fleet.release(name)
    await bed.fleet.until(lambda pods: set(pods) == set(fresh), what="free of old pods")

    assert count_verdicts(new) == (0, 0, 0)
    assert new.status["firstStartTime"] >= began
    assert new.status["attempts"]["worker-0"] == {"last": 3, "judged": 2}
    assert new.status["replicaStatuses"]["worker"]["active"] == 3


async def test_b013_a_foreign_pod_of_a_workers_name_is_named_and_left_alone(bed: BareBed) -> None:
    await bed.fleet.add("spot", 2)
    body = {
        "metadata": {"name": name_of(0)},
        "spec": {"containers": [{"name": "x", "image": "x", "command": ["sleep", "1000"]}]},
    }
    foreign = await bed.world.api.request("POST", bed.world.path("pods"), body)
    job = await bed.submit(2)
    await job.until_true("Stalled")
    await bed.until_event(name_of(0))

    assert job.condition("Stalled")["reason"] == "NameTaken"
    assert name_of(0) in job.condition("Stalled")["message"]
    path = f"{bed.world.path('pods')}/{name_of(0)}"
    still = await bed.world.api.request("GET", path)
    assert still["metadata"]["uid"] == foreign["metadata"]["uid"]
    assert "ownerReferences" not in still["metadata"]
    tries = [w for w in bed.proxy.writes if w.method == "POST" and w.path.endswith("/pods")]
    assert len(tries) <= 6  # no storm: the coordinator, worker 1, and few tries for worker 0


async def test_b015_a_pod_that_hangs_on_a_lost_node_is_replaced_and_forced_away(
    open_bed: OpenBareBed,
) -> None:
    bed = await open_bed(zombieSeconds=5)
    await bed.fleet.add("spot", 6)
    job = await bed.start(3)
    gone, silent, healthy = (bed.fleet.node_of(name_of(index)) for index in range(3))
    healthy.holds.add(name_of(2))  # uses up its grace: nobody may force it away
    silent.beats = gone.beats = False
    for index in range(3):
        await bed.fleet.delete_pod(name_of(index))
    await bed.fleet.delete(gone.name)
    await bed.fleet.silence(silent.name)
    await bed.fleet.until_running(*(name_of(index, 2) for index in range(3)), within=10.0)
    await bed.fleet.until(
        lambda pods: name_of(0) not in pods and name_of(1) not in pods, what="free of zombies"
    )

    assert name_of(2) in bed.fleet.pods
    assert job.counter("failures") == 0
    assert len(bed.fleet.made) == 6


async def test_b017_thirty_of_32_workers_lost_at_once_are_back_within_15_s(
    open_bed: OpenBareBed,
) -> None:
    bed = await open_bed(spot_pool("spot", gpus_per_node=16))
    await bed.fleet.add("spot", 2)
    job = await bed.start(32)
    await bed.until_marked(32)
    before = len(bed.proxy.done())
    lost = [name_of(index) for index in range(30)]
    await asyncio.gather(*(bed.fleet.delete_pod(name) for name in lost))
    await bed.fleet.until_running(*(name_of(index, 2) for index in range(30)), within=15.0)
    await job.until(lambda job: job.counter("restarts") == 30, what="counted")
    await job.until(lambda job: count_ready(job) == 32, what="ready")

    assert len(bed.fleet.made) == 62
    writes = bed.proxy.done()[before:]
    assert sum(w.method == "POST" and w.path.endswith("/pods") for w in writes) == 30
    assert len(writes) < 200


async def test_b018_a_worker_that_finds_no_node_moves_on_and_leaves_the_others_alone(
    open_bed: OpenBareBed,
) -> None:
    bed = await open_bed(spot_pool("spot"), on_demand_pool("on-demand"), capacityWaitSeconds=3)
    await bed.fleet.add("spot", 3)
    job = await bed.submit(4, minimum=2)
    await bed.fleet.until(lambda pods: sum(map(is_running, pods.values())) == 3, what="3 running")
    [waiting] = [name for name, pod in bed.fleet.pods.items() if not is_running(pod)]
    index = int(waiting.split("-")[2])
    before = {name: pod["metadata"]["uid"] for name, pod in bed.fleet.pods.items()}
    told = f"worker {index} waits for a node in pool spot"
    await job.until(lambda job: told in job.condition("Running").get("message", ""), what="told")
    await bed.fleet.until(lambda pods: name_of(index, 2) in pods, what="planned again")
    await bed.fleet.until(lambda pods: waiting not in pods, what="withdrawn")
    await bed.until_event(f"worker {index} found no node in pool spot", "it tries pool on-demand")
    await job.until(lambda job: job.condition("Running")["reason"] == "NoCapacity", what="told")
    await bed.fleet.add("on-demand")
    await bed.fleet.until_running(name_of(index, 2))

    after = {name: pod["metadata"]["uid"] for name, pod in bed.fleet.pods.items()}
    assert {name: uid for name, uid in before.items() if name != waiting}.items() <= after.items()
    assert len(after) == 4
    assert count_verdicts(job) == (0, 0, 0)
