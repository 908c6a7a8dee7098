"""Checkpoints on object stores, which are real servers: visible as a whole or not at all."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from ebbtide.runtime import remote
from ebbtide.runtime.checkpoint import LostDuty, Manifest, Shelf
from ebbtide.runtime.errors import CheckpointError
from ebbtide.runtime.staging import Save, Saver
from ebbtide.runtime.stores import StoreError
from ebbtide.wire import names
from support.buckets import Gate, Server, files_of, free_port, serve_gcs, serve_s3
from support.small_run import RESULTS

from .conftest import MakeJob


@pytest.fixture(scope="module")
def s3() -> Iterator[Server]:
    server = serve_s3()
    yield server
    server.close()


@pytest.fixture(scope="module")
def gcs() -> Iterator[Server]:
    server = serve_gcs()
    yield server
    server.close()


@pytest.fixture(params=["s3", "gs", "memory"])
def url(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A place on each kind of store, reached as a pod reaches it: by its environment."""
    if request.param == "memory":
        return f"memory://{tmp_path.name}/kept"
    server: Server = request.getfixturevalue({"s3": "s3", "gs": "gcs"}[request.param])
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    return server.new_url()


@pytest.fixture
def s3_url(s3: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    return s3.new_url()


def save(url: str, step: int, *, owner: str = "w", lineage: int = 1, size: int = 100) -> Manifest:
    tree = {"step": step, "weight": torch.full((size,), float(step))}
    return Shelf(url, owner=owner).write(
        tree, step=step, lineage=lineage, world_size=2, may_commit=lambda: True
    )


def load(url: str) -> int:
    loaded = Shelf(url, owner="reader").load()
    assert loaded is not None
    assert torch.all(loaded.tree["weight"] == loaded.manifest.step)
    return loaded.manifest.step


def there(url: str) -> list[str]:
    files, path = files_of(url)
    return sorted(name[len(path.strip("/")) :].strip("/") for name in bare(files.find(path)))


def bare(found: list[str]) -> list[str]:
    return [name.strip("/") for name in found]


def test_what_was_saved_is_loaded_and_only_the_newest_are_kept(url: str) -> None:
    shelf = Shelf(url, owner="w")
    assert shelf.probe() == ""
    assert shelf.newest_step() == -1
    assert shelf.load() is None

    for step in (900, 1000, 1100):
        save(url, step)
    shelf.tidy(retain=2)

    assert shelf.newest_step() == 1100
    assert load(url) == 1100
    folders = {name.partition("/")[0] for name in there(url)}
    assert folders == {"step-000000001000", "step-000000001100"}
    assert len(there(url)) == 4


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")  # gcsfs' way to send
def test_a_state_of_many_parts_comes_back_whole(url: str) -> None:
    numbers = 2 * remote.BLOCK_BYTES // 4 + 1000

    save(url, 7, size=numbers)

    assert load(url) == 7


def test_what_may_not_be_committed_is_not_there(url: str) -> None:
    save(url, 1)

    with pytest.raises(LostDuty):
        Shelf(url, owner="w").write(
            {"w": torch.ones(9)}, step=2, lineage=1, world_size=1, may_commit=lambda: False
        )

    assert {name.partition("/")[0] for name in there(url)} == {"step-000000000001"}


def truncate(url: str) -> None:
    files, path = files_of(url)
    state = next(name for name in files.find(path) if "state" in name and "002/" in name)
    files.pipe_file(state, files.cat_file(state)[:-10])


def flip(url: str) -> None:
    files, path = files_of(url)
    state = next(name for name in files.find(path) if "state" in name and "002/" in name)
    content = bytearray(files.cat_file(state))
    content[-1] ^= 1
    files.pipe_file(state, bytes(content))


def lose_state(url: str) -> None:
    files, path = files_of(url)
    files.rm_file(next(name for name in files.find(path) if "state" in name and "002/" in name))


def lose_manifest(url: str) -> None:
    files, path = files_of(url)
    files.rm_file(next(name for name in files.find(path) if name.endswith("002/manifest.json")))


@pytest.mark.parametrize("damage", [truncate, flip, lose_state, lose_manifest])
def test_b065_a_damaged_newest_one_is_passed_over(url: str, damage: Callable[[str], None]) -> None:
    save(url, 1)
    save(url, 2)

    damage(url)

    assert load(url) == 1
    assert Shelf(url, owner="other").newest_step() == 1


def test_when_all_are_bad_that_is_an_error(url: str) -> None:
    save(url, 2)
    flip(url)
    shelf = Shelf(url, owner="w")

    for _ in range(2):
        with pytest.raises(CheckpointError, match=r"no checkpoint under .* is whole"):
            shelf.load()


def test_two_writers_of_one_step_leave_one_whole_checkpoint(url: str) -> None:
    save(url, 5, owner="a", lineage=1)
    save(url, 5, owner="b", lineage=2)
    save(url, 5, owner="c", lineage=2)

    loaded = Shelf(url, owner="reader").load()

    assert loaded is not None
    assert loaded.manifest.lineage == 2
    assert loaded.manifest.state.startswith("state-b-")


def test_states_that_no_manifest_names_are_cleared_once_they_are_old(
    s3_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(s3_url, 1)
    files, path = files_of(s3_url)
    files.pipe_file(f"{path}/step-000000000002/state-dead-1.safetensors", b"half")
    shelf = Shelf(s3_url, owner="w")

    shelf.tidy(retain=2)
    assert len(there(s3_url)) == 3
    monkeypatch.setattr(remote, "LEFTOVER_SECONDS", -1.0)
    shelf.tidy(retain=2)

    assert [name.partition("/")[0] for name in there(s3_url)] == ["step-000000000001"] * 2


def test_a_store_out_of_reach_is_told_within_bounded_time(
    s3_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    shelf = Shelf(s3_url, owner="w")
    shelf.store = remote.RemoteStore(s3_url, owner="w", pauses=(0.01,))
    began = time.monotonic()

    words = shelf.probe()

    assert words.startswith(f"cannot write checkpoints to {s3_url}: ")
    assert "127.0.0.1" in words
    with pytest.raises(CheckpointError, match="cannot read checkpoints from"):
        shelf.newest_step()
    assert time.monotonic() - began < 30


def test_a_store_that_does_not_answer_is_given_up(
    s3: Server, s3_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(s3.port)
    gate.hold()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{gate.port}")
    monkeypatch.setitem(
        remote._OPTIONS["s3"],
        "config_kwargs",
        {"read_timeout": 0.5, "retries": {"total_max_attempts": 1}},
    )
    store = remote.RemoteStore(s3_url, owner="w", pauses=(0.01,))
    began = time.monotonic()

    with pytest.raises(StoreError, match="timeout"):
        store.names()

    assert time.monotonic() - began < 20
    gate.close()


def test_a_bucket_that_is_not_there_is_named(s3_url: str) -> None:
    words = Shelf("s3://nosuch/job", owner="w").probe()

    assert "cannot write checkpoints to s3://nosuch/job" in words
    assert "bucket" in words.lower()


class Heard:
    """How saves ended."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.failures: list[str] = []

    def committed(self, *, step: int, seconds: float, num_bytes: int) -> None:
        assert seconds >= 0 < num_bytes
        self.steps.append(step)

    def failed(self, *, step: int, error: str) -> None:
        self.failures.append(f"{step}: {error}")


def make_save(step: int) -> Save:
    tree = {"step": step, "weight": torch.full((1000,), float(step))}
    return Save(tree=tree, step=step, lineage=1, world_size=1, retain=3)


@pytest.fixture
def gated(
    s3: Server, s3_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Gate, Heard, Saver]]:
    """A saver behind a gate that can be shut, which has saved the first step."""
    gate, heard = Gate(s3.port), Heard()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{gate.port}")
    saver = Saver(Shelf(s3_url, owner="w"), listener=heard, may_commit=lambda: True)
    assert saver.save_now(make_save(1), may_commit=lambda: True)
    yield gate, heard, saver
    saver.close()
    gate.close()


def test_b070_a_save_counts_only_when_the_store_has_it(
    s3: Server,
    s3_url: str,
    gated: tuple[Gate, Heard, Saver],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate, heard, saver = gated

    gate.hold()
    assert saver.begin(make_save(2), early=set())
    saver.fence()
    gate.await_held()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{s3.port}")
    assert heard.steps == [1]
    assert load(s3_url) == 1
    assert not saver.save_now(make_save(3), may_commit=lambda: True, seconds=0.5)
    gate.let_go()
    assert saver.finish(20)

    assert heard.steps == [1, 2]
    assert load(s3_url) == 2


def test_b070_a_writer_that_dies_before_the_store_has_it_has_saved_nothing(
    s3: Server,
    s3_url: str,
    gated: tuple[Gate, Heard, Saver],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate, heard, saver = gated

    gate.hold()
    saver.begin(make_save(2), early=set())
    gate.await_held()
    assert saver._scribe._process is not None
    os.kill(saver._scribe._process.pid, 9)
    assert saver.finish(20)

    assert heard.steps == [1]
    assert "ended with -9" in heard.failures[0]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{s3.port}")
    assert load(s3_url) == 1


def test_a_job_that_lost_all_its_workers_goes_on_from_an_object_store(
    make_job: MakeJob, undisturbed: str, s3: Server
) -> None:
    job = make_job("--pause", "0.02", checkpoint_interval=0.5)
    job.checkpoints.mkdir()
    extra: dict[str, Any] = {
        **s3.environment(),
        names.ENV_CHECKPOINT_PATH: s3.new_url(),
        RESULTS: str(job.checkpoints),
    }

    job.start_coordinator()
    for index in range(2):
        job.start_worker(index, **extra)
    job.await_report(lambda report: report.checkpoint_step > 0, "a checkpoint")
    for worker in list(job.workers.values()):
        worker.kill()
        job.await_code(worker)
    for index in range(2):
        job.start_worker(index, attempt=2, **extra)
    results = job.await_done()

    assert job.report().resumed_step > 0
    assert {result["digest"] for result in results.values()} == {undisturbed}
