"""`ebbtide profile` over real scripts in processes of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ebbtide.api.convert import parse_profile
from ebbtide.core.values.workload import Profile

from .conftest import DIGITS

SCRIPT = Path(__file__).parents[1] / "support" / "profiled_run.py"
JOB = DIGITS.parent / "job.yaml"
POOLS = DIGITS.parent / "pools.yaml"
QUICK = ("--steps", "3", "--warm-up", "2")
MIB = 1 << 20


def run(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ebbtide.cli", *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=150,
        check=check,
    )


def profile(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return run("profile", *QUICK, *words, check=check)


@pytest.mark.timeout(160)
def test_the_digits_are_profiled_unmodified_and_planned_with(tmp_path: Path) -> None:
    out = tmp_path / "profile.yaml"

    done = profile("--gpu", "V100", "--out", str(out), "--", "python", str(DIGITS))

    document = yaml.safe_load(out.read_text())
    assert document["metadata"]["name"] == "digits"
    known = parse_profile(document)
    assert (known.parameters, known.tensors, known.gradient_bytes) == (38_314, 10, 153_256)
    assert (known.checkpoint_bytes or 0) > 2 * 153_256, "weights and momentum"
    assert (known.flops_per_sample or 0) == pytest.approx(2.007e6, rel=0.01)
    assert [one.local_batch for one in known.step_times] == [4, 8, 16, 32, 64, 128]
    assert {one.gpu for one in known.step_times} == {"V100"}
    assert {one.samples for one in known.step_times} == {3}
    assert len(known.bucket_ready) == 1
    assert "digits on the CPU: 38314 parameters in 10 tensors" in done.stdout
    assert "steps of 128 samples" in done.stderr

    planned = run("plan", "-f", str(JOB), "--pools", str(POOLS), "--profile", str(out))
    assert "profile: 18 measurements on V100" in planned.stdout


def test_one_process_is_measured_whatever_the_script_asks_for() -> None:
    done = profile("--batches", "4,2", "-o", "json", "--name", "x", "--", "python", str(SCRIPT))

    document: dict[str, Any] = json.loads(done.stdout)
    assert document["metadata"] == {"name": "x"}
    spec = document["spec"]
    assert [one["localBatch"] for one in spec["stepTimes"]] == [2, 4]
    assert spec["stepTimes"][0]["gpu"] == "CPU"
    assert all(one["seconds"] > 0 for one in spec["stepTimes"])
    # A product of 16 x 4 forward, and one backward for the weights.
    assert spec["flopsPerSample"] == 2 * 2 * 16 * 4
    assert isinstance(parse_profile(document), Profile)


@pytest.mark.timeout(160)
def test_the_largest_batch_is_found_by_processes_that_run_out_of_memory() -> None:
    # 64 MiB a sample, which is there twice while the batch is put together.
    done = profile(
        "--batch-search", "--memory-limit", "1500Mi", "--batches", "1", "-o", "yaml",
        "--", "python", str(SCRIPT), "--width", str(1 << 24),
    )  # fmt: skip

    largest = yaml.safe_load(done.stdout)["spec"]["maxLocalBatch"]["CPU"]
    assert 1 <= largest < 1500 / (2 * 64)
    assert f"does a batch of {largest} fit?" in done.stderr
    assert f"does a batch of {largest + 1} fit?" in done.stderr, "and it did not"
    assert f"the largest batch that fits is {largest}" in done.stderr


@pytest.mark.parametrize(
    ("how", "complaint"),
    [
        pytest.param(
            "never",
            "came to its end and did not call ebbtide.runtime.join(); its last words:\n"
            "  there is nothing to join",
            id="never joins",
        ),
        pytest.param(
            "crash",
            "failed with exit code 1 and did not call ebbtide.runtime.join()",
            id="crashes at once",
        ),
        pytest.param(
            "no-loop",
            "came to its end and did not enter the loop over job.steps()",
            id="never trains",
        ),
        pytest.param(
            "early", "came to its end and did not take steps of 2 samples", id="leaves the loop"
        ),
        pytest.param(
            "late-crash",
            "failed with exit code 1 and did not take steps of 2 samples",
            id="crashes later",
        ),
        pytest.param("no-step", "the loop's body did not call optimizer.step()", id="no step"),
    ],
)
def test_a_script_that_cannot_be_measured_is_told_in_words(how: str, complaint: str) -> None:
    done = profile("--batches", "2", "--", "python", str(SCRIPT), how, check=False)

    assert done.returncode == 1
    assert complaint in done.stderr
    assert done.stdout == ""
    if "crash" in how:
        assert "ValueError: " in done.stderr, "the script's own words"


def test_a_script_that_says_nothing_is_given_up(tmp_path: Path) -> None:
    script = tmp_path / "sleep.py"
    script.write_text("import time; time.sleep(60)\n")

    done = profile("--patience", "1", "--", "python", str(script), check=False)

    assert done.returncode == 1
    assert "did not call ebbtide.runtime.join() within 1 s" in done.stderr


def test_searching_on_the_cpu_needs_a_limit() -> None:
    done = profile("--batch-search", "--", "python", str(SCRIPT), check=False)

    assert done.returncode == 2
    assert "--batch-search needs --memory-limit here" in done.stderr


def test_a_command_that_is_not_there_is_named() -> None:
    done = profile("--", "no-such-program", check=False)

    assert done.returncode == 1
    assert "no-such-program: No such file or directory" in done.stderr
