"""Checkpoints on disk: which one counts, and what never hurts them."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from ebbtide.runtime import archive
from ebbtide.runtime.checkpoint import LostDuty, Manifest, Shelf
from ebbtide.runtime.errors import CheckpointError, MismatchError
from ebbtide.runtime.layouts import Layout, LayoutError
from ebbtide.runtime.state import TrainState
from ebbtide.runtime.stores import Store


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(str(tmp_path / "kept"), owner="job-worker-0-1")


def save(shelf: Shelf, step: int, *, lineage: int = 1, value: float | None = None) -> Manifest:
    tree = {"step": step, "weight": torch.full((100,), float(step if value is None else value))}
    return shelf.write(tree, step=step, lineage=lineage, world_size=2, may_commit=lambda: True)


def home(shelf: Shelf) -> Path:
    return Path(shelf.path)


def folder(shelf: Shelf, step: int) -> Path:
    return home(shelf) / f"step-{step:012d}"


def loaded_step(shelf: Shelf) -> int | None:
    loaded = Shelf(str(shelf.path), owner="reader").load()
    return None if loaded is None else int(loaded.tree["step"])


def truncate(shelf: Shelf, step: int) -> None:
    state = folder(shelf, step) / "state.safetensors"
    state.write_bytes(state.read_bytes()[:-10])


def flip(shelf: Shelf, step: int) -> None:
    state = folder(shelf, step) / "state.safetensors"
    content = bytearray(state.read_bytes())
    content[len(content) // 2] ^= 1
    state.write_bytes(bytes(content))


def empty(shelf: Shelf, step: int) -> None:
    (folder(shelf, step) / "state.safetensors").write_bytes(b"")


def lose_state(shelf: Shelf, step: int) -> None:
    (folder(shelf, step) / "state.safetensors").unlink()


def lose_manifest(shelf: Shelf, step: int) -> None:
    (folder(shelf, step) / "manifest.json").unlink()


def garble_manifest(shelf: Shelf, step: int) -> None:
    (folder(shelf, step) / "manifest.json").write_text('{"step": "?"}')


def empty_manifest(shelf: Shelf, step: int) -> None:
    (folder(shelf, step) / "manifest.json").write_bytes(b"")


def extend_manifest(shelf: Shelf, step: int) -> None:
    path = folder(shelf, step) / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "\x1b[31m": 1}))


def swap_manifest(shelf: Shelf, step: int) -> None:
    lose_manifest(shelf, step)
    (folder(shelf, step) / "manifest.json").mkdir()


def block_manifest(shelf: Shelf, step: int) -> None:
    lose_manifest(shelf, step)
    os.mkfifo(folder(shelf, step) / "manifest.json")


def lock_manifest(shelf: Shelf, step: int) -> None:
    """As a mode of 000 does, for root too."""
    lose_manifest(shelf, step)
    (folder(shelf, step) / "manifest.json").symlink_to("manifest.json")


def lock_folder(shelf: Shelf, step: int) -> None:
    shutil.rmtree(folder(shelf, step))
    folder(shelf, step).symlink_to(folder(shelf, step).name)


DAMAGES = [
    truncate, flip, empty, lose_state, lose_manifest, garble_manifest, empty_manifest,
    extend_manifest, swap_manifest, block_manifest, lock_manifest, lock_folder,
]  # fmt: skip


def test_an_empty_or_absent_folder_has_no_checkpoint(shelf: Shelf) -> None:
    assert shelf.newest_step() == -1
    assert shelf.load() is None


def test_what_was_saved_is_loaded(shelf: Shelf) -> None:
    manifest = save(shelf, 7)

    loaded = shelf.load()

    assert loaded is not None
    assert loaded.manifest == manifest
    assert shelf.entries() == [("step-000000000007", manifest)]
    assert torch.equal(loaded.tree["weight"], torch.full((100,), 7.0))
    assert manifest.world_size == 2
    assert [path.name for path in home(shelf).iterdir()] == ["step-000000000007"]


def test_the_newest_is_decided_by_number_and_not_by_name_or_time(shelf: Shelf) -> None:
    """B066: step 900 is not newer than step 1000, and a copy's time says nothing."""
    save(shelf, 1000)
    save(shelf, 900)
    os.utime(folder(shelf, 1000), (1, 1))
    for name in ("handpicked", "tmp-000200", "step-x", ".saving-other-1-000000005000"):
        (home(shelf) / name).mkdir()
    shutil.copytree(folder(shelf, 900), home(shelf) / "step-000000099999")  # says another step

    assert shelf.newest_step() == 1000
    assert loaded_step(shelf) == 1000


