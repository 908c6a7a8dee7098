"""The coordinator's `/metrics`: who may ask for what, and what strangers cannot do."""

import asyncio
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ebbtide.coordinator import exposition
from support.fake_job import TOKEN
from support.serving import running

from .conftest import MakeJob


async def ask(port: int, request: bytes) -> bytes:
    """Send bytes, and return all that comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    writer.write_eof()
    async with asyncio.timeout(5):
        answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_metrics_are_text_that_anybody_may_read_and_that_holds_no_secret() -> None:
    async with running() as coordinator:
        answer = await ask(coordinator.server.metrics_port, b"GET /metrics HTTP/1.1\r\n\r\n")

    head, _, body = answer.decode().partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 200 OK\r\n")
    assert "Content-Type: text/plain; version=0.0.4" in head
    assert f"Content-Length: {len(body.encode())}" in head
    assert "Connection: close" in head
    assert TOKEN.decode() not in answer.decode()
    names = {family.name for family in text_string_to_metric_families(body)}
    assert "ebbtide_trainer_step" in names


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        pytest.param(b"GET /metrics?x=1 HTTP/1.0\r\n\r\n", 200, id="a query"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", 404, id="another page"),
        pytest.param(b"GET /metrics/../token HTTP/1.1\r\n\r\n", 404, id="a way around"),
        pytest.param(b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 405, id="a post"),
        pytest.param(b"GET /metrics\r\n\r\n", 400, id="no version"),
        pytest.param(b"\x00\xff\r\n\r\n", 400, id="no words"),
        pytest.param(b"GET /metrics HTTP/1.1\r\n", 400, id="cut off"),
        pytest.param(b"GET /" + b"a" * 20_000, 431, id="too long"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 5000 + b"\r\n", 431, id="many headers"),
    ],
)
async def test_all_else_is_refused_in_the_words_of_http(request_: bytes, status: int) -> None:
    async with running() as coordinator:
        answer = await ask(coordinator.server.metrics_port, request_)
        again = await ask(coordinator.server.metrics_port, b"GET /metrics HTTP/1.1\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert again.startswith(b"HTTP/1.1 200 ")


async def test_who_says_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "ASK_SECONDS", 0.05)
    async with running() as coordinator:
        reader, writer = await asyncio.open_connection("127.0.0.1", coordinator.server.metrics_port)
        async with asyncio.timeout(5):
            assert await reader.read() == b""
        writer.close()


async def test_a_crowd_is_not_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "MAX_CALLERS", 2)
    async with running() as coordinator:
        port = coordinator.server.metrics_port
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        async with asyncio.timeout(5):
            answer = await held[-1][0].read()
        for _, writer in held:
            writer.close()
            await writer.wait_closed()

    assert answer.startswith(b"HTTP/1.1 503 ")


def scrape(port: int) -> dict[tuple[str, ...], float]:
    """All series of a coordinator, by name, part of the step and kind of GPU where they have it."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    return {
        (
            sample.name.removeprefix("ebbtide_trainer_"),
            *(sample.labels[label] for label in ("part", "gpu") if label in sample.labels),
        ): sample.value
        for family in families
        for sample in family.samples
    }


def test_a_job_that_trains_tells_where_its_time_goes(make_job: MakeJob) -> None:
    job = make_job("--pause", "0.02", steps=10_000)
    job.start(workers=2)
    job.await_step(80)

    series = scrape(job.metrics_port)

    compute, communication = (
        series["step_part_seconds", part, ""] for part in ("compute", "communication")
    )
    assert compute + communication <= series["step_seconds", ""]
    assert compute >= 0.02, "the pause is computing"
    assert series["local_batch_samples", ""] == 8
    assert series["gradient_tensors", ""] == 6
    assert series["gradient_bytes", ""] == 4 * (12 * 16 + 16 + 16 + 16 + 16 * 3 + 3)
    assert series["peak_memory_bytes", ""] > 10 << 20
    assert series["step",] >= 80


def test_who_waits_for_the_slowest_is_idle_and_does_not_communicate(make_job: MakeJob) -> None:
    job = make_job("--pause-per-sample", "0.01", "--slow-gpu", "slow", steps=10_000)
    job.start_coordinator()
    job.start_worker(0, EBBTIDE_GPU="fast")
    job.start_worker(1, EBBTIDE_GPU="slow")
    job.await_step(8)  # the step in which they meet has been; shares are still equal

    series = scrape(job.metrics_port)

    fast, slow = (series["step_part_seconds", "idle", gpu] for gpu in ("fast", "slow"))
    # 8 samples take 0.08 s on one and 0.24 s on the other.
    assert fast > 0.1
    assert fast > 2 * slow
    assert fast > 5 * series["step_part_seconds", "communication", "fast"]
    assert series["step_part_seconds", "compute", "slow"] >= 0.24
