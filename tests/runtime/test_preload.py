"""What a worker's first process imports: found by a throw-away child, and fit to be forked."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ebbtide.runtime import needs

LIMIT = 55

PRELOAD = """
import json, os, sys, pathlib
from ebbtide.runtime import needs, preload, trial
begun = set(sys.modules)
real, tries = trial.find, []
trial.find = lambda: tries.append(1) or real()
preload.preload([pathlib.Path(sys.argv[1])])
pid = os.fork()
if pid == 0:
    before = set(sys.modules)
    trial.train_alone(sys.argv[2])
    new = set(sys.modules) - before
    late = sorted(name for name in new if trial._comes_from_a_file(name, sys.modules[name]))
    print(json.dumps({"late": late}), flush=True)
    os._exit(0)
os.waitpid(pid, 0)
import torch
print(json.dumps({
    "tries": len(tries),
    "threads": len(os.listdir("/proc/self/task")),
    "gpu": torch.cuda.is_initialized(),
    "children": pathlib.Path("/proc/self/task", str(os.getpid()), "children").read_text().split(),
    "dynamo": "torch._dynamo" in sys.modules,
    "threads_wanted": os.environ.get("OMP_NUM_THREADS"),
}), flush=True)
os._exit(0)
"""


def run(script: str, *arguments: str | Path) -> "tuple[list[dict[str, object]], str]":
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    said = done.stdout + done.stderr
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")], said


def test_a_child_finds_all_that_a_first_step_imports_and_the_list_is_kept(tmp_path: Path) -> None:
    kept = tmp_path / "preload.json"
    folders = [tmp_path / "one", tmp_path / "two"]

    (first, before), said = run(PRELOAD, kept, folders[0])
    (second, after), _ = run(PRELOAD, kept, folders[1])

    assert first == second == {"late": []}, said
    assert before["tries"] == 1
    assert after["tries"] == 0
    for state in (before, after):
        assert state["threads"] == 1
        assert state["gpu"] is False
        assert state["children"] == []
        assert state["dynamo"] is True
        assert state["threads_wanted"] == "1"
    found = needs.load([kept])
    assert found is not None
    assert "torch._dynamo.config" in found.modules


TRIAL = """
import json, os, sys, time, pathlib
from ebbtide.runtime import trial
def hang(folder):
    time.sleep(600)
def fail(folder):
    raise ValueError("no such model")
def vanish(folder):
    os._exit(3)
try:
    trial.find(globals()[sys.argv[1]], patience=0.5)
except trial.TrialError as error:
    print(json.dumps({"why": str(error)}))
children = pathlib.Path("/proc/self/task", str(os.getpid()), "children").read_text().split()
print(json.dumps({"children": children}))
"""


@pytest.mark.parametrize(
    ("how", "why"),
    [
        pytest.param("hang", "it took too long", id="hangs"),
        pytest.param("fail", "ValueError: no such model", id="fails"),
        pytest.param("vanish", "it said nothing", id="dies"),
    ],
)
def test_a_child_that_finds_nothing_is_ended_and_says_why(how: str, why: str) -> None:
    (told, left), said = run(TRIAL, how)

    assert told == {"why": why}, said
    assert left == {"children": []}


def test_a_worker_starts_without_a_list_that_cannot_be_found(tmp_path: Path) -> None:
    script = """
import json, sys, pathlib
from ebbtide.runtime import preload, trial
def find():
    raise trial.TrialError("there is no room")
trial.find = find
preload.preload([pathlib.Path(sys.argv[1])])
print(json.dumps({"torch": "torch" in sys.modules}))
"""

    (state,), said = run(script, tmp_path / "preload.json")

    assert state == {"torch": True}
    assert "what a first step needs was not found (there is no room)" in said


def test_an_image_keeps_the_list_from_its_making_on(tmp_path: Path) -> None:
    script = """
import json, sys, pathlib
from ebbtide.runtime import needs, preload
where = pathlib.Path(sys.argv[1], "share", "preload.json")
needs.places = lambda environ: [where]
code = preload.main()
print(json.dumps({"code": code, "kept": where.exists()}))
"""

    (state,), said = run(script, tmp_path)

    assert state == {"code": 0, "kept": True}, said
    assert "modules that a first step needs are listed in" in said
