"""The process beside a trainer: writes what lies in memory, and never holds the trainer up."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from ebbtide.runtime import area
from ebbtide.runtime.archive import Facts, LostDuty
from ebbtide.runtime.area import Area
from ebbtide.runtime.checkpoint import Shelf
from ebbtide.runtime.layouts import lay_out
from ebbtide.runtime.scribe import Order, Scribe, WritingError, Written

LARGE = 4_000_000  # numbers: four pieces of a write


@pytest.fixture
def scribe() -> Iterator[Scribe]:
    scribe = Scribe(silent_seconds=30.0)
    yield scribe
    scribe.close()


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "kept"


def staged(tree: Any) -> Area:
    layout, tensors = lay_out(tree)
    made = Area(layout.slots, num_bytes=layout.num_bytes)
    area.copy(zip(tensors, made.parts(), strict=True))
    made.put_header(layout)
    return made


def order(made: Area, kept: Path, *, step: int = 1, spread: float = 0.0) -> Order:
    return Order(
        memory=made.memory,
        ranges=made.ranges(),
        facts=Facts(step=step, lineage=1, world_size=2, torch_version="x"),
        url=str(kept),
        owner="w",
        retain=2,
        spread_seconds=spread,
    )


def yes() -> bool:
    return True


def process_of(scribe: Scribe) -> int:
    assert scribe._process is not None
    return scribe._process.pid


def in_thread(action: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    ends: list[object] = []

    def run() -> None:
        try:
            ends.append(action())
        except (WritingError, LostDuty) as error:
            ends.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, ends


def test_what_lies_in_memory_is_written(scribe: Scribe, kept: Path) -> None:
    tree: dict[str, Any] = {
        "w": torch.arange(1000),
        "rate": 0.5,
        "moments": {0: torch.ones(3, dtype=torch.half)},
    }

    made = staged(tree)
    written = scribe.write(order(made, kept), may_commit=yes)

    loaded = Shelf(str(kept), owner="r").load()
    assert loaded is not None
    assert loaded.manifest == written.manifest
    assert torch.equal(loaded.tree["w"], tree["w"])
    assert loaded.tree["rate"] == 0.5
    assert loaded.tree["moments"][0].dtype == torch.half


def test_a_state_without_tensors_is_written_too(scribe: Scribe, kept: Path) -> None:
    made = staged({"step": 3})
    scribe.write(order(made, kept), may_commit=yes)

    loaded = Shelf(str(kept), owner="r").load()
    assert loaded is not None
    assert loaded.tree == {"step": 3}


def test_a_refused_commit_leaves_nothing(scribe: Scribe, kept: Path) -> None:
    made = staged({"w": torch.ones(9)})

    with pytest.raises(LostDuty):
        scribe.write(order(made, kept), may_commit=lambda: False)

    assert list(kept.iterdir()) == []


def test_the_same_process_writes_one_after_the_other(scribe: Scribe, kept: Path) -> None:
    made = staged({"w": torch.ones(9)})
    for step in (1, 2, 3):
        scribe.write(order(made, kept, step=step), may_commit=yes)
    first = process_of(scribe)

    scribe.write(order(made, kept, step=4), may_commit=yes)

    assert process_of(scribe) == first
    scribe.close()  # it tidies after it has answered
    assert sorted(path.name[-2:] for path in kept.iterdir()) == ["03", "04"]


def test_a_failure_is_told_in_words_and_the_process_goes_on(scribe: Scribe, kept: Path) -> None:
    made = staged({"w": torch.ones(9)})
    kept.write_text("in the way")

    with pytest.raises(WritingError, match="give a folder, not a file"):
        scribe.write(order(made, kept), may_commit=yes)
    kept.unlink()

    assert scribe.write(order(made, kept), may_commit=yes).manifest.step == 1


@pytest.mark.parametrize(
    ("number", "words"),
    [
        pytest.param(signal.SIGSTOP, "made no progress in 1 s", id="hangs"),
        pytest.param(signal.SIGKILL, "ended with -9", id="dies"),
    ],
)
def test_a_writer_that_fails_us_is_replaced(
    scribe: Scribe,
    kept: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    words: str,
) -> None:
    made = staged({"w": torch.ones(9)})
    scribe.write(order(made, kept, step=1), may_commit=yes)

    def fail() -> bool:
        monkeypatch.setattr(scribe, "_silent_seconds", 1.0)
        os.kill(process_of(scribe), number)
        return True

    with pytest.raises(WritingError, match=words):
        scribe.write(order(made, kept, step=2), may_commit=fail)
    monkeypatch.setattr(scribe, "_silent_seconds", 30.0)

    assert scribe.write(order(made, kept, step=3), may_commit=yes).manifest.step == 3


def test_a_writer_is_given_up_at_the_deadline(scribe: Scribe, kept: Path) -> None:
    made = staged({"w": torch.ones(9)})
    scribe.start()
    os.kill(process_of(scribe), signal.SIGSTOP)

    with pytest.raises(WritingError, match="time for it is used up"):
        scribe.write(order(made, kept), may_commit=yes, deadline=time.monotonic() + 0.2)


def test_a_write_pauses_until_it_is_told_to_hurry(scribe: Scribe, kept: Path) -> None:
    made = staged({"w": torch.ones(LARGE)})
    told: list[int] = []
    began = time.monotonic()
    thread, ends = in_thread(
        lambda: scribe.write(
            order(made, kept, spread=3600.0), may_commit=yes, on_progress=told.append
        )
    )
    while not any(kept.glob(".saving-*/state*")):
        time.sleep(0.001)
    scribe.hurry()
    thread.join(30)

    assert isinstance(ends[0], Written)
    assert time.monotonic() - began < 30


def test_a_slow_write_pauses_most_of_the_time(scribe: Scribe, kept: Path) -> None:
    made = staged({"w": torch.ones(LARGE)})
    began = time.monotonic()

    written = scribe.write(order(made, kept, spread=3600.0), may_commit=yes)

    assert written.paused > (time.monotonic() - began) / 3
    fast = scribe.write(order(made, kept, step=2, spread=0.0), may_commit=yes)
    assert fast.paused < 0.1


def test_signals_that_end_a_trainer_do_not_end_its_writer(scribe: Scribe, kept: Path) -> None:
    made = staged({"w": torch.ones(9)})
    scribe.write(order(made, kept, step=1), may_commit=yes)
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(process_of(scribe), number)

    assert scribe.write(order(made, kept, step=2), may_commit=yes).manifest.step == 2


def test_a_writer_whose_trainer_is_gone_leaves_nothing(scribe: Scribe, kept: Path) -> None:
    asked, go = threading.Event(), threading.Event()

    def may_commit() -> bool:
        asked.set()
        return go.wait(10)

    made = staged({"w": torch.ones(9)})
    thread, ends = in_thread(lambda: scribe.write(order(made, kept), may_commit=may_commit))
    assert asked.wait(10)
    assert list(kept.glob(".saving-*"))
    scribe.close()
    go.set()
    thread.join(10)

    assert isinstance(ends[0], WritingError)
    assert list(kept.iterdir()) == []
