"""
What strangers and broken members may send to a coordinator, and what must come of it: nothing.

Inputs are byte streams, one for each connection, drawn from a seeded generator: random bytes,
lying lengths, and messages of the protocol with fields that are missing, of another type, absurdly
large, nested or doubled, cut off or with flipped bits; before or after a valid greeting.
"""

import asyncio
import contextlib
import json
import logging
import random
import struct
import types
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Union, get_args, get_origin

import msgspec
from typing_extensions import override

from ebbtide.wire.frames import encode, prove
from ebbtide.wire.messages import (
    LARGEST,
    PROTOCOL,
    Answer,
    Call,
    Canary,
    Challenge,
    FromWorker,
    Heartbeat,
    Idle,
    Message,
    Register,
)
from support.fake_job import TOKEN, make_work
from support.serving import Running, read, register, running

LIMIT_SECONDS: Final = 20.0
AT_ONCE: Final = 16
WITNESS: Final = "witness-0-1"
STEPS: Final = LARGEST + 1
"""More than anybody can claim: the job must not be talked into being done."""
_NAMES: Final = ("w-0-1", "w-1-1", "w-1-2", "", "x" * 300, "\u00e9\x00", "../../etc")
_NUMBERS: Final = (0, 1, -1, 2, 7, 255, 2**31, -(2**63), 2**64, LARGEST, -LARGEST, 10**30)
_FLOATS: Final = (0.0, -1.0, 0.25, 1e308, -1e308, 5e-324, 3)
_STRANGE: Final[tuple[Any, ...]] = (
    None, True, [], {}, "", "true", [[]], {"type": "register"}, 1e400, -0.0,
)  # fmt: skip
KINDS: Final = (*get_args(FromWorker), Canary, Call, Register)


@dataclass(frozen=True, slots=True)
class Input:
    """What one connection sends; `side` empty: without a greeting."""

    side: str
    stream: bytes


def draw(chance: random.Random) -> Input:
    """Draw one connection's words."""
    if chance.random() < 0.2:
        return Input("", chance.randbytes(chance.choice((0, 1, 3, 4, 5, 17, 300))))
    side = chance.choice(("", "worker", "worker", "worker", "operator"))
    frames = [_frame(chance) for _ in range(chance.randint(1, 4))]
    if side == "worker" and chance.random() < 0.7:
        frames.insert(0, encode(_member(chance)))
    return Input(side, b"".join(frames))


def _member(chance: random.Random) -> Register:
    said = register(chance.choice(("w-0-1", "w-1-1", "w-1-2")))
    return msgspec.structs.replace(
        said, index=chance.randint(0, 3), generation=chance.choice((0, 0, 0, 1, 1_000_001))
    )


def _frame(chance: random.Random) -> bytes:
    body = bytearray(_body(chance))
    for _ in range(chance.choice((0, 0, 0, 1, 3))):
        if body:
            body[chance.randrange(len(body))] = chance.randrange(256)
    if chance.random() < 0.1:
        body = body[: chance.randint(0, len(body))]
    length = len(body)
    if chance.random() < 0.1:
        length = chance.choice((0, 1, length + 1, 1 << 20, (1 << 20) + 1, 1 << 31, (1 << 32) - 1))
    return struct.pack(">I", length) + bytes(body)


def _body(chance: random.Random) -> bytes:
    fields = draw_message(chance, chance.choice(KINDS))
    for _ in range(chance.choice((0, 0, 1, 2))):
        key = chance.choice(list(fields))
        match chance.randrange(4):
            case 0:
                del fields[key]
            case 1:
                fields[key] = chance.choice(_STRANGE)
            case 2:
                fields[key + "!"] = fields[key]
            case _:
                fields[key] = _nest(chance.choice((3, 50, 400)))
        if not fields:
            break
    return json.dumps(fields).encode()


def _nest(depth: int) -> Any:
    found: Any = 0
    for _ in range(depth):
        found = [found]
    return found


def draw_message(chance: random.Random, kind: type[Message]) -> dict[str, Any]:
    """Draw a message of a kind with fields of the right types."""
    drawn: dict[str, Any] = {"type": kind.__struct_config__.tag}
    for each in msgspec.structs.fields(kind):
        drawn[each.encode_name] = _value(chance, each.type)
    return drawn


