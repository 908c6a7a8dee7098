import asyncio
import base64

import pytest

from ebbtide.cluster.coordinator_client import CallRefused, CoordinatorUnreachable
from ebbtide.core.values.decision import Tell
from ebbtide.core.values.observed import CoordinatorView
from ebbtide.wire.messages import Report
from ebbtide.wire.names import COORDINATOR_PORT
from support.fake_api import FakeApi
from support.live import KEY, NOW, PODS, Bench, running, with_job
from support.objects import JOB_UID, pod_object

COORDINATOR = f"{PODS}/digits-coordinator-0-2"
SECRET = f"/api/v1/namespaces/team/secrets/ebbtide-{JOB_UID}"


def with_coordinator(**changes: object) -> FakeApi:
    api = with_job()
    token = base64.b64encode(b"secret-token").decode()
    api.put(SECRET, {"data": {"token": token}})
    api.put(COORDINATOR, pod_object(0, 2, role="coordinator", **changes))
    return api


async def view(bench: Bench) -> CoordinatorView:
    observed = await bench.cluster.observe(KEY)
    assert observed is not None
    return observed.coordinator


@pytest.mark.looptime
async def test_what_the_coordinator_says_is_part_of_the_next_look() -> None:
    async with running(with_coordinator()) as bench:
        bench.line.report = Report(attempt=2, version=1, step=7)
        assert (await view(bench)).report is None
        await asyncio.sleep(0.1)
        assert bench.woken[KEY] >= 1

        found = await view(bench)

    assert found.report is not None
    assert (found.report.step, found.heard, found.error) == (7, NOW, "")
    assert bench.dialled[0] == ("10.0.0.1", COORDINATOR_PORT, b"secret-token")


@pytest.mark.looptime
async def test_a_change_wakes_the_job_at_once_and_progress_alone_now_and_then() -> None:
    async with running(with_coordinator()) as bench:
        bench.line.report = Report(attempt=2, version=1, step=0)
        await view(bench)
        await asyncio.sleep(0.1)
        bench.woken.clear()

        bench.line.report = Report(attempt=2, version=2, step=0)
        bench.line.news.set()
        await asyncio.sleep(0.1)
        assert bench.woken[KEY] == 1

        for step in range(60):
            bench.line.report = Report(attempt=2, version=2, step=step + 1)
            await asyncio.sleep(1)

    assert 4 <= bench.woken[KEY] <= 8


@pytest.mark.looptime
async def test_a_coordinator_that_cannot_be_reached_is_told_and_tried_again() -> None:
    async with running(with_coordinator()) as bench:
        bench.line.error = CoordinatorUnreachable("the coordinator at 10.0.0.1 does not answer")
        bench.woken.clear()
        await view(bench)
        await asyncio.sleep(10)
        assert "does not answer" in (await view(bench)).error
        assert 5 <= len(bench.line.calls) <= 12
        assert bench.woken[KEY] == 1  # once, not with every try

        bench.line.error = None
        bench.line.report = Report(attempt=2, version=1)
        await asyncio.sleep(3)

        found = await view(bench)
    assert (found.error, found.report) == ("", Report(attempt=2, version=1))


@pytest.mark.looptime
async def test_the_last_word_stays_known_while_the_coordinator_is_away() -> None:
    async with running(with_coordinator()) as bench:
        bench.line.report = Report(attempt=2, version=1, step=7)
        await view(bench)
        await asyncio.sleep(0.1)
        bench.line.error = CoordinatorUnreachable("away")
        bench.line.news.set()
        await asyncio.sleep(0.1)

        found = await view(bench)

    assert found.error == "away"
    assert found.report is not None
    assert found.report.step == 7


@pytest.mark.looptime
async def test_an_answer_of_another_attempt_is_not_believed() -> None:
    async with running(with_coordinator()) as bench:
        bench.line.report = Report(attempt=1, version=9, finished=True)
        await view(bench)
        await asyncio.sleep(5)

        found = await view(bench)

    assert found.report is None
    assert "attempt 1 answers" in found.error
    assert len(bench.line.calls) < 12


@pytest.mark.looptime
async def test_the_link_goes_with_its_pod() -> None:
    api = with_coordinator()
    async with running(api) as bench:
        bench.line.report = Report(attempt=2, version=1)
        await view(bench)
        await asyncio.sleep(0.1)
        api.remove(COORDINATOR)
        await asyncio.sleep(0.1)

        assert await view(bench) == CoordinatorView()
        await asyncio.sleep(0.1)
        assert bench.line.closed >= 1


@pytest.mark.looptime
async def test_calls_do_not_wait_for_the_long_poll() -> None:
    async with running(with_coordinator()) as bench:
        bench.line.report = Report(attempt=2, version=1)
        await view(bench)
        await asyncio.sleep(0.1)  # the long poll hangs now
        observed = await bench.cluster.observe(KEY)
        assert observed is not None
        begun = asyncio.get_running_loop().time()

        tell = Tell(call="expel", worker="digits-worker-1-1")
        await bench.cluster.act(observed, [tell])

        assert asyncio.get_running_loop().time() - begun < 0.1
        assert ("expel", "digits-worker-1-1") in bench.line.calls


@pytest.mark.looptime
async def test_a_call_that_is_refused_or_unheard_does_not_stop_the_pass() -> None:
    async with running(with_coordinator()) as bench:
        bench.line.report = Report(attempt=2, version=1)
        observed = await bench.cluster.observe(KEY)
        assert observed is not None
        await asyncio.sleep(0.1)
        bench.line.error = CallRefused("no such worker")
        await bench.cluster.act(observed, [Tell(call="stop", worker="x")])
        assert (await view(bench)).error == ""

        bench.line.error = CoordinatorUnreachable("away")
        await bench.cluster.act(observed, [Tell(call="stop", worker="x")])
        assert (await view(bench)).error == "away"


@pytest.mark.looptime
async def test_without_a_token_there_is_no_call_and_a_reason() -> None:
    api = with_coordinator()
    del api.objects[SECRET]
    async with running(api) as bench:
        await view(bench)
        await asyncio.sleep(1)
        found = await view(bench)

    assert "not found" in found.error
    assert bench.dialled == []
