"""What users and operators do to a job while it trains."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from support.outcome import check_equal, check_history, check_whole
from world.api import ApiError
from world.recoveries import ask_coordinator

if TYPE_CHECKING:
    from support.bed import Bed
    from support.outcome import Undisturbed
    from world.api import Json

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"


async def test_b049_losing_the_coordinator_stops_nobody(bed: Bed, undisturbed: Undisturbed) -> None:
    job = await bed.train(workers=(3, 3), steps=300)
    await job.until_step(30)
    before = {pod["metadata"]["name"] for pod in await job.pods()}
    await _kill_pod(bed, "digits-coordinator-0-1")
    await job.until(
        lambda job: job.status["attempts"]["coordinator-0"]["last"] == 2, what="replaced"
    )
    await job.until_over()

    assert {pod["metadata"]["name"] for pod in await job.pods()} == before
    assert job.counter("restarts") == 1
    check_whole(job, revocations=0)
    check_equal(job, await undisturbed(bed, steps=300))


async def test_b049_losing_the_coordinator_again_while_members_form_loses_no_step(
    bed: Bed, undisturbed: Undisturbed
) -> None:
    job = await bed.train(workers=(3, 3))
    await job.until_step(30)
    [machine, *_] = await job.machines()
    bed.world.revoke("power-loss", node=machine.name)
    await _kill_pod(bed, "digits-coordinator-0-1")
    await job.until(
        lambda job: job.status["attempts"]["coordinator-0"]["last"] == 2, what="replaced"
    )
    await _kill_pod(bed, "digits-coordinator-0-2")
    await job.until_over()

    check_whole(job, revocations=1)
    check_equal(job, await undisturbed(bed))


async def test_an_operator_killed_between_a_pod_and_its_status_makes_no_second_one(
    bed: Bed, undisturbed: Undisturbed
) -> None:
    job = await bed.train(workers=(3, 3))
    await job.until_step(30)
    [machine, *_] = await job.machines()
    async with _no_status_writes(bed):
        bed.world.revoke("power-loss", node=machine.name)
        lost = next(p for p in await job.pods() if p["spec"].get("nodeName") == machine.name)
        index = lost["metadata"]["labels"]["ebbtide.dev/replica-index"]
        await bed.world.until_pod(f"digits-worker-{index}-2", bool, what="made")
        bed.installation.kill_operator()
    assert job.status["attempts"][f"worker-{index}"]["last"] == 1
    bed.installation.start_operator()
    await job.until_over()

    made = await _created(bed)
    assert len(made) == len(set(made))
    assert f"digits-worker-{index}-3" not in made
    check_whole(job, revocations=1)
    check_equal(job, await undisturbed(bed))


async def test_b010_a_worker_deleted_while_the_operator_is_away_comes_back(bed: Bed) -> None:
    job = await bed.train(workers=(2, 2), steps=200)
    await job.until_step(30)
    bed.installation.kill_operator()
    await bed.world.api.request("DELETE", f"{bed.world.path('pods')}/digits-worker-1-1")
    await bed.world.until(f"{bed.world.path('pods')}/digits-worker-1-1", lambda p: p is None)
    bed.installation.start_operator()
    await bed.world.until_pod("digits-worker-1-2", bool, timeout=10, what="made again")
    await job.until_over()

    check_whole(job, revocations=0)


async def test_b010_every_worker_deleted_by_hand_comes_back(
    bed: Bed, undisturbed: Undisturbed
) -> None:
    job = await bed.train(workers=(3, 3))
    await job.until_step(30)
    for pod in await job.pods():
        path = f"{bed.world.path('pods')}/{pod['metadata']['name']}"
        await bed.world.api.request("DELETE", path)
    await job.until_over()

    check_whole(job, revocations=0)
    check_equal(job, await undisturbed(bed))


async def test_suspend_and_resume_lose_no_step(bed: Bed, undisturbed: Undisturbed) -> None:
    job = await bed.train(workers=(3, 3))
    await job.until_step(30)
    await job.change(suspend=True)
    await job.until_true("Suspended")
    stopped = job.step
    assert await job.pods() == []
    assert await job.pods("coordinator") == []
    assert "startTime" not in job.status
    await job.change(suspend=False)
    await job.until_over()

    assert stopped >= 30
    assert job.condition("Suspended")["reason"] in {"Resumed", "Finished"}
    check_whole(job, revocations=0)
    assert job.counter("restarts") == 0
    check_equal(job, await undisturbed(bed))


@pytest.mark.parametrize("moment", ["while it trains", "while it is suspended"])
async def test_deleting_a_job_leaves_nothing_behind(bed: Bed, moment: str) -> None:
    job = await bed.train(workers=(2, 2), steps=5000, suspend=moment == "while it is suspended")
    if moment == "while it trains":
        await job.until_step(10)
    else:
        await job.until_true("Suspended")
    await job.delete()
    await job.until(lambda job: job.gone, what="gone")
    for resource in ("pods", "services"):
        await _until_none(bed, resource, name="digits")
    assert bed.installation.is_running


async def test_b013_a_job_made_again_under_its_name_is_a_new_job(bed: Bed) -> None:
    job = await bed.train(workers=(2, 2), steps=5000)
    await job.until_step(10)
    await job.delete()
    await job.until(lambda job: job.gone, what="gone")
    again = await bed.train(workers=(2, 2), steps=60)
    await again.until_over()

    check_history(again)
    assert again.result["steps"] == 60
    assert [again.counter(n) for n in ("revocations", "failures", "restarts")] == [0, 0, 0]


async def test_one_worker_may_run_several_processes(bed: Bed) -> None:
    job = await bed.train(workers=(2, 2), steps=60, processesPerWorker=2)
    await job.until_step(10)
    [machine, *_] = await job.machines()
    bed.world.revoke("power-loss", node=machine.name)
    await job.until_over()

    check_whole(job, revocations=1)


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param(["python", "train.py", "--pause", "0.03"], id="a-list"),
        pytest.param(["sh", "-c", "python train.py --pause 0.03; exit $?"], id="a-shell-string"),
        pytest.param(
            ["sh", "-c", "python train.py --pause 0.03 & wait $!; wait $!"], id="in-the-background"
        ),
    ],
)
async def test_b058_sigterm_reaches_the_trainer_through_any_wrapping(
    bed: Bed, shape: list[str]
) -> None:
    job = await bed.train(workers=(2, 2), steps=150, container={"command": shape})
    await job.until_step(20)
    await job.change(suspend=True)
    await job.until_true("Suspended")
    saved = [path.name for path in job.volume.glob("step-*")]
    stopped = job.step
    await job.change(suspend=False)
    await job.until_over()

    assert max(int(name.removeprefix("step-")) for name in saved) >= stopped
    check_whole(job, revocations=0)


async def test_b003_a_member_that_falls_silent_is_replaced(
    bed: Bed, undisturbed: Undisturbed
) -> None:
    job = await bed.train(workers=(3, 3))
    await job.until_step(30)
    [machine, *_] = await job.machines()
    bed.world.revoke("partition-data", node=machine.name, seconds=600.0, with_api=True)
    async with asyncio.timeout(15):
        await job.until(lambda job: job.condition("Replacing").get("status") == "True", what="told")
    assert job.status["state"] == "Recovering"
    await job.until_over()

    check_whole(job, revocations=1)
    check_equal(job, await undisturbed(bed))


async def test_the_coordinator_tells_how_long_training_stood_still(bed: Bed) -> None:
    job = await bed.train(workers=(2, 3), steps=300)
    await job.until(lambda job: job.step >= 20 and job.status["replicas"]["ready"] == 3, what="3")
    [machine, *_] = await job.machines()
    bed.world.revoke("power-loss", node=machine.name)
    await job.until(lambda job: job.counter("revocations") == 1, what="counted")
    report = await ask_coordinator(job)
    await job.until_over()

    assert report is not None
    away = [r.stepping_after for r in report.recoveries if r.cause == "lost"]
    assert away
    assert 0 < min(away) < 10


# -------------------------------------------------------------------- parts


async def _kill_pod(bed: Bed, name: str) -> None:
    """End a pod's processes as the kernel does when memory is short: no word, no notice."""
    found = await bed.world.api.request("GET", f"{bed.world.path('pods')}/{name}")
    machine = bed.world.node(found["spec"]["nodeName"])
    assert machine.kubelet is not None
    machine.kubelet.crash_pod(found["metadata"]["uid"])


