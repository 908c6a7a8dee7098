import asyncio
from collections.abc import Sequence

import pytest

from ebbtide.cluster.act import Outcome
from ebbtide.cluster.errors import (
    ConflictError,
    ForbiddenError,
    RejectedError,
    UnavailableError,
)
from ebbtide.core.values.decision import (
    Action,
    ApplyService,
    CreatePod,
    CreateSecret,
    DeleteJob,
    DeletePod,
    DeleteService,
    EndPod,
    MarkBoot,
)
from ebbtide.core.values.observed import Role
from ebbtide.wire.messages import WorkSpec
from support.builders import SPOT
from support.live import JOB, KEY, PODS, Bench, running, with_job
from support.objects import JOB_UID, owner, pod_object

SERVICE = "/api/v1/namespaces/team/services/digits-coordinator"
SECRETS = "/api/v1/namespaces/team/secrets"
WORK = WorkSpec(job="team/digits", steps=600, global_batch_size=64, min_replicas=2, desired=4)


def create(index: int = 0, attempt: int = 1) -> CreatePod:
    return CreatePod(role=Role.WORKER, index=index, attempt=attempt, work=WORK, pool=SPOT)


async def act(bench: Bench, actions: Sequence[Action]) -> Outcome:
    observed = await bench.cluster.observe(KEY)
    assert observed is not None
    return await bench.cluster.act(observed, actions)


async def pods_of(bench: Bench) -> list[str]:
    observed = await bench.cluster.observe(KEY)
    assert observed is not None
    return sorted(pod.name for pod in observed.pods)


@pytest.mark.looptime
async def test_pods_that_we_made_are_seen_although_the_watch_lags() -> None:
    # B011
    api = with_job()
    api.delay = 3.0
    async with running(api) as bench:
        await act(bench, [create(index) for index in range(8)])

        assert len(await pods_of(bench)) == 8
        await asyncio.sleep(4)
        assert len(await pods_of(bench)) == 8
        assert api.count("create", "pods") == 8


@pytest.mark.looptime
async def test_a_pod_that_we_deleted_does_not_come_back_with_a_late_watch() -> None:
    # B011
    api = with_job()
    unbound = pod_object(0, spec={"nodeName": ""})
    async with running(api) as bench:
        api.put(f"{PODS}/digits-worker-0-1", unbound)
        await asyncio.sleep(0.1)
        api.delay = 3.0
        api.change(f"{PODS}/digits-worker-0-1", status={"phase": "Pending"})  # on its way for 3 s

        name, uid = "digits-worker-0-1", "uid-digits-worker-0-1"
        await act(bench, [DeletePod(name=name, uid=uid)])

        assert await pods_of(bench) == []
        await asyncio.sleep(10)
        assert await pods_of(bench) == []


async def test_a_pod_that_ends_in_its_own_time_is_seen_as_ending_at_once() -> None:
    api = with_job()
    api.put(f"{PODS}/digits-worker-0-1", pod_object())
    async with running(api) as bench:
        await act(bench, [DeletePod(name="digits-worker-0-1", uid="uid-digits-worker-0-1")])

        observed = await bench.cluster.observe(KEY)

    assert observed is not None
    assert observed.pods[0].deletion_requested is not None


async def test_a_forced_delete_leaves_no_grace_and_names_the_uid() -> None:
    api = with_job()
    api.put(f"{PODS}/digits-worker-0-1", pod_object())
    async with running(api) as bench:
        forced = DeletePod(name="digits-worker-0-1", uid="uid-digits-worker-0-1", force=True)
        await act(bench, [forced])

        assert await pods_of(bench) == []
    assert api.bodies[-1]["gracePeriodSeconds"] == 0
    assert api.bodies[-1]["preconditions"] == {"uid": "uid-digits-worker-0-1"}


@pytest.mark.parametrize("exists", [True, False])
async def test_a_pod_that_is_gone_or_another_one_by_now_is_no_error(*, exists: bool) -> None:
    api = with_job()
    if exists:
        api.put(f"{PODS}/digits-worker-0-1", pod_object())
    async with running(api) as bench:
        await act(bench, [DeletePod(name="digits-worker-0-1", uid="a-former-one")])

    assert (f"{PODS}/digits-worker-0-1" in api.objects) is exists


async def test_a_pod_of_ours_that_exists_already_is_success() -> None:
    # What a restart between the create and the status write leaves behind.
    api = with_job()
    async with running(api) as bench:
        api.put(f"{PODS}/digits-worker-0-1", pod_object())
        api.fail("create", "pods", ConflictError("already exists"), times=1)
        outcome = await act(bench, [create(0)])

        assert outcome.again
        assert not outcome.foreign
        assert not outcome.rejected
        assert await pods_of(bench) == ["digits-worker-0-1"]


async def test_a_pod_of_somebody_else_in_our_place_is_told_and_left_alone() -> None:
    # B013
    api = with_job()
    stranger = pod_object(0, metadata={"ownerReferences": [], "labels": {}})
    api.put(f"{PODS}/digits-worker-0-1", {**stranger, "metadata": {"name": "digits-worker-0-1"}})
    async with running(api) as bench:
        outcome = await act(bench, [create(0), create(1)])

    assert outcome.foreign == {"Pod digits-worker-0-1"}
    assert api.names(PODS) == ["digits-worker-0-1", "digits-worker-1-1"]


@pytest.mark.parametrize("error", [RejectedError("spec is invalid"), ForbiddenError("quota")])
async def test_what_is_refused_for_one_pod_is_not_tried_for_all(error: RejectedError) -> None:
    api = with_job()
    api.fail("create", "pods", error, times=100)
    async with running(api) as bench:
        outcome = await act(bench, [create(index) for index in range(8)])

    assert outcome.rejected == error.message
    assert api.count("create", "pods") == 1


