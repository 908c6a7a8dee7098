import asyncio
import dataclasses

import pytest

from ebbtide.cluster.errors import ConflictError, RejectedError, UnavailableError
from ebbtide.core.values.decision import Event
from ebbtide.core.values.observed import Observed
from ebbtide.core.values.status import JobStatus, Progress
from support.fake_api import FakeApi
from support.live import JOB, KEY, NODES, PODS, POOL, Bench, running, with_job
from support.objects import node_object, pod_object

EVENTS = "/api/v1/namespaces/team/events"
STATUS = JobStatus(observed_generation=3, state="Pending", progress=Progress(steps=600))


async def look(bench: Bench) -> Observed:
    observed = await bench.cluster.observe(KEY)
    assert observed is not None
    return observed


async def test_a_status_is_written_once_and_read_back() -> None:
    api = with_job()
    async with running(api) as bench:
        assert await bench.cluster.write_status(await look(bench), STATUS)
        again = await look(bench)
        assert again.status == STATUS

        assert not await bench.cluster.write_status(again, STATUS)

    assert api.count("apply", "/status") == 1
    assert "status" not in api.objects[JOB]["spec"]


async def test_a_job_that_changed_since_the_look_is_a_conflict() -> None:
    api = with_job()
    async with running(api) as bench:
        observed = await look(bench)
        api.change(JOB, metadata={"labels": {"edited": "yes"}})

        with pytest.raises(ConflictError):
            await bench.cluster.write_status(observed, STATUS)

        assert "status" not in api.objects[JOB]
        # No watch has told of the edit: the conflict itself made us look.
        assert await bench.cluster.write_status(await look(bench), STATUS)


async def test_a_status_that_cannot_be_read_stops_its_job_and_no_other() -> None:
    api = with_job()
    api.change(JOB, status={"attempts": "none"})
    async with running(api) as bench:
        with pytest.raises(RejectedError, match="the status of team/digits cannot be read"):
            await bench.cluster.observe(KEY)


async def test_a_namesake_never_gets_the_status_of_the_former_job() -> None:
    # B013
    api = with_job()
    async with running(api) as bench:
        observed = await look(bench)
        api.remove(JOB)
        api.put(JOB, {"metadata": {"uid": "another"}, "spec": {}})
        version = api.objects[JOB]["metadata"]["resourceVersion"]
        stale = dataclasses.replace(
            observed, job=dataclasses.replace(observed.job, resource_version=version)
        )

        with pytest.raises(ConflictError):
            await bench.cluster.write_status(stale, STATUS)


async def test_a_job_that_is_gone_is_forgotten_at_the_write() -> None:
    api = with_job()
    async with running(api) as bench:
        observed = await look(bench)
        api.remove(JOB)

        assert not await bench.cluster.write_status(observed, STATUS)
        assert await bench.cluster.observe(KEY) is None


async def test_the_same_event_again_only_counts_up() -> None:
    api = with_job()
    event = Event(reason="PodPreempted", message="worker 1 was taken", warning=True)
    async with running(api) as bench:
        for _ in range(3):
            await bench.cluster.tell(await look(bench), [event])
        await bench.cluster.tell(await look(bench), [Event(reason="Running", message="it trains")])

    found = [body for path, body in api.objects.items() if path.startswith(EVENTS)]
    assert [(body["reason"], body["type"], body["count"]) for body in found] == [
        ("PodPreempted", "Warning", 3),
        ("Running", "Normal", 1),
    ]
    assert found[0]["involvedObject"]["name"] == "digits"
    assert found[0]["involvedObject"]["uid"] == api.objects[JOB]["metadata"]["uid"]


async def test_an_event_that_expired_is_written_anew() -> None:
    api = with_job()
    event = Event(reason="Running", message="it trains")
    async with running(api) as bench:
        await bench.cluster.tell(await look(bench), [event])
        (name,) = api.names(EVENTS)
        api.remove(f"{EVENTS}/{name}")

        await bench.cluster.tell(await look(bench), [event])

    assert len(api.names(EVENTS)) == 1


async def test_an_event_that_cannot_be_written_stops_nothing() -> None:
    api = with_job()
    api.fail("create", "events", UnavailableError("away"))
    async with running(api) as bench:
        events = [Event(reason="A", message="lost"), Event(reason="B", message="kept")]
        await bench.cluster.tell(await look(bench), events)

    assert [body["reason"] for path, body in api.objects.items() if path.startswith(EVENTS)] == [
        "B"
    ]


@pytest.mark.looptime
async def test_the_nodes_of_a_pool_are_counted_in_its_status_at_a_bounded_rate() -> None:
    api = with_job()
    api.put(f"{NODES}/a", node_object("a"))
    api.put(f"{NODES}/b", node_object("b", ready=False))
    async with running(api) as bench:
        task = asyncio.create_task(bench.cluster.pool_status.run())
        await asyncio.sleep(10)
        assert api.objects[POOL]["status"]["nodes"] == {"ready": 1, "total": 2}
        writes = api.count("apply", "capacitypools")

        for number in range(20):
            api.put(f"{NODES}/n{number}", node_object(f"n{number}"))
            await asyncio.sleep(0.1)
        await asyncio.sleep(10)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert api.objects[POOL]["status"]["nodes"] == {"ready": 21, "total": 22}
    assert api.count("apply", "capacitypools") - writes <= 3


@pytest.mark.looptime
async def test_a_node_wakes_the_jobs_on_it_and_a_new_one_those_that_wait() -> None:
    api = with_job(FakeApi())
    api.put(f"{NODES}/node-1", node_object())
    api.put(f"{PODS}/digits-worker-0-1", pod_object())
    async with running(api) as bench:
        await asyncio.sleep(0.1)
        bench.woken.clear()
        api.change(f"{NODES}/node-1", spec={"unschedulable": True})
        await asyncio.sleep(0.1)
        assert bench.woken[KEY] == 1

        api.put(f"{NODES}/node-2", node_object("node-2"))
        await asyncio.sleep(0.1)
        assert bench.woken[KEY] == 1  # nobody of it waits for a node

        api.put(f"{PODS}/digits-worker-1-1", pod_object(1, spec={"nodeName": ""}))
        await asyncio.sleep(0.1)
        bench.woken.clear()
        api.put(f"{NODES}/node-3", node_object("node-3"))
        await asyncio.sleep(0.1)
        assert bench.woken[KEY] == 1
