from dataclasses import replace
from decimal import Decimal

import aiohttp

from ebbtide.controller.metrics import Metrics
from ebbtide.controller.server import Server
from ebbtide.core.values.job import JobKey
from ebbtide.core.values.status import Cost, Counters, JobStatus, Progress

KEY = JobKey("team", "digits")
STATUS = JobStatus(
    progress=Progress(step=120, steps=600),
    counters=Counters(revocations=3, failures=1, steps_lost=7),
    cost=Cost(spent_usd=Decimal("1.25")),
)
LABELS = {"namespace": "team", "trainingjob": "digits"}


async def fetch(port: int, path: str) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}{path}") as response,
    ):
        return response.status, await response.text()


def test_a_job_has_series_of_its_own_as_long_as_it_is_there() -> None:
    metrics = Metrics()
    metrics.saw(KEY, STATUS)
    value = metrics.registry.get_sample_value

    assert value("ebbtide_job_steps_total", LABELS) == 120
    assert value("ebbtide_job_steps_lost_total", LABELS) == 7
    assert value("ebbtide_job_revocations_total", LABELS) == 3
    assert value("ebbtide_job_failures_total", LABELS) == 1
    assert value("ebbtide_job_cost_usd_total", LABELS) == 1.25

    metrics.saw(KEY, replace(STATUS, progress=Progress(step=121)))
    assert value("ebbtide_job_steps_total", LABELS) == 121

    metrics.forget(KEY)
    assert value("ebbtide_job_steps_total", LABELS) is None


async def test_a_probe_is_red_with_the_reason_and_green_without() -> None:
    trouble = ["no news for 150 s"]
    server = Server(host="127.0.0.1", port=0)
    server.probe("/healthz", lambda: trouble[0])
    await server.start()
    try:
        assert await fetch(server.port, "/healthz") == (503, "no news for 150 s")
        trouble[0] = ""
        assert await fetch(server.port, "/healthz") == (200, "ok")
    finally:
        await server.stop()


async def test_metrics_are_brought_up_to_date_when_they_are_asked_for() -> None:
    metrics = Metrics()
    server = Server(host="127.0.0.1", port=0)
    server.metrics(metrics.registry, lambda: metrics.queue_depth.set(42))
    await server.start()
    try:
        status, text = await fetch(server.port, "/metrics")
    finally:
        await server.stop()

    assert status == 200
    assert "ebbtide_queue_depth 42.0" in text
    assert "ebbtide_build_info" in text