async def test_one_server_trouble_does_not_cancel_the_other_creates() -> None:
    api = with_job()
    api.fail("create", "pods", UnavailableError("away"), times=0)
    async with running(api) as bench:
        observed = await bench.cluster.observe(KEY)
        assert observed is not None
        first = create(0)
        await bench.cluster.act(observed, [first])
        api.fail("create", "pods", UnavailableError("away"), times=1)
        with pytest.raises(UnavailableError):
            await bench.cluster.act(observed, [create(1), create(2)])
        api.fail("create", "pods", UnavailableError("away"), times=0)

        await bench.cluster.act(observed, [create(1), create(2)])

        assert len(await pods_of(bench)) == 3


async def test_thirty_lost_pods_are_made_anew_in_one_go() -> None:
    # B017
    api = with_job()
    async with running(api) as bench:
        await act(bench, [create(index, 2) for index in range(30)])

    assert api.count("create", "pods") == 30
    assert api.writes == 30


async def test_pods_of_each_role_run_their_own_module_and_are_seen_as_that_role() -> None:
    roles = {Role.WORKER: SPOT, Role.SERVER: None, Role.COORDINATOR: None}
    async with running(with_job(strategy="ParameterServer")) as bench:
        made = [
            CreatePod(role=role, index=0, attempt=1, work=WORK, pool=pool)
            for role, pool in roles.items()
        ]
        await act(bench, made)
        observed = await bench.cluster.observe(KEY)
        commands = {
            pod["metadata"]["name"]: " ".join(pod["spec"]["containers"][0]["command"])
            for path, pod in bench.api.objects.items()
            if path.startswith(PODS)
        }

    assert observed is not None
    assert {pod.role for pod in observed.pods} == set(roles)
    assert "-m ebbtide.runtime.worker" in commands["digits-worker-0-1"]
    assert "-m ebbtide.runtime.server" in commands["digits-server-0-1"]
    assert "-m ebbtide.coordinator" in commands["digits-coordinator-0-1"]


async def test_the_token_is_made_once_and_never_shown_again() -> None:
    api = with_job()
    async with running(api) as bench:
        await act(bench, [CreateSecret()])
        first = dict(api.objects[f"{SECRETS}/ebbtide-{JOB_UID}"])
        await act(bench, [CreateSecret()])

        observed = await bench.cluster.observe(KEY)

    assert observed is not None
    assert observed.has_secret
    assert api.objects[f"{SECRETS}/ebbtide-{JOB_UID}"] == first
    assert api.names(SECRETS) == [f"ebbtide-{JOB_UID}"]


async def test_the_service_is_made_and_then_turned() -> None:
    api = with_job()
    async with running(api) as bench:
        for attempt in (1, 2):
            await act(bench, [ApplyService(attempt=attempt)])
            observed = await bench.cluster.observe(KEY)
            assert observed is not None
            assert observed.service_attempt == attempt

    assert api.names("/api/v1/namespaces/team/services") == ["digits-coordinator"]


async def test_a_service_of_somebody_else_is_never_taken_over() -> None:
    api = with_job()
    theirs = api.put(SERVICE, {"metadata": {}, "spec": {"selector": {"app": "web"}}})
    async with running(api) as bench:
        outcome = await act(bench, [ApplyService(attempt=1)])

    assert outcome.foreign == {"Service digits-coordinator"}
    assert api.objects[SERVICE] == theirs


async def test_a_service_of_a_former_job_of_the_name_is_waited_for() -> None:
    api = with_job()
    api.put(SERVICE, {"metadata": {"ownerReferences": [owner("former")]}, "spec": {}})
    async with running(api) as bench:
        assert (await act(bench, [ApplyService(attempt=1)])).again
        api.remove(SERVICE)

        assert not (await act(bench, [ApplyService(attempt=1)])).again

    assert SERVICE in api.objects


async def test_ending_a_pod_keeps_its_object() -> None:
    api = with_job()
    api.put(f"{PODS}/digits-worker-0-1", pod_object())
    async with running(api) as bench:
        await act(bench, [EndPod(name="digits-worker-0-1", uid="uid-digits-worker-0-1")])

    assert api.objects[f"{PODS}/digits-worker-0-1"]["spec"]["activeDeadlineSeconds"] == 1


async def test_the_boot_of_a_node_is_remembered_on_the_pod() -> None:
    api = with_job()
    api.put(f"{PODS}/digits-worker-0-1", pod_object())
    uid = "uid-digits-worker-0-1"
    async with running(api) as bench:
        await act(bench, [MarkBoot(name="digits-worker-0-1", uid=uid, boot_id="boot-7")])

        observed = await bench.cluster.observe(KEY)

    assert observed is not None
    assert observed.pods[0].boot_id == "boot-7"


async def test_a_job_whose_time_is_over_is_deleted_with_what_it_owns() -> None:
    api = with_job()
    async with running(api) as bench:
        await act(bench, [DeleteJob()])
        assert JOB not in api.objects

    assert api.bodies[-1]["propagationPolicy"] == "Background"


async def test_only_our_own_service_is_deleted() -> None:
    api = with_job()
    async with running(api) as bench:
        await act(bench, [ApplyService(attempt=1)])
        await act(bench, [DeleteService()])
        assert SERVICE not in api.objects
        api.put(SERVICE, {"metadata": {}, "spec": {}})

        await act(bench, [DeleteService()])

    assert SERVICE in api.objects
