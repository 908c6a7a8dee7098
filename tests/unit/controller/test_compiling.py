"""The planner's loops are compiled beside the operator, which only ever loads them."""

import asyncio
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ebbtide.controller import compiling
from ebbtide.controller.compiling import FAILED, fill_cache, quicken
from ebbtide.core.planner.solver import compiled, sizes

MINUTES = 10
"""The first run on a machine compiles; later ones find the cache."""
COMMAND = [sys.executable, "-m", "ebbtide.controller.compiling"]


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> dict[object, object]:
    """Return the compiled loops, none at first; for one test only."""
    kept: dict[object, object] = {}
    monkeypatch.setattr(compiled, "FAST", kept)
    monkeypatch.setattr(sizes, "FAST", kept)
    return kept


@pytest.mark.timeout(60 * MINUTES)
async def test_a_process_compiles_and_the_loops_are_loaded(
    loops: dict[object, object], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        await quicken(lambda: 32, least=32)

    assert loops
    assert [record.message for record in caplog.records if record.name == compiling.__name__] == [
        "the planner's loops are compiled"
    ]


async def test_they_stay_plain_where_there_are_few_pools(loops: dict[object, object]) -> None:
    waiting = asyncio.create_task(quicken(lambda: 31, least=32))

    done, _ = await asyncio.wait([waiting], timeout=0.05)

    assert not done
    assert not _children()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert not loops


async def test_they_stay_plain_where_nobody_wants_them_compiled(
    loops: dict[object, object],
) -> None:
    await quicken(lambda: 1000, least=0)

    assert not loops


async def test_without_a_folder_for_the_cache_a_line_says_what_to_do(
    loops: dict[object, object],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    _keep_nothing(monkeypatch)

    await quicken(lambda: 32, least=32)

    assert not loops
    assert "stay plain" in caplog.text
    assert "set NUMBA_CACHE_DIR to a folder that can be written" in caplog.text


def test_without_numba_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)

    assert "install ebbtide[operator]" in fill_cache()


def test_what_is_not_in_the_cache_is_never_compiled_by_who_needs_it(
    loops: dict[object, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sizes.settle_sizes.__globals__, "CLIMBED", 7.25)  # no cache knows these

    assert not sizes.compile_solver(needs_cache=True)
    assert not loops


async def test_the_process_ends_when_the_operator_does(
    loops: dict[object, object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    compiles = asyncio.create_task(quicken(lambda: 32, least=32))
    async with asyncio.timeout(30):
        while not any(tmp_path.rglob("ebbtide.lock")):  # noqa: ASYNC110 -- another process begins
            await asyncio.sleep(0.02)
    assert _children()

    compiles.cancel()
    await asyncio.gather(compiles, return_exceptions=True)

    assert compiles.cancelled()
    assert not _children()
    assert not loops


def test_the_process_does_nothing_for_a_parent_that_is_gone() -> None:
    done = subprocess.run([*COMMAND, "--parent=1"], capture_output=True, text=True, check=False)

    assert done.returncode == FAILED
    assert done.stderr == "process 1, for which this is done, is gone\n"


def _keep_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let children find no folder for a cache: none but the given, and none is given."""
    monkeypatch.setenv("NUMBA_CACHE_LOCATOR_CLASSES", "_UserProvidedCacheLocator")
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)


def _children() -> list[str]:
    tasks = Path(f"/proc/{os.getpid()}/task").iterdir()
    return [pid for task in tasks for pid in (task / "children").read_text().split()]
