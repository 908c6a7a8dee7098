"""What the leader remembers of pools, in their status and across restarts."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from ebbtide.cluster.errors import ForbiddenError, UnavailableError
from ebbtide.cluster.pool_status import Keeping
from ebbtide.core.values.past import LifeTold, Past
from ebbtide.core.values.pool import Pool
from ebbtide.core.values.settings import Settings
from support.fake_api import FakeApi
from support.live import KEY, NODES, NOW, PODS, POOL, Bench, running, with_job
from support.manifests import pool_manifest
from support.objects import node_object, pod_object

NODE = f"{NODES}/node-1"
POD = f"{PODS}/digits-worker-0-1"
SETTINGS = Settings()
KEEPING = Keeping(settings=SETTINGS)
ON_POOL = {"metadata": {"labels": {"ebbtide.dev/pool": "v100-spot"}}}


def pod(index: int = 0, **changes: Any) -> dict[str, Any]:
    return pod_object(index, **{**ON_POOL, **changes})


def unscheduled() -> dict[str, Any]:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "lastTransitionTime": NOW.isoformat().replace("+00:00", "Z"),
    }
    return pod(spec={"nodeName": ""}, status={"phase": "Pending", "conditions": [condition]})


def status(api: FakeApi) -> dict[str, Any]:
    found: dict[str, Any] = api.objects[POOL]["status"]
    return found


def writes(api: FakeApi) -> int:
    return api.count("apply", "capacitypools")


async def write(bench: Bench, *, after: float = 0.0, keeping: Keeping = KEEPING) -> None:
    await bench.settle()
    bench.now += timedelta(seconds=after)
    await bench.cluster.pool_status.write(keeping)
    await bench.settle()


@contextlib.asynccontextmanager
async def in_use(**scope: Any) -> AsyncIterator[Bench]:
    """A pool with one node, and a worker on it; looked at once."""
    api = with_job()
    api.put(NODE, node_object())
    api.put(POD, pod())
    async with running(api, **scope) as bench:
        await write(bench, after=10)
        yield bench


async def test_a_node_that_is_taken_is_written_down() -> None:
    async with in_use() as bench:
        bench.api.remove(NODE)
        await write(bench, after=590)

        found = status(bench.api)

    assert found["availability"] == {"available": True, "since": "2026-01-01T12:00:00Z"}
    assert found["lastRevocationTime"] == "2026-01-01T12:10:00Z"
    assert found["history"]["lives"] == [
        {"since": "2026-01-01T12:00:00Z", "seconds": 600.0, "revoked": True}
    ]
    assert "followed" not in found["history"]


async def test_nothing_is_written_where_nothing_changed() -> None:
    async with in_use() as bench:
        before = writes(bench.api)
        for _ in range(20):
            await write(bench, after=3600)

        assert writes(bench.api) == before == 1


async def test_whoever_leads_next_goes_on_where_the_last_one_was() -> None:
    async with in_use() as bench:
        api = bench.api
    before = api.objects[POOL]["status"]
    async with running(api) as bench:
        bench.now += timedelta(seconds=900)
        await write(bench)
        assert api.objects[POOL]["status"] == before

        api.remove(NODE)
        await write(bench, after=300)

    (life,) = status(api)["history"]["lives"]
    assert (life["seconds"], life["revoked"]) == (1200.0, True)


async def test_what_went_while_nobody_led_is_not_taken_for_a_loss() -> None:
    async with in_use() as bench:
        api = bench.api
    api.remove(POD)
    api.remove(NODE)
    async with running(api) as bench:
        await write(bench, after=90_000)

    assert status(api)["history"] == {
        "spells": [{"available": True, "since": "2026-01-01T12:00:00Z"}]
    }


async def test_a_pool_without_nodes_is_left_out_and_says_until_when() -> None:
    api = with_job()
    api.put(POD, unscheduled())
    async with running(api) as bench:
        again = await bench.cluster.pool_status.write(KEEPING)
        assert again == SETTINGS.capacity_wait
        assert "availability" not in status(api)

        await write(bench, after=SETTINGS.capacity_wait.total_seconds())
        assert status(api)["availability"] == {
            "available": False,
            "since": "2026-01-01T12:00:00Z",
        }

        api.remove(POD)
        await write(bench, after=60)
        observed = await bench.cluster.observe(KEY)

    assert status(api)["availability"]["leftOutUntil"] == "2026-01-01T12:16:00Z"
    assert observed is not None
    assert observed.pasts["v100-spot"].failed_tries == 1


async def test_pods_that_only_bear_our_labels_tell_nothing() -> None:
    api = with_job()
    foreign = unscheduled()
    foreign["metadata"]["ownerReferences"] = []
    api.put(POD, foreign)
    async with running(api) as bench:
        await write(bench, after=3600)

    assert "history" not in status(api)


async def test_what_is_expected_of_a_node_is_told_when_one_was_lost() -> None:
    asked: list[tuple[str, int]] = []

    def tell(pool: Pool, past: Past, now: datetime) -> LifeTold:
        assert now.tzinfo is not None
        asked.append((pool.name, len(past.lives)))
        return LifeTold(family="a", parameters={"meanHours": 2.0}, samples=1, brier=None)

    keeping = Keeping(settings=SETTINGS, tell_life=tell)
    async with in_use() as bench:
        await write(bench, keeping=keeping)
        assert asked == []
        bench.api.remove(NODE)
        for _ in range(5):
            await write(bench, after=60, keeping=keeping)

        assert status(bench.api)["lifetime"] == {
            "family": "a",
            "parameters": {"meanHours": 2.0},
            "samples": 1,
        }
    assert asked == [("v100-spot", 1)]


@pytest.mark.looptime
async def test_it_looks_again_when_a_wait_is_over_though_nothing_happens() -> None:
    api = with_job()
    api.put(POD, unscheduled())
    async with running(api) as bench:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        bench.clock = lambda: NOW + timedelta(seconds=loop.time() - begun)
        task = asyncio.create_task(bench.cluster.pool_status.run(KEEPING))
        await asyncio.sleep(SETTINGS.capacity_wait.total_seconds() + 10)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert status(api)["availability"]["available"] is False


@pytest.mark.looptime
async def test_a_write_that_fails_is_made_up_for() -> None:
    api = with_job()
    api.put(NODE, node_object())
    api.put(POD, pod())
    api.fail("apply", "capacitypools", UnavailableError("away"), times=2)
    async with running(api) as bench:
        task = asyncio.create_task(bench.cluster.pool_status.run(KEEPING))
        await asyncio.sleep(20)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert status(api)["nodes"] == {"ready": 1, "total": 1}
    assert [one["node"] for one in status(api)["history"]["followed"]] == ["node-1"]


async def test_pools_of_the_configuration_file_are_remembered_while_the_process_lives() -> None:
    async with in_use(pools=(pool_manifest(),)) as bench:
        bench.api.remove(NODE)
        await write(bench, after=600)
        await bench.cluster.prime()
        observed = await bench.cluster.observe(KEY)

        assert writes(bench.api) == 0
    assert observed is not None
    assert [life.revoked for life in observed.pasts["v100-spot"].lives] == [True]


NOTES = "/api/v1/namespaces/ours/configmaps/ebbtide-pool-v100-spot"
IN_FILE: dict[str, Any] = {"pools": (pool_manifest(),), "notes_namespace": "ours"}


def noted(api: FakeApi) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(api.objects[NOTES]["data"]["status"])
    return found


async def test_with_a_place_for_notes_they_are_remembered_for_longer() -> None:
    async with in_use(**IN_FILE) as bench:
        api = bench.api
    before = noted(api)
    async with running(api, **IN_FILE) as bench:
        await write(bench, after=300)
        assert noted(api) == before
        api.remove(NODE)
        await write(bench, after=300)

    assert api.count("apply", "configmaps") == 2
    assert [life["seconds"] for life in noted(api)["history"]["lives"]] == [600.0]
    assert writes(api) == 0


async def test_what_may_be_noted_is_not_overwritten_before_it_is_read() -> None:
    async with in_use(**IN_FILE) as bench:
        api = bench.api
    before = noted(api)
    api.fail("read", "configmaps", UnavailableError("away"))
    async with running(api, **IN_FILE) as bench:
        with pytest.raises(UnavailableError):
            await write(bench, after=300)
        assert noted(api) == before
        await write(bench)
        observed = await bench.cluster.observe(KEY)

    assert observed is not None
    assert [one.node for one in observed.pasts["v100-spot"].followed] == ["node-1"]


@pytest.mark.parametrize("request_", ["read", "apply"])
async def test_without_the_right_to_notes_they_are_kept_in_memory_and_it_is_said_once(
    request_: str, caplog: pytest.LogCaptureFixture
) -> None:
    api = with_job()
    api.put(NODE, node_object())
    api.put(POD, pod())
    api.fail(request_, "configmaps", ForbiddenError("no right"), times=9)
    async with running(api, **IN_FILE) as bench:
        for _ in range(3):
            await write(bench, after=60)
        api.remove(NODE)
        await write(bench, after=60)
        observed = await bench.cluster.observe(KEY)

    assert observed is not None
    assert len(observed.pasts["v100-spot"].lives) == 1
    assert caplog.text.count("kept in memory only") == 1
    assert NOTES not in api.objects


@pytest.mark.parametrize("content", ["{", '{"history": 3}', "[]"])
async def test_notes_that_cannot_be_read_are_written_anew(content: str) -> None:
    api = with_job()
    api.put(NOTES, {"data": {"status": content}})
    async with running(api, **IN_FILE) as bench:
        await write(bench)

    assert noted(api) == {"nodes": {"ready": 0, "total": 0}}


async def test_a_past_that_cannot_be_read_is_forgotten_and_said_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    api = with_job()
    api.change(POOL, status={"history": {"lives": [{"since": "yesterday"}]}})
    with caplog.at_level(logging.WARNING):
        async with running(api) as bench:
            await write(bench)

    assert "v100-spot: its past is forgotten" in caplog.text
    assert status(api) == {"nodes": {"ready": 0, "total": 0}}


async def test_a_pool_that_is_gone_meanwhile_stops_nothing() -> None:
    async with in_use() as bench:
        del bench.api.objects[POOL]
        bench.api.remove(NODE)
        await write(bench, after=60)

        assert not bench.cluster.pools.records()
