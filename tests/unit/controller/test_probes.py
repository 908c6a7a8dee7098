import asyncio

import pytest

from ebbtide.cluster.errors import UnavailableError
from ebbtide.controller.probes import find_silent, find_unread
from support.fake_api import FakeApi
from support.live import running, with_job


@pytest.mark.looptime
async def test_a_watch_that_makes_no_progress_turns_the_probe_red() -> None:
    # B035
    api = with_job()
    async with running(api) as bench:
        watches = bench.cluster.watches
        assert find_silent(watches) == ""
        api.fail("stream", "/pods", UnavailableError("refused"), times=10_000)
        api.fail("read", "/pods", UnavailableError("refused"), times=10_000)
        api.end_watches()

        await asyncio.sleep(200)

        assert find_silent(watches).startswith("no news for 150 s from /api/v1/pods")


@pytest.mark.looptime
async def test_what_has_not_been_listed_is_named_until_it_has() -> None:
    api = FakeApi()
    api.fail("read", "/nodes", UnavailableError("refused"), times=3)
    found: list[str] = []

    async def look() -> None:
        async with running(api) as bench:
            found.append(find_unread(bench.cluster.watches))

    await look()

    assert found == [""]
    assert api.count("read", "/nodes") == 4
