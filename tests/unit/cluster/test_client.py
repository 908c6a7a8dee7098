import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from ebbtide.cluster import errors
from ebbtide.cluster.client import Client, Limits, Login

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
PODS = "/api/v1/namespaces/team/pods"


@contextlib.asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[int]:
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def kubeconfig(folder: Path, port: int, *, word: str = "first") -> Path:
    path = folder / "config"
    content = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {"token": word}}],
    }
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


class Sleeps:
    """Sleeps no time and keeps how long it should have been."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@contextlib.asynccontextmanager
async def client_of(
    folder: Path, handler: Handler, **limits: Any
) -> AsyncIterator[tuple[Client, Sleeps]]:
    sleeps = Sleeps()
    async with serving(handler) as port:
        login = Login(kubeconfig=kubeconfig(folder, port))
        async with Client(login, limits=Limits(**limits), sleep=sleeps) as client:
            yield client, sleeps


def refusal(status: int, **headers: str) -> web.Response:
    body = {"kind": "Status", "message": f"said {status}", "code": status}
    return web.json_response(body, status=status, headers=headers)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.RejectedError),
        (401, errors.CredentialsError),
        (403, errors.ForbiddenError),
        (404, errors.NotFoundError),
        (409, errors.ConflictError),
        (410, errors.GoneError),
        (413, errors.RejectedError),
        (422, errors.RejectedError),
        (429, errors.ThrottledError),
        (500, errors.UnavailableError),
        (503, errors.UnavailableError),
    ],
)
async def test_an_answer_becomes_our_error_with_the_servers_words(
    tmp_path: Path, status: int, kind: type[errors.ClusterError]
) -> None:
    async def answer(_: web.Request) -> web.Response:
        return refusal(status)

    async with client_of(tmp_path, answer, attempts=1) as (client, _):
        with pytest.raises(kind) as found:
            await client.read(PODS)

    assert type(found.value) is kind
    assert f"said {status}" in found.value.message
    assert found.value.__cause__ is not None


async def test_what_may_pass_is_tried_again_with_growing_delays(tmp_path: Path) -> None:
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.method)
        return refusal(503) if len(seen) < 4 else web.json_response({"kind": "Pod"})

    async with client_of(tmp_path, answer, first_delay=0.2) as (client, sleeps):
        assert json.loads(await client.create(PODS, {"metadata": {"name": "a"}})) == {"kind": "Pod"}

    assert seen == ["POST"] * 4
    assert len(sleeps.seconds) == 3
    for slept, least in zip(sleeps.seconds, [0.2, 0.4, 0.8], strict=True):
        assert least <= slept <= 1.5 * least


async def test_a_throttled_client_waits_as_long_as_it_is_told(tmp_path: Path) -> None:
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.path)
        return refusal(429, **{"Retry-After": "7"}) if len(seen) == 1 else web.json_response({})

    async with client_of(tmp_path, answer) as (client, sleeps):
        await client.read(PODS)

    assert sleeps.seconds[0] >= 7


async def test_a_refusal_is_not_tried_again(tmp_path: Path) -> None:
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.path)
        return refusal(422)

    async with client_of(tmp_path, answer) as (client, _):
        with pytest.raises(errors.RejectedError):
            await client.create(PODS, {"metadata": {"name": "a"}})

    assert len(seen) == 1


async def test_credentials_are_read_again_when_the_server_does_not_know_them(
    tmp_path: Path,
) -> None:
    # B043
    async def answer(request: web.Request) -> web.Response:
        known = request.headers.get("Authorization") == "Bearer second"
        return web.json_response({}) if known else refusal(401)

    async with serving(answer) as port:
        login = Login(kubeconfig=kubeconfig(tmp_path, port))
        async with Client(login, sleep=Sleeps()) as client:
            kubeconfig(tmp_path, port, word="second")
            await client.read(PODS)


async def test_a_server_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    async def answer(_: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return web.json_response({})

    async with client_of(tmp_path, answer, attempts=2, request_seconds=0.05) as (client, _):
        with pytest.raises(errors.UnavailableError, match="no answer to get"):
            await client.read(PODS)


async def test_no_server_at_all_is_unavailable(tmp_path: Path) -> None:
    login = Login(kubeconfig=kubeconfig(tmp_path, 1))
    async with Client(login, sleep=Sleeps()) as client:
        with pytest.raises(errors.UnavailableError):
            await client.read(PODS)


async def test_only_so_many_requests_run_at_once(tmp_path: Path) -> None:
    running, most = 0, 0

    async def answer(_: web.Request) -> web.Response:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return web.json_response({})

    async with client_of(tmp_path, answer, concurrency=3) as (client, _):
        await asyncio.gather(*(client.read(f"{PODS}/{number}") for number in range(12)))

    assert most == 3


async def test_parameters_and_bodies_arrive_as_they_are(tmp_path: Path) -> None:
    seen: list[tuple[str, str, str, Any]] = []

    async def answer(request: web.Request) -> web.Response:
        text = await request.text()
        seen.append(
            (request.method, request.path_qs, request.content_type, json.loads(text or "null"))
        )
        return web.json_response({})

    async with client_of(tmp_path, answer) as (client, _):
        await client.read(PODS, {"labelSelector": "a/b", "limit": "5"})
        await client.apply(f"{PODS}/a/status", {"status": {"n": 1}}, manager="ebbtide")
        await client.patch(f"{PODS}/a", {"spec": {"b": None}})
        await client.delete(f"{PODS}/a", {"preconditions": {"uid": "u"}})

    assert seen[0][:2] == ("GET", f"{PODS}?labelSelector=a/b&limit=5")
    assert seen[1] == (
        "PATCH",
        f"{PODS}/a/status?fieldManager=ebbtide&force=true",
        "application/apply-patch+yaml",
        {"status": {"n": 1}},
    )
    assert seen[2][2:] == ("application/merge-patch+json", {"spec": {"b": None}})
    assert seen[3][0] == "DELETE"
    assert seen[3][3] == {"preconditions": {"uid": "u"}}


async def test_a_watch_gives_lines_as_they_come(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type": "ADDED"}\n{"type":')
        await response.write(b' "DELETED"}\n')
        return response

    async with (
        client_of(tmp_path, answer) as (client, _),
        client.stream(PODS, {"watch": "true"}) as lines,
    ):
        found = [line async for line in lines]

    assert found == [b'{"type": "ADDED"}\n', b'{"type": "DELETED"}\n']


async def test_a_watch_that_falls_silent_is_noticed(tmp_path: Path) -> None:
    # B035: the connection stands, and nothing comes.
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type": "ADDED"}\n')
        await asyncio.sleep(60)
        return response

    found: list[bytes] = []

    async def follow(client: Client) -> None:
        async with client.stream(PODS, {"watch": "true"}) as lines:
            async for line in lines:
                found.append(line)  # noqa: PERF401 -- what came before the silence must be kept

    async with client_of(tmp_path, answer, silent_seconds=0.1) as (client, _):
        with pytest.raises(errors.UnavailableError, match="no answer to watch"):
            await follow(client)

    assert len(found) == 1


async def test_a_kubeconfig_that_is_not_there_is_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(errors.CredentialsError, match="no usable credentials"):
        async with Client(Login(kubeconfig=tmp_path / "missing")):
            pass


@pytest.mark.parametrize(("told", "most"), [("86400", 90.0), ("inf", 1.5), ("nan", 1.5)])
async def test_a_throttled_client_does_not_wait_for_ever(
    tmp_path: Path, told: str, most: float
) -> None:
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.path)
        return refusal(429, **{"Retry-After": told}) if len(seen) == 1 else web.json_response({})

    async with client_of(tmp_path, answer) as (client, sleeps):
        await client.read(PODS)

    assert len(sleeps.seconds) == 1
    assert 0.0 < sleeps.seconds[0] <= most


async def test_a_new_login_breaks_no_request_that_is_under_way(tmp_path: Path) -> None:
    arrived, go_on = asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        if request.path.endswith("/slow"):
            arrived.set()
            await go_on.wait()
            return web.json_response({})
        known = request.headers.get("Authorization") == "Bearer second"
        return web.json_response({}) if known else refusal(401)

    async with serving(answer) as port:
        login = Login(kubeconfig=kubeconfig(tmp_path, port))
        async with Client(login, sleep=Sleeps()) as client:
            slow = asyncio.create_task(client.read(f"{PODS}/slow"))
            await arrived.wait()
            kubeconfig(tmp_path, port, word="second")

            # All are refused at once and all want a new login.
            await asyncio.gather(*(client.read(f"{PODS}/{number}") for number in range(20)))

            go_on.set()
            assert await slow == b"{}"
