"""Torchrun's options: what the job decides is replaced, all others count."""

import sys
from pathlib import Path

import pytest

from ebbtide.runtime.environment import Place
from ebbtide.runtime.errors import UsageError
from ebbtide.runtime.launching.command_line import Request
from ebbtide.runtime.launching.options import Options, parse, settle
from ebbtide.wire.messages import WorkSpec

PLACE = Place(
    job="team/digits",
    worker="digits-worker-0-1",
    index=0,
    attempt=1,
    local_rank=0,
    processes=2,
    address="10.0.0.7",
    coordinator="digits-coordinator.team.svc:7411",
    token_file="",
    checkpoint_path="/checkpoints",
)
WORK = WorkSpec(job="team/digits", steps=0, global_batch_size=0, min_replicas=2, desired=4)


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text("")
    return str(path)


def read(*arguments: str, legacy: bool = False) -> Options:
    return settle(parse(Request(arguments=arguments, legacy=legacy)), PLACE, WORK)


def test_nodes_processes_and_rendezvous_are_the_jobs(script: str) -> None:
    asked = read(
        "--nnodes=1:9", "--nproc-per-node=8", "--rdzv-backend=c10d", "--rdzv-endpoint=host:1",
        "--rdzv-id=7", "--rdzv-conf=join_timeout=1", script,
    )  # fmt: skip

    config = asked.config
    assert (config.min_nodes, config.max_nodes, config.nproc_per_node) == (2, 4, 2)
    assert (config.rdzv_backend, config.run_id) == ("ebbtide", "team-digits")
    assert config.rdzv_endpoint == PLACE.coordinator
    assert config.local_addr == "10.0.0.7"


def test_what_was_given_and_does_not_count_is_named(script: str) -> None:
    asked = read("--nnodes=3", "--nproc-per-node=2", "--standalone", script)

    assert asked.replaced == ("--nnodes 3", "--standalone True")


def test_all_other_options_mean_what_they_mean_to_torchrun(script: str, tmp_path: Path) -> None:
    asked = read(
        "--max-restarts=3", "--log-dir", str(tmp_path), "--tee", "3", "--role", "trainer",
        "--shutdown-timeout", "7", script, "--lr", "0.1",
    )  # fmt: skip

    assert (asked.config.max_restarts, asked.config.role) == (3, "trainer")
    assert asked.config.logs_specs is not None
    assert asked.config.logs_specs.root_log_dir.startswith(str(tmp_path))
    assert asked.shutdown_seconds == 7.0
    assert (asked.entry, asked.arguments) == (sys.executable, ("-u", script, "--lr", "0.1"))


def test_without_a_word_about_the_end_it_is_ours_to_choose(script: str) -> None:
    assert read(script).shutdown_seconds is None


def test_a_module_and_a_program_are_executed_as_such() -> None:
    module, program = read("--module", "pkg.train", "1"), read("--no-python", "sh", "-c", "true")

    assert (module.entry, module.arguments) == (sys.executable, ("-u", "-m", "pkg.train", "1"))
    assert (program.entry, program.arguments) == ("sh", ("-c", "true"))


def test_the_old_launcher_passes_the_local_rank(script: str) -> None:
    assert "--local-rank=${local_rank}" in read(script, legacy=True).arguments


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(("missing.py",), "there is no missing.py in", id="no script"),
        pytest.param(("--no-such-option", "x.py"), "torchrun does not take", id="no such option"),
        pytest.param(("--max-restarts=-1", "--no-python", "x"), "max_restarts", id="below zero"),
    ],
)
def test_what_torchrun_would_not_take_is_refused(arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read(*arguments)