def test_a_step_of_an_abandoned_lineage_does_not_come_back(shelf: Shelf) -> None:
    """B066: step 80 of before a return counts less than step 70 of after it."""
    save(shelf, 80, lineage=2)
    save(shelf, 70, lineage=3)

    assert shelf.newest_step() == 70
    assert shelf.newest_lineage() == 3


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_newest_one_is_passed_over(
    shelf: Shelf, damage: object, capsys: pytest.CaptureFixture[str]
) -> None:
    """B065: existence of a name proves no commit."""
    for step in (10, 20, 30):
        save(shelf, step)

    assert callable(damage)
    damage(shelf, 30)

    assert loaded_step(shelf) == 20
    assert Shelf(str(shelf.path), owner="reader").newest_step() == 20
    said = capsys.readouterr().out
    assert said.startswith("ebbtide: checkpoint step-000000000030 ")
    assert said.count("\n") == 1
    assert "\x1b" not in said


def test_the_lineage_of_a_manifest_that_cant_be_read_is_not_used_again(shelf: Shelf) -> None:
    """Or what it belongs to would come back when somebody repairs it."""
    save(shelf, 20, lineage=4)
    save(shelf, 30, lineage=5)
    garble_manifest(shelf, 30)

    assert shelf.newest_lineage() == 5


