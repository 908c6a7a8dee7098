"""Saves off the training thread: what is saved is the state of the moment it was asked for."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from ebbtide.runtime.checkpoint import Shelf
from ebbtide.runtime.staging import Save, Saver


@dataclass(slots=True, kw_only=True)
class Heard:
    committed_steps: list[int] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def committed(self, *, step: int, seconds: float, num_bytes: int) -> None:
        assert seconds >= 0
        assert num_bytes > 0
        self.committed_steps.append(step)

    def failed(self, *, step: int, error: str) -> None:
        self.failures.append(error)


@dataclass(slots=True, kw_only=True)
class Gate:
    """Answers whether a save may commit, and only when the test lets it."""

    opened: threading.Event = field(default_factory=threading.Event)
    asked: threading.Event = field(default_factory=threading.Event)
    answer: bool = True

    def __call__(self) -> bool:
        self.asked.set()
        assert self.opened.wait(10)
        return self.answer


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.opened.set()


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def saver(tmp_path: Path, gate: Gate, heard: Heard) -> Iterator[Saver]:
    saver = Saver(Shelf(str(tmp_path / "kept"), owner="w"), listener=heard, may_commit=gate)
    yield saver
    gate.opened.set()
    assert saver.finish(10)
    saver.close()


def make_save(tree: Any, step: int = 1) -> Save:
    return Save(tree=tree, step=step, lineage=1, world_size=1, retain=2)


def load(tmp_path: Path) -> Any:
    loaded = Shelf(str(tmp_path / "kept"), owner="r").load()
    assert loaded is not None
    return loaded.tree


def test_changes_after_the_fence_are_not_in_the_save(
    saver: Saver, gate: Gate, heard: Heard, tmp_path: Path
) -> None:
    weight = torch.ones(1000)

    assert saver.begin(make_save({"w": weight, "step": torch.tensor(3.0)}), early=set())
    saver.fence()
    weight.fill_(2.0)
    gate.opened.set()
    assert saver.finish(10)

    assert torch.equal(load(tmp_path)["w"], torch.ones(1000))
    assert load(tmp_path)["step"] == 3
    assert heard.committed_steps == [1]
    assert saver.saved_step == 1


def test_early_tensors_may_change_as_soon_as_the_save_has_begun(
    saver: Saver, gate: Gate, tmp_path: Path
) -> None:
    statistics = torch.ones(1000)

    saver.begin(make_save({"s": statistics}), early={statistics.data_ptr()})
    statistics.fill_(2.0)
    gate.opened.set()
    saver.finish(10)

    assert torch.equal(load(tmp_path)["s"], torch.ones(1000))


def test_a_save_that_falls_due_while_one_is_written_is_skipped(
    saver: Saver, gate: Gate, heard: Heard
) -> None:
    tree = {"w": torch.ones(10)}

    assert saver.begin(make_save(tree, 1), early=set())
    assert gate.asked.wait(10)
    assert saver.is_writing
    assert not saver.begin(make_save(tree, 2), early=set())
    gate.opened.set()
    saver.finish(10)
    assert saver.begin(make_save(tree, 3), early=set())
    saver.finish(10)

    assert heard.committed_steps == [1, 3]


def test_lost_duty_is_no_failure_and_commits_nothing(
    saver: Saver, gate: Gate, heard: Heard, tmp_path: Path
) -> None:
    gate.answer = False
    gate.opened.set()

    saver.begin(make_save({"w": torch.ones(10)}), early=set())
    saver.finish(10)

    assert heard == Heard()
    assert saver.saved_step == -1
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_failure_is_told_in_words_and_the_next_save_works(
    saver: Saver, gate: Gate, heard: Heard, tmp_path: Path
) -> None:
    gate.opened.set()
    (tmp_path / "kept").write_text("in the way")

    saver.begin(make_save({"w": torch.ones(10)}, 1), early=set())
    saver.finish(10)
    (tmp_path / "kept").unlink()
    saver.begin(make_save({"w": torch.ones(10)}, 2), early=set())
    saver.finish(10)

    assert "give a folder" in heard.failures[0]
    assert heard.committed_steps == [2]


def test_an_urgent_save_waits_for_the_one_under_way_and_asks_no_lease(
    saver: Saver, gate: Gate, heard: Heard
) -> None:
    saver.begin(make_save({"w": torch.ones(10)}, 1), early=set())
    assert gate.asked.wait(10)
    gate.opened.set()

    assert saver.save_now(make_save({"w": torch.ones(10)}, 2), may_commit=lambda: True)
    assert saver.save_now(make_save({"w": torch.ones(10)}, 2), may_commit=lambda: True)

    assert heard.committed_steps == [1, 2]


def test_the_time_of_a_save_is_estimated_from_the_last_one(saver: Saver, gate: Gate) -> None:
    tree = {"w": torch.ones(1_000_000)}
    assert saver.estimate_seconds(tree) > 0.5

    gate.opened.set()
    saver.save_now(make_save(tree), may_commit=lambda: True)

    assert 0 < saver.estimate_seconds(tree) < 10


def test_another_shape_gets_another_area(saver: Saver, gate: Gate, tmp_path: Path) -> None:
    gate.opened.set()

    saver.begin(make_save({"w": torch.ones(10)}, 1), early=set())
    saver.finish(10)
    saver.begin(make_save({"w": torch.ones(20), "v": torch.zeros(2)}, 2), early=set())
    saver.finish(10)

    assert load(tmp_path)["w"].shape == (20,)
