"""A container of a warm image is in every way like a cold one, but for the time it takes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from world.kubelet.warm import Warm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kubelet.conftest import Bench
    from world.kubelet import Kubelet

MODULE = "ebbtide.runtime.worker"
ENVIRONMENT = {
    "EBBTIDE_JOB": "j",
    "EBBTIDE_WORKER": "j-worker-0-1",
    "EBBTIDE_INDEX": "0",
    "EBBTIDE_ADDRESS": "127.0.0.1",
    "EBBTIDE_COORDINATOR": "127.0.0.1:9",
    "EBBTIDE_CHECKPOINT_PATH": "/tmp",  # noqa: S108 -- in the container
}
LOOK = """
import json, os, pathlib, socket, sys
# What the shell, the interpreter's start and torch's own imports set for those after them.
MADE = {"LC_CTYPE", "PWD", "TORCHINDUCTOR_CACHE_DIR"}
pathlib.Path("/tmp/written").write_text("x")
print(json.dumps({
    "parent": os.getppid(),
    "host": socket.gethostname(),
    "folder": os.getcwd(),
    "root": sorted(os.listdir("/")),
    "path": sys.path[1:],
    "words": sys.argv,
    "environment": {key: value for key, value in os.environ.items() if key not in MADE},
    "descriptors": sorted(os.listdir("/proc/self/fd"))[:4],
    "processes": len([name for name in os.listdir("/proc") if name.isdigit()]),
    "input": os.readlink("/proc/self/fd/0"),
    "mask": [line for line in open("/proc/self/status") if line.startswith(("SigBlk", "SigIgn"))],
    "name": __name__,
}, sort_keys=True))
"""


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    with Warm(MODULE, log=tmp_path_factory.mktemp("warm") / "log") as warm:
        yield warm


@pytest.fixture(params=["cold", "warm"])
async def node(request: pytest.FixtureRequest, bench: Bench, warm: Warm) -> Kubelet:
    """A node of either kind; each test below is one of both."""
    bench.images.warm = warm if request.param == "warm" else None
    return await bench.boot()


async def work(bench: Bench, node: Kubelet, name: str, *command: str) -> None:
    words = ["python", "-m", MODULE, "--", *command]
    env = [{"name": key, "value": value} for key, value in ENVIRONMENT.items()]
    await bench.pod(node, name, words, container={"env": env}, spec={"hostname": "h"})


def exit_code(pod: dict[str, Any]) -> int:
    return int(pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"])


def first_process(space: str) -> int:
    """Return PID 1 of a process namespace, by the number that it has outside."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str((folder / "ns/pid").readlink()) == space:
                numbers = re.search(r"NSpid:\s+(.*)", (folder / "status").read_text())
                if numbers and numbers[1].split()[-1] == "1":
                    return int(folder.name)
    pytest.fail(f"nobody is the first in {space}")


async def test_what_a_container_sees(bench: Bench, warm: Warm, tmp_path: Path) -> None:
    script = tmp_path / "look.py"
    script.write_text(LOOK)
    seen = {}
    for kind, way in (("cold", None), ("warm", warm)):
        bench.images.warm = way
        node = await bench.boot()
        await work(bench, node, kind, "python", str(script), "one", "two")
        assert exit_code(await bench.ended(kind)) == 0, await bench.log(kind)
        seen[kind] = json.loads((await bench.log(kind)).splitlines()[-1])

    assert seen["warm"] == seen["cold"]
    assert seen["warm"]["parent"] == 1
    assert seen["warm"]["host"] == "h"


async def test_a_script_s_exit_is_the_container_s(
    bench: Bench, node: Kubelet, tmp_path: Path
) -> None:
    script = tmp_path / "exit.py"
    script.write_text("import sys; sys.exit(7)")

    await work(bench, node, "seven", "python", str(script))

    assert exit_code(await bench.ended("seven")) == 7


async def test_a_wrong_command_line_is_answered_in_the_log(bench: Bench, node: Kubelet) -> None:
    await work(bench, node, "wrong", "python", "/nowhere.py")

    assert exit_code(await bench.ended("wrong")) == 64
    assert "there is no /nowhere.py" in await bench.log("wrong")


async def test_a_container_that_is_shot_ends_with_137(
    bench: Bench, node: Kubelet, tmp_path: Path
) -> None:
    script = tmp_path / "wait.py"
    script.write_text(
        "import os, time\n"
        "print('waiting in', os.readlink('/proc/self/ns/pid'), 'now', flush=True)\n"
        "time.sleep(1000)"
    )
    await work(bench, node, "shot", "python", str(script))
    said = await bench.log_has("shot", "now")

    os.kill(first_process(said.split()[-2]), signal.SIGKILL)

    assert exit_code(await bench.ended("shot")) == 137


async def test_a_container_that_is_deleted_is_told_and_obeys(
    bench: Bench, node: Kubelet, tmp_path: Path
) -> None:
    script = tmp_path / "obey.py"
    script.write_text(
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(82))\n"
        "print('waiting', flush=True)\n"
        "time.sleep(1000)"
    )
    await work(bench, node, "obey", "python", str(script))
    await bench.log_has("obey", "waiting")

    await bench.api.request("DELETE", f"{bench.pods}/obey")

    await bench.gone("obey")


async def test_a_warm_process_is_only_for_its_own_python_and_module(warm: Warm) -> None:
    path = {"PATH": str(sys.executable.rpartition("/")[0])}

    assert warm.takes(["python", "-m", MODULE, "--", "x"], path)
    assert not warm.takes(["python", "-m", "ebbtide.coordinator"], path)
    assert not warm.takes(["python", "-m", MODULE], {"PATH": "/usr/bin"})
    assert not warm.takes(["python", "-m", MODULE], {**path, "PYTHONHASHSEED": "1"})
    assert not warm.takes(["sh", "-c", "python"], path)


async def test_a_warm_container_begins_while_a_cold_one_imports(
    bench: Bench, warm: Warm, tmp_path: Path
) -> None:
    """Not timed: both begin together, and the warm one, begun last, has ended first."""
    script = tmp_path / "nothing.py"
    script.write_text("")
    cold, hot = await bench.boot(), await bench.boot()
    bench.images.warm = warm
    await work(bench, hot, "first", "python", str(script))
    await bench.ended("first")  # the warm process itself has started
    bench.images.warm = None
    await work(bench, cold, "cold", "python", str(script))
    await bench.phase("cold", "Running")
    bench.images.warm = warm
    await work(bench, hot, "warm", "python", str(script))

    ends = [asyncio.create_task(bench.ended(name), name=name) for name in ("cold", "warm")]
    done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)

    assert "warm" in {task.get_name() for task in done}
    await asyncio.gather(*ends)
