"""The state goes from one to all, a piece at a time, and nobody is left with half of one."""

import queue
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
import torch
from torch import Tensor, nn

from ebbtide.runtime import streams, synchronizing
from ebbtide.runtime.collective import WAITING
from ebbtide.runtime.errors import CollectiveBroken, MismatchError
from ebbtide.runtime.state import TrainState
from ebbtide.runtime.synchronizing import Position
from support.packing import pack

DATA = {"seed": 1, "samples": 100, "global_batch_size": 10}


class Wire:
    """Broadcasts from one thread to another; breaks after so many, as a lost member does."""

    def __init__(self, *, breaks_after: int = 1 << 30) -> None:
        self._pieces: queue.Queue[Tensor | None] = queue.Queue(maxsize=2)
        self._breaks_after = breaks_after
        self.sizes: list[int] = []

    def broadcast(self, tensor: Tensor, *, source: int, within: timedelta = WAITING) -> None:
        """Give a piece to the other end."""
        if len(self.sizes) >= self._breaks_after:
            self._pieces.put(None)
            raise CollectiveBroken("the other end is gone")
        self.sizes.append(tensor.numel() * tensor.element_size())
        self._pieces.put(tensor.clone())

    def take(self, tensor: Tensor) -> None:
        """Take a piece from the other end."""
        piece = self._pieces.get(timeout=10)
        if piece is None:
            raise CollectiveBroken("the source is gone")
        tensor.copy_(piece)


class Far:
    """The receiving end of a wire."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def broadcast(self, tensor: Tensor, *, source: int, within: timedelta = WAITING) -> None:
        self._wire.take(tensor)


def make_state(seed: int, *, steps: int = 0, width: int = 8) -> TrainState:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    state = TrainState(model, optimizer)
    state.track(average=torch.full((5,), float(seed)))
    for _ in range(steps):
        model(torch.randn(4, 3)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return state


def at(step: int, *, lineage: int = 1) -> Position:
    return Position(step=step, lineage=lineage, layout=DATA)


def pass_on(
    source: TrainState,
    target: TrainState,
    *,
    held: Position | None = None,
    wire: Wire | None = None,
    data: dict[str, int] = DATA,
) -> Position:
    used = wire or Wire()

    def send() -> None:
        try:
            synchronizing.send(used, source, at(7), source=0)
        except CollectiveBroken:
            return

    thread = threading.Thread(target=send)
    thread.start()
    try:
        return synchronizing.receive(Far(used), target, held, source=0, layout=data)
    finally:
        thread.join(10)


def fingerprint(state: TrainState) -> tuple[bytes, list[int]]:
    packed = pack(state.take())
    return packed.header, packed.flat.tolist()


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "CHUNK", 64)


def test_a_newcomer_takes_the_state_into_its_own_tensors() -> None:
    source, target = make_state(1, steps=3), make_state(2)
    places = [parameter.data_ptr() for parameter in target.model.parameters()]

    position = pass_on(source, target)

    assert position == at(7)
    assert fingerprint(target) == fingerprint(source)
    assert [parameter.data_ptr() for parameter in target.model.parameters()] == places


def test_no_piece_is_larger_than_the_buffer_whatever_the_state_is() -> None:
    wire = Wire()

    pass_on(make_state(1, steps=1, width=500), make_state(2, width=500), wire=wire)

    size, _, *pieces = wire.sizes
    assert size == 8
    assert len(pieces) > 100
    assert max(pieces) == 64
    assert sum(pieces) > 20_000


def test_who_holds_the_same_step_lets_it_pass() -> None:
    source, target = make_state(1, steps=3), make_state(2, steps=3)
    before = fingerprint(target)

    position = pass_on(source, target, held=at(7))

    assert position == at(7)
    assert fingerprint(target) == before


@pytest.mark.parametrize(
    "held", [pytest.param(at(6), id="a step behind"), pytest.param(at(7, lineage=0), id="lineage")]
)
def test_who_holds_another_state_gets_the_new_one(held: Position) -> None:
    source, target = make_state(1, steps=3), make_state(2, steps=2)

    pass_on(source, target, held=held)

    assert fingerprint(target) == fingerprint(source)


@pytest.mark.parametrize("pieces", [0, 1, 2, 3, 6])
def test_who_holds_an_older_state_keeps_it_when_the_source_is_lost(pieces: int) -> None:
    source, target = make_state(1, steps=3), make_state(2, steps=2)
    before = fingerprint(target)

    with pytest.raises(CollectiveBroken):
        pass_on(source, target, held=at(6), wire=Wire(breaks_after=pieces))

    assert fingerprint(target) == before


def test_a_newcomer_is_told_when_the_source_is_lost_in_the_middle() -> None:
    with pytest.raises(CollectiveBroken):
        pass_on(make_state(1, steps=3), make_state(2), wire=Wire(breaks_after=4))


def test_another_model_is_refused_before_anything_is_read_into() -> None:
    source, target = make_state(1, steps=1), make_state(2, width=9)
    before = fingerprint(target)

    with pytest.raises(MismatchError, match=r"0\.bias was float32 \[8\] and is float32 \[9\]"):
        pass_on(source, target, wire=Wire(breaks_after=2))

    assert fingerprint(target) == before


def test_other_data_is_refused_with_both_sides() -> None:
    with pytest.raises(MismatchError, match="samples was 100 and is 200"):
        pass_on(
            make_state(1),
            make_state(2),
            wire=Wire(breaks_after=2),
            data={**DATA, "samples": 200},
        )


def say_size(size: int) -> Callable[[Wire], None]:
    return lambda wire: wire.broadcast(torch.tensor([size]), source=0)


def say_header(text: bytes) -> Callable[[Wire], None]:
    def say(wire: Wire) -> None:
        wire.broadcast(torch.tensor([len(text)]), source=0)
        wire.broadcast(torch.frombuffer(bytearray(text), dtype=torch.uint8), source=0)

    return say


@pytest.mark.parametrize(
    "say",
    [
        pytest.param(say_size(0), id="no header"),
        pytest.param(say_size(-1), id="a negative size"),
        pytest.param(say_size(1 << 40), id="more than there is memory"),
        pytest.param(say_header(b"{}"), id="an empty header"),
        pytest.param(say_header(b'{"__metadata__": {"ebbtide": "[\\"v\\", 1]"}}'), id="no place"),
    ],
)
def test_what_cannot_be_a_state_breaks_the_generation(say: Callable[[Wire], None]) -> None:
    wire = Wire()
    say(wire)

    with pytest.raises(CollectiveBroken):
        synchronizing.receive(Far(wire), make_state(1), None, source=0, layout=DATA)