def _value(chance: random.Random, kind: Any) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _value(chance, inner[0])
    if origin in (Union, types.UnionType):
        return _value(chance, chance.choice(inner))
    if origin in (tuple, list, dict) or kind in (dict, list, tuple):
        return [_value(chance, inner[0]) for _ in range(chance.randint(0, 3))] if inner else []
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return {f.encode_name: _value(chance, f.type) for f in msgspec.structs.fields(kind)}
    plain: dict[Any, tuple[Any, ...]] = {
        int: _NUMBERS, float: _FLOATS, str: _NAMES, bool: (True, False), type(None): (None,),
    }  # fmt: skip
    return chance.choice(plain.get(kind, _STRANGE))


# ---------------------------------------------------------------- playing


@dataclass(slots=True)
class Outcome:
    """What became of the coordinator."""

    inputs: int = 0
    faults: list[str] = field(default_factory=list)  # errors that it logged
    hung: int = 0  # connections that it did not end
    witness_lost: bool = False
    answers: bool = False
    grown_bytes: int = 0


async def play(inputs: int, *, seed: int) -> Outcome:
    """Send so many inputs to a coordinator in this process, beside an honest member."""
    chance, outcome = random.Random(seed), Outcome()
    async with running(make_work(steps=STEPS)) as coordinator:
        with _listening(outcome):
            async with _witness(coordinator, outcome):
                await _send_some(coordinator, chance, outcome, inputs=min(inputs, 500))
                before = _resident_bytes()
                await _send_some(coordinator, chance, outcome, inputs=inputs - outcome.inputs)
                outcome.grown_bytes = _resident_bytes() - before
                report = await coordinator.client().call("status")
                states = {w.worker: w.state for w in report.workers} if report else {}
                outcome.answers = states.get(WITNESS) in {"member", "spare"}
    return outcome


async def _send_some(
    coordinator: Running, chance: random.Random, outcome: Outcome, *, inputs: int
) -> None:
    for start in range(0, inputs, AT_ONCE):
        drawn = [draw(chance) for _ in range(min(AT_ONCE, inputs - start))]
        ended = await asyncio.gather(*(_send(coordinator, each) for each in drawn))
        outcome.inputs += len(ended)
        outcome.hung += ended.count(False)


async def _send(coordinator: Running, given: Input) -> bool:
    """Say it on a connection of its own; tell whether the other end closed that."""
    reader, writer = await asyncio.open_connection("127.0.0.1", coordinator.port)
    try:
        async with asyncio.timeout(LIMIT_SECONDS):
            challenge = await read(reader)
            if given.side and isinstance(challenge, Challenge):
                digest = prove(token=TOKEN, nonce=challenge.nonce, side=given.side)
                answer = Answer(protocol=PROTOCOL, side=given.side, digest=digest)
                writer.write(encode(answer))
            writer.write(given.stream)
            writer.write_eof()
            while await reader.read(1 << 16):
                pass
    except TimeoutError:
        return False
    except OSError:
        return True
    finally:
        writer.close()
    return True


@contextlib.asynccontextmanager
async def _witness(coordinator: Running, outcome: Outcome) -> AsyncIterator[None]:
    """Be an honest member all the while: beat, and see that nobody hangs up."""
    reader, writer = await coordinator.enter()
    said = msgspec.structs.replace(register(WITNESS), index=9)
    writer.write(encode(said) + encode(Idle(generation=0, step=0, holds_state=False)))

    async def beat() -> None:
        while True:
            writer.write(encode(Heartbeat(generation=0, step=0)))
            await asyncio.sleep(0.1)

    async def listen() -> None:
        with contextlib.suppress(OSError):
            while await reader.read(1 << 16):
                pass
        outcome.witness_lost = True

    tasks = [asyncio.create_task(beat()), asyncio.create_task(listen())]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        writer.close()


class _Faults(logging.Handler):
    """Notes the errors that are logged."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(logging.ERROR)
        self._outcome = outcome

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self._outcome.faults.append(f"{record.getMessage()}: {record.exc_info}")


@contextlib.contextmanager
def _listening(outcome: Outcome) -> Iterator[None]:
    """Hear of errors alone: lines about each bad connection would fill the memory of the test."""
    log, handler = logging.getLogger("ebbtide.coordinator"), _Faults(outcome)
    level, log.propagate = log.level, False
    log.setLevel(logging.ERROR)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = True


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096