def test_what_others_delete_as_we_look_is_no_damage(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save(shelf, 1)
    save(shelf, 2)
    read = shelf.store.read

    def tidied(name: str, file: str) -> bytes:
        shutil.rmtree(folder(shelf, 1), ignore_errors=True)
        return read(name, file)

    monkeypatch.setattr(shelf.store, "read", tidied)

    assert shelf.load() is not None
    assert capsys.readouterr().out == ""


def test_when_all_are_bad_that_is_an_error_and_not_a_new_start(shelf: Shelf) -> None:
    for step, damage in enumerate(DAMAGES):
        save(shelf, step)
        damage(shelf, step)

    for look in (shelf.load, shelf.newest_step):
        with pytest.raises(CheckpointError, match=r"no checkpoint under .* is whole"):
            look()


def test_damage_after_a_first_look_is_noticed_when_it_is_loaded(shelf: Shelf) -> None:
    save(shelf, 1)
    save(shelf, 2)
    assert shelf.newest_step() == 2

    truncate(shelf, 2)

    assert shelf.newest_step() == 1


def test_a_bad_one_in_the_way_of_the_same_step_is_replaced(shelf: Shelf) -> None:
    save(shelf, 5, value=1.0)
    flip(shelf, 5)

    save(Shelf(str(shelf.path), owner="other"), 5, lineage=2, value=2.0)

    loaded = Shelf(str(shelf.path), owner="reader").load()
    assert loaded is not None
    assert loaded.tree["weight"][0] == 2.0
    assert len(list(home(shelf).iterdir())) == 1


def test_the_same_step_saved_twice_is_kept_once(shelf: Shelf) -> None:
    save(shelf, 5, value=1.0)
    save(Shelf(str(shelf.path), owner="other"), 5, value=1.0)

    assert loaded_step(shelf) == 5
    assert len(list(home(shelf).iterdir())) == 1


def test_lost_duty_leaves_nothing_behind(shelf: Shelf) -> None:
    save(shelf, 1)

    with pytest.raises(LostDuty):
        shelf.write({"step": 2}, step=2, lineage=1, world_size=1, may_commit=lambda: False)

    assert [path.name for path in home(shelf).iterdir()] == ["step-000000000001"]


def test_a_failed_write_leaves_the_last_good_one(shelf: Shelf) -> None:
    save(shelf, 1)
    folder(shelf, 2).write_text("a file in the way")

    with pytest.raises(OSError, match="Not a directory"):
        save(shelf, 2)

    assert loaded_step(shelf) == 1
    assert not list(home(shelf).glob(".saving-*"))


def test_only_the_newest_are_retained_and_the_dead_are_cleared_away(shelf: Shelf) -> None:
    for step in (1, 2, 3, 4):
        save(shelf, step)
    old = home(shelf) / ".saving-dead-9-000000000001"
    fresh = home(shelf) / ".saving-alive-9-000000000001"
    own = home(shelf) / ".saving-job-worker-0-1-1-000000000001"
    foreign = home(shelf) / "result.json"
    for path in (old, fresh, own, foreign):
        path.mkdir()
    os.utime(old, (time.time() - 7200,) * 2)

    shelf.tidy(retain=2)

    assert {path.name for path in home(shelf).iterdir()} == {
        "step-000000000003",
        "step-000000000004",
        fresh.name,
        foreign.name,
    }


def test_probing_makes_the_folder_and_leaves_no_trace(shelf: Shelf) -> None:
    assert shelf.probe() == ""
    assert list(home(shelf).iterdir()) == []


def test_probing_says_what_is_wrong_and_what_would_be_right(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    told = Shelf(str(tmp_path / "file"), owner="w").probe()

    assert str(tmp_path / "file") in told
    assert "EEXIST" in told
    assert "give a folder" in told


def test_probing_a_read_only_mount_says_so() -> None:
    told = Shelf("/proc/ebbtide", owner="w").probe()

    assert "cannot write checkpoints to /proc/ebbtide" in told


def test_a_url_that_nothing_speaks_to_is_refused() -> None:
    with pytest.raises(CheckpointError, match=r"nosuch://bucket/x: nosuch:// is no store"):
        Shelf("nosuch://bucket/x", owner="w")


@pytest.mark.parametrize("written", [1, 3])
def test_a_checkpoint_of_another_format_is_refused_with_both_numbers(
    shelf: Shelf, written: int
) -> None:
    """It may be the newest: going back past it would lose steps without need."""
    save(shelf, 1)
    save(shelf, 2)
    path = folder(shelf, 2) / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": written}))

    for look in (shelf.load, shelf.newest_step, shelf.newest_lineage):
        with pytest.raises(
            CheckpointError, match=rf"000002 is a checkpoint of format {written}, .* reads format 2"
        ):
            look()


def test_damage_found_once_is_known_to_all(
    shelf: Shelf, capsys: pytest.CaptureFixture[str]
) -> None:
    save(shelf, 1)
    save(shelf, 2)
    flip(shelf, 2)
    looker = Shelf(str(shelf.path), owner="looker")
    assert looker.newest_step() == 2  # its size is right

    assert loaded_step(shelf) == 1

    assert looker.newest_step() == 1
    assert "its sum is not" in (folder(shelf, 2) / "damaged.txt").read_text()
    assert shelf.newest_lineage() == 1


def damage_for_good(shelf: Shelf, step: int) -> None:
    """Damage it so that it can't be marked."""
    flip(shelf, step)
    (folder(shelf, step) / "damaged.txt").symlink_to("nowhere/damaged.txt")


def test_what_could_not_be_read_counts_no_more_even_where_it_cannot_be_marked(shelf: Shelf) -> None:
    save(shelf, 20)
    save(shelf, 30)
    damage_for_good(shelf, 30)
    assert shelf.newest_step() == 30  # its size is right

    loaded = shelf.load()

    assert loaded is not None
    assert loaded.manifest.step == 20
    assert shelf.newest_step() == 20
    save(shelf, 30, lineage=2)  # another one, of that name
    assert shelf.newest_step() == 30


def test_what_could_not_be_read_is_tried_again_where_there_is_nothing_else(shelf: Shelf) -> None:
    save(shelf, 30)
    damage_for_good(shelf, 30)
    with pytest.raises(CheckpointError, match="is whole"):
        shelf.load()

    assert shelf.newest_step() == 30
    flip(shelf, 30)  # repaired

    loaded = shelf.load()
    assert loaded is not None
    assert loaded.manifest.step == 30


def test_a_refused_layout_is_told_only_of_a_whole_checkpoint(shelf: Shelf) -> None:
    def refuse(layout: Layout) -> dict[str, torch.Tensor]:
        raise MismatchError(f"{len(layout.slots)} tensors")

    save(shelf, 1)
    save(shelf, 2)
    flip(shelf, 2)

    with pytest.raises(MismatchError, match="1 tensors"):
        shelf.load(refuse)
    assert (folder(shelf, 2) / "damaged.txt").exists()
    assert not (folder(shelf, 1) / "damaged.txt").exists()


def test_a_state_is_read_into_the_tensors_that_are_given(shelf: Shelf) -> None:
    save(shelf, 3)
    place = torch.zeros(100)

    loaded = shelf.load(lambda layout: {"weight": place})

    assert loaded is not None
    assert loaded.tree["weight"] is place
    assert torch.equal(place, torch.full((100,), 3.0))


def test_plain_pytorch_reads_a_checkpoint(shelf: Shelf) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(5, 3)).sum().backward()
    optimizer.step()
    tree = TrainState(model, optimizer).take()
    shelf.write(tree, step=5, lineage=1, world_size=2, may_commit=lambda: True)
    other = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))

    state = load_file(folder(shelf, 5) / "state.safetensors")
    weights = {k.removeprefix("model."): v for k, v in state.items() if k.startswith("model.")}
    other.load_state_dict(weights)

    for ours, theirs in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs)
    moment = optimizer.state_dict()["state"][0]["exp_avg"]
    assert torch.equal(state["optimizer.state.0.exp_avg"], moment)


