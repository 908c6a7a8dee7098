"""The coordinator's sockets: who gets in, and what strangers and slow readers can do."""

import asyncio
import socket
import struct

import pytest

from ebbtide.cluster.coordinator_client import (
    CallRefused,
    CoordinatorClient,
    CoordinatorUnreachable,
)
from ebbtide.coordinator import connection, server
from ebbtide.wire.frames import encode, prove
from ebbtide.wire.messages import (
    PROTOCOL,
    Answer,
    Challenge,
    Idle,
    Reached,
    Refused,
    Welcome,
)
from support.fake_job import TOKEN, make_work
from support.serving import has_ended, read, register, running


def _frame(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


async def test_a_wrong_token_is_refused_on_either_side() -> None:
    async with running() as coordinator:
        reader, writer = await coordinator.enter(token=b"guess")
        refusal = await read(reader)
        assert isinstance(refusal, Refused)
        assert "the token is wrong: 127.0.0.1:" in refusal.reason
        assert "as 'worker'" in refusal.reason
        assert await has_ended(reader)
        writer.close()

        with pytest.raises(CoordinatorUnreachable, match="token"):
            await coordinator.client(b"guess").call("status")


async def test_a_workers_proof_does_not_open_the_operators_side() -> None:
    async with running() as coordinator:
        challenge, reader, writer = await coordinator.dial()
        digest = prove(token=TOKEN, nonce=challenge.nonce, side="worker")
        writer.write(encode(Answer(protocol=PROTOCOL, side="operator", digest=digest)))

        assert isinstance(await read(reader), Refused)
        writer.close()


async def test_another_protocol_is_refused() -> None:
    async with running() as coordinator:
        challenge, reader, writer = await coordinator.dial()
        digest = prove(token=TOKEN, nonce=challenge.nonce, side="worker")
        writer.write(encode(Answer(protocol=PROTOCOL + 1, side="worker", digest=digest)))

        refusal = await read(reader)
        assert isinstance(refusal, Refused)
        assert f"speaks protocol {PROTOCOL + 1}, this coordinator {PROTOCOL}:" in refusal.reason
        writer.close()


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="another protocol's greeting"),
        pytest.param(struct.pack(">I", 0), id="an empty frame"),
        pytest.param(
            _frame(b'{"type":"answer","x":' + b"[" * 2000 + b"]" * 2000 + b"}"), id="deep"
        ),
        pytest.param(
            encode(Answer(protocol=PROTOCOL, side="worker", digest="\u00e9")), id="accent"
        ),
        pytest.param(struct.pack(">I", 5) + b"\xff\xfe\x00{]", id="no JSON"),
        pytest.param(struct.pack(">I", 17) + b'{"type": "stran"}', id="no message"),
        pytest.param(struct.pack(">I", 1 << 31), id="two gigabytes announced"),
        pytest.param(struct.pack(">I", 8192), id="more than a stranger may send"),
        pytest.param(encode(Idle(generation=0, step=0, holds_state=False)), id="out of turn"),
    ],
)
async def test_a_strangers_garbage_closes_only_its_own_connection(
    frame: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ebbtide.coordinator")
    async with running() as coordinator:
        _, good_writer = good = await coordinator.enter()
        good_writer.write(encode(register()))
        assert isinstance(await read(good[0]), Welcome)

        _, reader, writer = await coordinator.dial()
        writer.write(frame)

        assert await has_ended(reader)
        writer.close()
        report = await coordinator.client().call("status")
        assert report is not None
        assert [worker.worker for worker in report.workers] == ["w-0-1"]
        good_writer.close()
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(struct.pack(">I", 5) + b"nope!", id="no JSON"),
        pytest.param(struct.pack(">I", (1 << 20) + 1), id="an oversized frame"),
        pytest.param(encode(Idle(generation=0, step=0, holds_state=True))[:-1] + b"!", id="broken"),
        pytest.param(encode(Reached(step=10**400)), id="a number beyond all"),
    ],
)
async def test_a_members_garbage_loses_that_member_alone(frame: bytes) -> None:
    async with running() as coordinator:
        reader, writer = await coordinator.enter()
        writer.write(encode(register("w-0-1")) + frame)
        assert await has_ended(reader)
        writer.close()

        reader, writer = await coordinator.enter()
        writer.write(encode(register("w-0-2")))
        assert isinstance(await read(reader), Welcome)
        writer.close()


