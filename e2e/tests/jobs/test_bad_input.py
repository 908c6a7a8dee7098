"""What users get wrong: each ends in a condition that they understand, none hangs in silence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from world.installation import CONTENTS
from world.kubelet import Images
from world.training import provide_claim

if TYPE_CHECKING:
    from support.bed import Bed, OpenBed


async def test_no_capacity_is_told_and_is_not_a_failure(open_bed: OpenBed) -> None:
    bed = await open_bed()
    for pool in ("spot", "on-demand"):
        bed.world.cloud.set_available(pool, 0)
    job = await bed.train()
    await job.until(lambda job: job.condition("Running").get("reason") == "NoCapacity", what="told")

    assert "waits for a node in pool" in job.condition("Running")["message"]
    assert job.condition("Stalled") == {}
    assert job.condition("Reconciling")["status"] == "True"
    assert job.status["state"] == "Starting"

    for pool in ("spot", "on-demand"):
        bed.world.cloud.set_available(pool, None)
    await job.until_over()
    assert job.counter("failures") == 0


async def test_b061_an_image_that_cannot_be_pulled_stalls_the_job_and_frees_its_nodes(
    open_bed: OpenBed,
) -> None:
    bed = await open_bed(images=Images(unpullable={"*/nothing:*"}, contents=CONTENTS))
    job = await bed.train(container={"image": "registry.example/nothing:1"})
    await job.until_true("Stalled")

    assert job.condition("Stalled")["reason"] == "ImagePullFailed"
    assert "registry.example/nothing:1" in job.condition("Stalled")["message"]
    assert job.condition("Running")["reason"] == "ImagePullFailed"
    await job.until(lambda job: job.status["replicaStatuses"]["worker"]["active"] == 0, what="free")
    assert job.condition("Failed")["status"] == "False"


async def test_b004_a_script_that_exits_1_ends_in_failed_with_its_last_words(bed: Bed) -> None:
    job = await bed.train(workers=(1, 1), backoffLimit=1, options=("--fail-at", "5"))
    await job.until_state("Failed")

    failed = job.condition("Failed")
    assert failed["reason"] == "BackoffLimitExceeded"
    assert "told to fail at step 5" in failed["message"]
    assert job.counter("failures") == 2
    assert job.counter("revocations") == 0
    assert job.condition("Stalled")["reason"] == "Failed"


async def test_exit_0_before_the_work_is_done_is_called_unfinished(bed: Bed) -> None:
    job = await bed.train(
        workers=(1, 1), backoffLimit=0, container={"command": ["python", "-c", "pass"]}
    )
    await job.until_state("Failed")

    assert "WorkUnfinished" in job.condition("Failed")["message"]


async def test_a_checkpoint_path_that_cannot_be_written_is_told_before_the_first_step(
    bed: Bed,
) -> None:
    volume = await provide_claim(bed.world, "blocked")
    (volume / "runs").write_text("a file, where a folder should be")
    checkpoint = {"path": "/checkpoints/runs"}
    job = await bed.train(workers=(1, 1), claim="blocked", checkpoint=checkpoint)
    await job.until_true("Stalled")

    assert job.condition("Stalled")["reason"] == "CheckpointNotWritable"
    assert "/checkpoints/runs" in job.condition("Stalled")["message"]
    assert job.step == 0


async def test_a_read_only_mount_is_named_before_anything_is_made(bed: Bed) -> None:
    mount = {"name": "checkpoints", "mountPath": "/checkpoints", "readOnly": True}
    job = await bed.train(container={"volumeMounts": [mount]})
    await job.until_true("Stalled")

    assert job.condition("Stalled")["reason"] == "InvalidSpec"
    assert "volumeMounts" in job.condition("Stalled")["message"]
    assert await job.pods() == []


async def test_a_pool_that_does_not_exist_is_named(bed: Bed) -> None:
    job = await bed.train(capacity={"pools": ["nowhere"]})
    await job.until_true("Stalled")

    assert job.condition("Planned")["reason"] == "NoPool"
    assert "nowhere" in job.condition("Planned")["message"]
    assert await job.pods() == []


async def test_a_pod_that_the_server_refuses_is_told_with_the_server_s_words(bed: Bed) -> None:
    limits: dict[str, Any] = {"limits": {"nvidia.com/gpu": 1, "cpu": "1"}, "requests": {"cpu": "2"}}
    job = await bed.train(container={"resources": limits})
    await job.until_true("Stalled")

    assert job.condition("Stalled")["reason"] in {"PodRejected", "InvalidSpec"}
    assert "cpu" in job.condition("Stalled")["message"]


async def test_b013_a_name_that_somebody_else_has_is_named_and_left_alone(bed: Bed) -> None:
    body = {
        "metadata": {"name": "digits-worker-0-1"},
        "spec": {"containers": [{"name": "x", "image": "x", "command": ["sleep", "1000"]}]},
    }
    foreign = await bed.world.api.request("POST", bed.world.path("pods"), body)
    job = await bed.train(workers=(1, 1), steps=20)
    await job.until_true("Stalled")

    assert job.condition("Stalled")["reason"] == "NameTaken"
    assert "digits-worker-0-1" in job.condition("Stalled")["message"]
    path = f"{bed.world.path('pods')}/digits-worker-0-1"
    still = await bed.world.api.request("GET", path)
    assert still["metadata"]["uid"] == foreign["metadata"]["uid"]

    await bed.world.api.request("DELETE", path, gracePeriodSeconds="0")
    await job.until_over()


async def test_a_job_that_another_controller_manages_is_left_alone(bed: Bed) -> None:
    other = await bed.train(name="other", managedBy="kueue.x-k8s.io/multikueue")
    ours = await bed.train(name="ours", workers=(1, 1), steps=20, pause=0.0)
    await ours.until_over()

    assert "conditions" not in other.status
    assert await other.pods() == []


@pytest.mark.parametrize("policy", ["All", "None"])
async def test_b020_what_stays_at_the_end_is_what_the_policy_says(bed: Bed, policy: str) -> None:
    job = await bed.train(
        workers=(1, 1), backoffLimit=0, cleanPodPolicy=policy, options=("--fail-at", "5")
    )
    await job.until_state("Failed")
    left = {"active", "ready", "succeeded", "failed"} if policy == "All" else {"active"}
    await job.until(
        lambda job: all(
            role.get(kind, 0) == 0
            for role in job.status["replicaStatuses"].values()
            for kind in left
        ),
        what="at rest",
    )

    workers, coordinators = await job.pods(), await job.pods("coordinator")
    assert bool(workers) is (policy == "None")
    assert bool(coordinators) is (policy == "None")