def test_a_checkpoint_deleted_while_one_looks_is_no_damage(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member keeps only the newest while a spare looks what there is."""
    save(shelf, 1)
    reader = Shelf(str(shelf.path), owner="reader")
    entries = archive.entries

    def list_then_lose(store: Store) -> list[tuple[str, Manifest]]:
        found = entries(store)
        monkeypatch.setattr(archive, "entries", entries)
        save(shelf, 2)
        shelf.tidy(retain=1)
        return found

    monkeypatch.setattr(archive, "entries", list_then_lose)

    assert reader.newest_step() == 2


def test_what_cannot_be_said_is_not_written(shelf: Shelf) -> None:
    save(shelf, 1)
    odd = {"step": 2, "weight": Shelf}

    with pytest.raises(LayoutError, match="weight is a type"):
        shelf.write(odd, step=2, lineage=1, world_size=1, may_commit=lambda: True)

    assert loaded_step(shelf) == 1
    assert len(list(home(shelf).iterdir())) == 1


def test_a_probe_writes_through_no_link(shelf: Shelf, tmp_path: Path) -> None:
    victim = tmp_path / "train.py"
    victim.write_text("print()")
    home(shelf).mkdir()
    (home(shelf) / f".probe-job-worker-0-1-{os.getpid()}").symlink_to(victim)

    assert shelf.probe() == ""

    assert victim.read_text() == "print()"


@pytest.mark.parametrize("name", ["state.safetensors", "manifest.json"])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(shelf: Shelf, name: str) -> None:
    save(shelf, 1)
    save(shelf, 2)
    path = folder(shelf, 2) / name
    path.unlink()
    os.mkfifo(path)
    if name == "state.safetensors":
        manifest = folder(shelf, 2) / "manifest.json"
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "num_bytes": 0}))

    assert loaded_step(shelf) == 1


@pytest.mark.parametrize("text", ["[" * 60_000, '{"step": ' + "1" * 5000 + "}"])
def test_a_manifest_made_to_harm_is_passed_over(shelf: Shelf, text: str) -> None:
    save(shelf, 1)
    save(shelf, 2)
    (folder(shelf, 2) / "manifest.json").write_text(text)

    assert loaded_step(shelf) == 1