async def test_who_says_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "GREETING_SECONDS", 0.1)
    async with running() as coordinator:
        _, reader, writer = await coordinator.dial()
        assert await has_ended(reader)
        writer.close()

        reader, writer = await coordinator.enter()  # proven, but never registers
        assert await has_ended(reader)
        writer.close()


async def test_a_reader_that_does_not_read_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_UNSENT_BYTES", 10_000)
    async with running() as coordinator:
        _reader, writer = await coordinator.enter(side="operator")
        question = struct.pack(">I", 40) + b'{"type":"call","id":1,"name":"status"}  '
        try:
            async with asyncio.timeout(20.0):
                while True:
                    writer.write(question * 100)
                    await writer.drain()
                    await asyncio.sleep(0)
        except ConnectionError:
            pass
        writer.close()

        assert await coordinator.client().call("status") is not None


async def test_a_status_call_waits_for_a_change() -> None:
    async with running() as coordinator:
        client, other = coordinator.client(), coordinator.client()
        first = await client.call("status")
        assert first is not None

        waiting = asyncio.create_task(client.call("status", since=first.version, wait=10.0))
        await other.call("configure", work=make_work(desired=3))
        async with asyncio.timeout(5.0):
            second = await waiting

        assert second is not None
        assert second.version > first.version
        assert second.work == make_work(desired=3)


async def test_a_status_call_is_answered_when_its_time_is_up() -> None:
    async with running() as coordinator:
        client = coordinator.client()
        first = await client.call("status")
        assert first is not None

        again = await client.call("status", since=first.version, wait=0.2)

        assert again is not None
        assert again.version == first.version


async def test_a_call_that_cannot_be_done_is_refused_and_the_line_stays_open() -> None:
    async with running() as coordinator:
        client = coordinator.client()

        with pytest.raises(CallRefused, match="not done"):
            await client.call("finish")

        assert await client.call("status") is not None


async def test_a_coordinator_that_is_not_there_is_unreachable() -> None:
    async with running() as coordinator:
        port = coordinator.port

    with pytest.raises(CoordinatorUnreachable):
        await CoordinatorClient("127.0.0.1", port, TOKEN).call("status")


async def test_a_coordinator_that_does_not_answer_is_unreachable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ebbtide.cluster.coordinator_client.CONNECT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listener:  # the kernel accepts, nobody speaks
        port = listener.getsockname()[1]
        with pytest.raises(CoordinatorUnreachable, match="does not answer"):
            await CoordinatorClient("127.0.0.1", port, TOKEN).call("status")


async def test_one_address_cannot_hold_all_places_of_strangers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "MAX_STRANGERS", 4)
    async with running() as coordinator:
        silent = [await coordinator.dial() for _ in range(4)]
        reader, fifth = await asyncio.open_connection("127.0.0.1", coordinator.port)
        assert isinstance(await read(reader), Refused)

        reader, writer = await asyncio.open_connection(
            "127.0.0.1", coordinator.port, local_addr=("127.0.0.2", 0)
        )
        challenge = await read(reader)
        assert isinstance(challenge, Challenge)
        digest = prove(token=TOKEN, nonce=challenge.nonce, side="worker")
        writer.write(encode(Answer(protocol=PROTOCOL, side="worker", digest=digest)))
        writer.write(encode(register()))

        assert isinstance(await read(reader), Welcome)
        assert await has_ended(silent[0][1])
        for opened in (writer, fifth, *(writer for _, _, writer in silent)):
            opened.close()


async def test_what_a_stranger_sends_cannot_look_like_a_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "ebbtide.coordinator")
    async with running() as coordinator:
        _, reader, writer = await coordinator.dial()
        body = b'{"type": "x\\n2026-01-01 coordinator: all steps are done"}'
        writer.write(struct.pack(">I", len(body)) + body)
        assert await has_ended(reader)
        writer.close()

    said = [record.getMessage() for record in caplog.records]
    assert any("all steps are done" in line for line in said)
    assert not any("\n" in line for line in said)
