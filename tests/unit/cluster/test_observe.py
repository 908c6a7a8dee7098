import asyncio

import pytest

from ebbtide.cluster.errors import ForbiddenError
from ebbtide.core.values.job import Job
from support.fake_api import FakeApi
from support.live import JOB, KEY, PODS, running, with_job
from support.manifests import pool_manifest
from support.objects import JOB_UID, node_object, owner, pod_object

NODE = "/api/v1/nodes/node-1"
SERVICE = "/api/v1/namespaces/team/services/digits-coordinator"


def put_pod(api: FakeApi, index: int = 0, attempt: int = 1, **changes: object) -> str:
    body = pod_object(index, attempt, **changes)
    path = f"{PODS}/{body['metadata']['name']}"
    api.put(path, body)
    return path


async def test_a_job_that_is_gone_is_not_observed() -> None:
    async with running(FakeApi()) as bench:
        assert await bench.cluster.observe(KEY) is None


async def test_everything_that_belongs_to_a_job_is_in_one_look() -> None:
    api = with_job()
    put_pod(api, 0)
    api.put(NODE, node_object())
    async with running(api) as bench:
        observed = await bench.cluster.observe(KEY)

    assert observed is not None
    assert isinstance(observed.job, Job)
    assert observed.job.uid == JOB_UID
    assert [pod.name for pod in observed.pods] == ["digits-worker-0-1"]
    assert list(observed.nodes) == ["node-1"]
    assert [pool.name for pool in observed.pools] == ["v100-spot"]
    assert observed.node_gpus == {"node-1": 1}
    assert observed.pool_load == {}
    assert (observed.has_secret, observed.service_attempt) == (False, None)


async def test_pods_of_a_former_job_of_the_name_are_counted_and_not_taken_for_ours() -> None:
    # B013
    api = with_job()
    put_pod(api, 0, 1, metadata={"uid": "new"})
    put_pod(api, 0, 7, metadata={"ownerReferences": [owner("former")]})
    put_pod(api, 1, 3, metadata={"ownerReferences": [owner("former")]})
    async with running(api) as bench:
        observed = await bench.cluster.observe(KEY)

    assert observed is not None
    assert [pod.attempt for pod in observed.pods] == [1]
    assert observed.former_attempts == {"worker-0": 7, "worker-1": 3}


async def test_gpus_of_other_jobs_weigh_on_a_pool_and_our_own_do_not() -> None:
    api = with_job()
    put_pod(api, 0)
    other = pod_object(0, metadata={"labels": {"ebbtide.dev/job-name": "words"}, "name": "words-0"})
    other["metadata"]["uid"] = "uid-words"
    other["metadata"]["ownerReferences"] = [owner("other-uid", name="words")]
    api.put(f"{PODS}/words-0", other)
    async with running(api) as bench:
        observed = await bench.cluster.observe(KEY)

    assert observed is not None
    assert observed.pool_load == {"spot": 1}
    assert observed.node_gpus == {"node-1": 2}


async def test_the_attempt_that_the_service_selects_is_read() -> None:
    api = with_job()
    selector = {"ebbtide.dev/attempt": "4"}
    api.put(SERVICE, {"metadata": {"ownerReferences": [owner()]}, "spec": {"selector": selector}})
    async with running(api) as bench:
        observed = await bench.cluster.observe(KEY)

    assert observed is not None
    assert observed.service_attempt == 4
    assert observed.foreign == frozenset()


@pytest.mark.parametrize("owners", [[], [owner("x", kind="Deployment", name="web")]])
async def test_a_service_of_somebody_else_is_foreign(owners: list[object]) -> None:
    api = with_job()
    api.put(SERVICE, {"metadata": {"ownerReferences": owners}, "spec": {}})
    async with running(api) as bench:
        observed = await bench.cluster.observe(KEY)

    assert observed is not None
    assert observed.service_attempt is None
    assert observed.foreign == {"Service digits-coordinator"}


async def test_a_service_of_a_former_job_of_the_name_is_only_in_the_way() -> None:
    api = with_job()
    api.put(SERVICE, {"metadata": {"ownerReferences": [owner("former")]}, "spec": {}})
    async with running(api) as bench:
        observed = await bench.cluster.observe(KEY)

    assert observed is not None
    assert (observed.service_attempt, observed.foreign) == (None, frozenset())


@pytest.mark.looptime
async def test_secret_and_service_are_read_once_a_minute_at_most() -> None:
    api = with_job()
    async with running(api) as bench:
        for _ in range(10):
            await bench.cluster.observe(KEY)
        assert api.count("read", "/secrets/") == 1
        await asyncio.sleep(61)
        await bench.cluster.observe(KEY)
        assert api.count("read", "/secrets/") == 2


async def test_without_the_right_to_read_nodes_no_node_looks_lost() -> None:
    # B045
    api = with_job()
    api.fail("read", "/api/v1/nodes", ForbiddenError("nodes is forbidden"), times=1)
    put_pod(api, 0)
    async with running(api) as bench:
        observed = await bench.cluster.observe(KEY)

    assert observed is not None
    assert observed.nodes["node-1"].ready


async def test_a_job_that_cannot_be_read_says_what_is_wrong() -> None:
    api = with_job(work={"steps": -1, "globalBatchSize": 64})
    async with running(api) as bench:
        observed = await bench.cluster.observe(KEY)

    assert observed is not None
    assert not isinstance(observed.job, Job)
    assert any("spec.work.steps" in error for error in observed.job.errors)


async def test_a_job_that_a_list_does_not_name_is_gone() -> None:
    # kopf does not tell of a deletion that happened while its watch was away.
    api = with_job()
    async with running(api) as bench:
        assert await bench.cluster.observe(KEY) is not None
        api.remove(JOB)
        await bench.cluster.prime()

        assert await bench.cluster.observe(KEY) is None


async def test_pools_of_the_configuration_file_need_no_right_to_read_pools() -> None:
    api = with_job()
    async with running(api, namespaces=("team",), pools=(pool_manifest("ours"),)) as bench:
        observed = await bench.cluster.observe(KEY)

    assert observed is not None
    assert [pool.name for pool in observed.pools] == ["ours"]
    assert api.count("read", "capacitypools") == 0
    assert all("namespaces/team" in path for _, path in api.requests if "nodes" not in path)


async def test_an_end_is_remembered_beyond_its_object_until_it_is_counted() -> None:
    api = with_job()
    path = put_pod(api, 1)
    async with running(api) as bench:
        api.change(path, status={"phase": "Failed", "reason": "Evicted"})
        api.remove(path)
        await bench.settle()
        observed = await bench.cluster.observe(KEY)
        assert observed is not None
        assert observed.pods == ()
        assert [(pod.name, pod.reason) for pod in observed.departed] == [
            ("digits-worker-1-1", "Evicted")
        ]

        api.change(JOB, status={"attempts": {"worker-1": {"last": 1, "judged": 1}}})
        await bench.cluster.prime()
        observed = await bench.cluster.observe(KEY)

    assert observed is not None
    assert observed.departed == ()