async def _created(bed: Bed) -> list[str]:
    """Return the names of all pods that were ever made in the namespace, as the scheduler saw."""
    found = await bed.world.api.request("GET", bed.world.path("events"))
    return [
        event["involvedObject"]["name"]
        for event in found["items"]
        if event.get("reason") == "Scheduled"
    ]


async def _until_none(bed: Bed, resource: str, *, name: str) -> None:
    async with asyncio.timeout(40):
        while True:
            found = await bed.world.api.request("GET", bed.world.path(resource))
            left = [i for i in found["items"] if i["metadata"]["name"].startswith(name)]
            if not left:
                return
            await bed.world.until(
                f"{bed.world.path(resource)}/{left[0]['metadata']['name']}", lambda o: o is None
            )


class _no_status_writes:  # noqa: N801 -- reads as a statement
    """While this holds, the API server refuses every write of a TrainingJob's status."""

    def __init__(self, bed: Bed) -> None:
        self._api = bed.world.api
        self._name = f"no-status-{bed.world.namespace}"
        self._rule = {
            "apiGroups": ["ebbtide.dev"],
            "apiVersions": ["*"],
            "operations": ["UPDATE"],
            "resources": ["trainingjobs/status"],
        }
        self._path = f"{bed.world.path('trainingjobs', 'apis/ebbtide.dev/v1alpha1')}/digits"

    async def __aenter__(self) -> None:
        kind = "ValidatingAdmissionPolicy"
        policy: Json = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": self._name},
            "spec": {
                "matchConstraints": {"resourceRules": [self._rule]},
                "validations": [{"expression": "false", "message": "not now"}],
            },
        }
        binding: Json = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{kind}Binding",
            "metadata": {"name": self._name},
            "spec": {"policyName": self._name, "validationActions": ["Deny"]},
        }
        await self._api.request("POST", POLICIES, policy)
        await self._api.request("POST", BINDINGS, binding)
        async with asyncio.timeout(20):
            while not await self._is_refused():
                await asyncio.sleep(0.1)  # the server says nowhere that a policy is in force

    async def __aexit__(self, *_: object) -> None:
        await self._api.request("DELETE", f"{BINDINGS}/{self._name}")
        await self._api.request("DELETE", f"{POLICIES}/{self._name}")

    async def _is_refused(self) -> bool:
        merge = "application/merge-patch+json"
        body = {"status": {"selector": "tried"}}
        try:
            await self._api.request("PATCH", f"{self._path}/status", body, content_type=merge)
        except ApiError as error:
            return "not now" in error.message
        return False
