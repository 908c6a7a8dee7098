"""What users and operators do to a job while it trains."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.outcome import check_equal, check_history, check_whole
from world.api import ApiError
from world.recoveries import ask_coordinator

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.bed import Bed
    from support.outcome import Undisturbed
    from world.api import Json
    from world.training import Training

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"


async def test_b049_losing_the_coordinator_once_and_again_stops_nobody(
    bed: Bed, undisturbed: Undisturbed
) -> None:
    job = await bed.train(workers=(2, 2))
    await job.until_step(20)
    before = {pod["metadata"]["name"] for pod in await job.pods()}
    await _kill_coordinator(bed, job, attempt=1)
    await job.until(lambda job: job.step >= 50, what="training on")
    assert {pod["metadata"]["name"] for pod in await job.pods()} == before

    [machine, *_] = await job.machines()
    bed.world.revoke("power-loss", node=machine.name)
    await _kill_coordinator(bed, job, attempt=2)  # while the members are to form again
    await job.until_over()

    assert job.counter("restarts") == 2
    check_whole(job, revocations=1)
    check_equal(job, await undisturbed(bed, workers=2))


async def test_an_operator_killed_between_a_pod_and_its_status_makes_no_second_one(
    bed: Bed, undisturbed: Undisturbed
) -> None:
    job = await bed.train(workers=(2, 2))
    await job.until_step(20)
    [machine, *_] = await job.machines()
    async with _no_status_writes(bed):
        bed.world.revoke("power-loss", node=machine.name)
        await bed.world.until_pod("digits-worker-1-2", bool, what="made")
        bed.operator.kill()
    assert job.status["attempts"]["worker-1"]["last"] == 1
    bed.operator.start()
    await job.until(lambda job: job.counter("revocations") == 1, what="counted")
    await job.until_over()

    made = await _scheduled(bed)
    assert sorted(name for name in made if "worker" in name) == [
        "digits-worker-0-1",
        "digits-worker-1-1",
        "digits-worker-1-2",
    ], await job.describe()
    check_whole(job, revocations=1)
    check_equal(job, await undisturbed(bed, workers=2))


async def test_b010_workers_deleted_by_hand_come_back(bed: Bed, undisturbed: Undisturbed) -> None:
    job = await bed.train(workers=(2, 2))
    await job.until_step(20)
    bed.operator.kill()
    await _delete(bed, "digits-worker-1-1")
    await bed.world.until(f"{bed.world.path('pods')}/digits-worker-1-1", lambda pod: pod is None)
    bed.operator.start()
    await bed.world.until_pod("digits-worker-1-2", bool, timeout=60, what="made again")

    await job.until_step(50)
    for pod in await job.pods():
        await _delete(bed, pod["metadata"]["name"])
    await job.until_over()

    check_whole(job, revocations=0)
    check_equal(job, await undisturbed(bed, workers=2))


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param(["sh", "-c", "python train.py --pause 0.03; exit $?"], id="a-shell-string"),
        pytest.param(
            ["sh", "-c", "python train.py --pause 0.03 & wait $!; wait $!"], id="in-the-background"
        ),
    ],
)
async def test_b058_suspend_and_resume_lose_no_step_through_any_wrapping(
    bed: Bed, undisturbed: Undisturbed, shape: list[str]
) -> None:
    job = await bed.train(workers=(2, 2), container={"command": shape})
    await job.until_step(20)
    await job.change(suspend=True)
    await job.until_true("Suspended")
    stopped = job.step
    saved = [int(path.name.removeprefix("step-")) for path in job.volume.glob("step-*")]
    assert await job.pods() == []
    assert await job.pods("coordinator") == []
    assert "startTime" not in job.status
    await job.change(suspend=False)
    await job.until_over()

    assert max(saved) >= stopped >= 20
    check_whole(job, revocations=0)
    assert job.counter("restarts") == 0
    check_equal(job, await undisturbed(bed, workers=2))


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
    assert bed.operator.is_running


async def test_b013_a_job_made_again_under_its_name_is_a_new_job(bed: Bed) -> None:
    job = await bed.train(workers=(1, 1), steps=5000)
    await job.until_step(10)
    await job.delete()
    await job.until(lambda job: job.gone, what="gone")
    again = await bed.train(workers=(1, 1), steps=40, claim="again-checkpoints")
    await again.until_over()

    check_history(again)
    assert again.result["steps"] == 40
    assert [again.counter(n) for n in ("revocations", "failures", "restarts")] == [0, 0, 0]


async def test_one_worker_may_run_several_processes(bed: Bed) -> None:
    job = await bed.train(workers=(2, 2), steps=60, processesPerWorker=2)
    await job.until_step(10)
    [machine, *_] = await job.machines()
    before = job.status["generation"]["number"]
    bed.world.revoke("power-loss", node=machine.name)
    await job.until(
        lambda job: (
            job.counter("revocations") == 1
            and job.status["generation"]["number"] > before
            and job.status["replicas"]["ready"] == 2
        ),
        what="whole again",
    )
    report = await ask_coordinator(job)
    await job.until_over()

    check_whole(job, revocations=1)
    assert report is not None
    assert "lost" in {recovery.cause for recovery in report.recoveries}


async def test_kubectl_shows_and_waits_as_users_expect(
    bed: Bed, outside: Callable[..., str]
) -> None:
    job = await bed.train(workers=(1, 1), pause=0.1)

    async def kubectl(*words: str) -> str:
        config = ("--kubeconfig", str(bed.world.session.outside_kubeconfig))
        program = str(Path(sys.executable).with_name("kubectl"))
        return await asyncio.to_thread(outside, program, *config, "-n", bed.world.namespace, *words)

    await job.until_step(10)
    table = await kubectl("get", "tj")
    told = await kubectl("describe", "tj", "digits")
    waited = await kubectl("wait", "--for=condition=Complete", "--timeout=80s", "tj/digits")
    done = await kubectl("get", "tj", "digits")

    assert "condition met" in waited
    header, row = (line.split() for line in table.splitlines()[:2])
    assert header[:5] == ["NAME", "STATE", "READY", "GPU", "SPOT"]
    assert row[:3] == ["digits", "Running", "1/1"]
    assert "Running" in told
    assert "Events:" in told
    assert "1 of 1 workers train" in told
    assert "Complete" in done
    assert "100%" in done


# -------------------------------------------------------------------- parts


async def _kill_coordinator(bed: Bed, job: Training, *, attempt: int) -> None:
    """End its processes as the kernel does when memory is short, and wait for the next one."""
    name = f"digits-coordinator-0-{attempt}"
    found = await bed.world.api.request("GET", f"{bed.world.path('pods')}/{name}")
    machine = bed.world.node(found["spec"]["nodeName"])
    assert machine.kubelet is not None
    machine.kubelet.crash_pod(found["metadata"]["uid"])
    await job.until(
        lambda job: job.status["attempts"]["coordinator-0"]["last"] == attempt + 1, what="replaced"
    )


async def _delete(bed: Bed, pod: str) -> None:
    await bed.world.api.request("DELETE", f"{bed.world.path('pods')}/{pod}")


async def _scheduled(bed: Bed) -> list[str]:
    """Return the names of all pods that the scheduler ever placed in the namespace."""
    found = await bed.world.api.request("GET", bed.world.path("events"))
    return [
        event["involvedObject"]["name"]
        for event in found["items"]
        if event.get("reason") == "Scheduled"
    ]


async def _until_none(bed: Bed, resource: str, *, name: str) -> None:
    async with asyncio.timeout(90):
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
        async with asyncio.timeout(60):
            while not await self._is_refused():  # noqa: ASYNC110 -- the server tells no event
                await asyncio.sleep(0.1)

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
