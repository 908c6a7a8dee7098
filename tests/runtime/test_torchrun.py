"""Unmodified torchrun scripts under real agents: started, lost, stopped, failed, and at the end."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ebbtide.wire.messages import WorkSpec
from support.nursery import Nursery
from support.processes import Job, Worker

ROOT = Path(__file__).parents[2]
RANKS = ROOT / "tests" / "support" / "rank_script.py"
DIGITS = ROOT / "examples" / "torchrun" / "train.py"
STEPS = 40

MakeScripts = Callable[..., "Scripts"]


class Scripts:
    """A job of agents, and the folder in which their scripts tell how they fare."""

    def __init__(self, job: Job, folder: Path) -> None:
        self.job = job
        self.folder = folder

    def found(self, pattern: str) -> list[str]:
        return sorted(path.name for path in self.folder.glob(pattern))

    def await_found(self, pattern: str, count: int = 1) -> list[str]:
        self.job.await_that(lambda: len(self.found(pattern)) >= count, f"{count} {pattern}")
        return self.found(pattern)

    def told(self, rank: int, *, generation: int) -> dict[str, str]:
        [name] = self.await_found(f"begun-{generation}-{rank}.json")
        found: dict[str, str] = json.loads((self.folder / name).read_text())
        return found

    def go(self) -> None:
        (self.folder / "go").write_text("")

    def codes(self, *workers: Worker) -> list[int]:
        return [self.job.await_code(worker) for worker in workers]


@pytest.fixture
def make_scripts(nursery: Nursery, tmp_path: Path) -> Iterator[MakeScripts]:
    made: list[Job] = []

    def make(
        *arguments: str,
        launch: tuple[str, ...] = ("torchrun",),
        script: Path = RANKS,
        notice_seconds: float = 10.0,
        **work: Any,
    ) -> Scripts:
        folder = tmp_path / "told"
        where = "--checkpoints" if script is DIGITS else "--folder"
        fields = {"min_replicas": 2, "desired": 2, "regroup": 1.0, **work}
        job = Job(
            folder=tmp_path,
            nursery=nursery,
            work=WorkSpec(
                job="tests/scripts", steps=0, global_batch_size=0, coordinator_grace=20.0, **fields
            ),
            script=script,
            launch=("--torchrun", "--", *launch),
            arguments=[where, str(folder), *arguments],
            notice_seconds=notice_seconds,
        )
        made.append(job)
        return Scripts(job, folder)

    yield make
    for job in made:
        job.close()


def number(nth: int, *, attempt: int = 1) -> int:
    """Return the number of the nth generation that an attempt of the coordinator formed."""
    return attempt * 1_000_000 + nth


def test_the_script_gets_the_environment_that_torchrun_promises(
    make_scripts: MakeScripts,
) -> None:
    scripts = make_scripts(
        launch=("python", "-m", "torch.distributed.run", "--max-restarts=3", "--nnodes=7"),
        processes_per_worker=2,
    )
    workers = scripts.job.start(workers=2)

    told = [scripts.told(rank, generation=number(1)) for rank in range(4)]
    scripts.go()

    assert scripts.codes(*workers) == [0, 0]
    assert [(t["RANK"], t["LOCAL_RANK"], t["GROUP_RANK"]) for t in told] == [
        ("0", "0", "0"),
        ("1", "1", "0"),
        ("2", "0", "1"),
        ("3", "1", "1"),
    ]
    for each in told:
        assert (each["WORLD_SIZE"], each["LOCAL_WORLD_SIZE"]) == ("4", "2")
        assert (each["GROUP_WORLD_SIZE"], each["ROLE_WORLD_SIZE"]) == ("2", "4")
        assert (each["MASTER_ADDR"], each["MASTER_PORT"]) == (
            "127.0.1.10",
            told[0]["MASTER_PORT"],
        )
        assert each["TORCHELASTIC_RUN_ID"] == "tests-scripts"
        assert (each["TORCHELASTIC_RESTART_COUNT"], each["TORCHELASTIC_MAX_RESTARTS"]) == ("0", "3")
        assert "EBBTIDE_LOCAL_RANK" not in each
    assert "--nnodes 7 does not count here" in workers[0].said()


def test_the_old_launchers_script_gets_its_rank_as_an_argument(make_scripts: MakeScripts) -> None:
    scripts = make_scripts(
        launch=("python", "-m", "torch.distributed.launch"), min_replicas=1, desired=1
    )
    [worker] = scripts.job.start(workers=1)

    assert scripts.told(0, generation=number(1))["local_rank_argument"] == "0"
    scripts.go()
    assert scripts.codes(worker) == [0]


def test_what_torchrun_would_not_take_ends_with_64(make_scripts: MakeScripts) -> None:
    scripts = make_scripts(launch=("torchrun", "--no-such-option"), min_replicas=1, desired=1)
    [worker] = scripts.job.start(workers=1)

    assert scripts.codes(worker) == [64]
    assert "torchrun does not take" in worker.said()


@pytest.mark.timeout(180)  # the scripts start cold, twice
def test_a_lost_worker_restarts_the_scripts_of_the_others_and_not_their_containers(
    make_scripts: MakeScripts,
) -> None:
    scripts = make_scripts("--steps", str(STEPS), "--pause", "0.05", "--every", "5", script=DIGITS)
    scripts.job.patience = 80.0
    survivor, lost = scripts.job.start(workers=2)
    scripts.await_found("state.pt")

    lost.kill()
    replacement = scripts.job.start_worker(1, attempt=2)
    codes = scripts.codes(survivor, replacement)

    result = json.loads((scripts.folder / "result.json").read_text())
    assert codes == [0, 0]
    assert (result["steps"], result["world"]) == (STEPS, 2)
    begins = [line for line in survivor.said().splitlines() if "begins at step" in line]
    assert begins[0] == "rank 0 of 2 begins at step 0"
    assert len(begins) == 2
    assert begins[1] != begins[0]  # from the script's own checkpoint
    assert "rank 1 of 2 begins at step" in replacement.said()


@pytest.mark.parametrize("leaver", [0, 1], ids=["the lowest rank", "the highest rank"])
def test_b048_a_worker_that_stops_leaves_with_82_and_the_others_go_on(
    make_scripts: MakeScripts, leaver: int
) -> None:
    scripts = make_scripts(min_replicas=1, desired=3)
    workers = scripts.job.start(workers=3)
    scripts.await_found(f"begun-{number(1)}-*.json", 3)

    began = time.monotonic()
    workers[2 * leaver].terminate()
    [code] = scripts.codes(workers[2 * leaver])
    took = time.monotonic() - began
    told = scripts.told(1, generation=number(2))
    back = scripts.job.start_worker(2 * leaver, attempt=2)
    scripts.told(2, generation=number(3))
    scripts.go()

    assert code == 82
    assert took < 10.0
    assert told["WORLD_SIZE"] == "2"
    assert len(scripts.found(f"saved-{number(1)}-*")) == 3  # everybody's script was told in time
    survivors = [worker for worker in workers if worker is not workers[2 * leaver]]
    assert scripts.codes(*survivors, back) == [0, 0, 0]


def test_b057_a_script_that_does_not_end_is_ended_within_the_notice(
    make_scripts: MakeScripts,
) -> None:
    scripts = make_scripts("--stubborn", min_replicas=1, desired=1, notice_seconds=3.0)
    [worker] = scripts.job.start(workers=1)
    scripts.told(0, generation=number(1))

    began = time.monotonic()
    worker.terminate()

    assert scripts.codes(worker) == [82]
    assert 1.5 < time.monotonic() - began < 3.5


def test_a_script_that_fails_ends_its_own_worker_alone(make_scripts: MakeScripts) -> None:
    scripts = make_scripts("--fail", "1:7")
    first, failing = scripts.job.start(workers=2)

    assert scripts.codes(failing) == [7]
    assert "exitcode  : 7" in failing.said()
    (scripts.folder / "mended").write_text("")
    again = scripts.job.start_worker(1, attempt=2)
    scripts.told(1, generation=number(2))
    scripts.go()
    assert scripts.codes(first, again) == [0, 0]


def test_b052_restarts_are_counted_for_the_job_and_all_see_the_same_number(
    make_scripts: MakeScripts,
) -> None:
    scripts = make_scripts("--fail", "1:7", launch=("torchrun", "--max-restarts=2"))
    workers = scripts.job.start(workers=2)

    codes = [scripts.codes(workers[1])]
    counts = [
        [
            scripts.told(rank, generation=number(nth))["TORCHELASTIC_RESTART_COUNT"]
            for rank in range(2)
        ]
        for nth in (1, 2, 3)
    ]

    assert codes == [[7]]
    assert counts == [["0", "0"], ["1", "1"], ["2", "2"]]


def test_b049_scripts_run_on_while_the_coordinator_is_away(make_scripts: MakeScripts) -> None:
    scripts = make_scripts()
    workers = scripts.job.start(workers=2)
    scripts.await_found(f"begun-{number(1)}-*.json", 2)

    scripts.job.kill_coordinator()
    scripts.job.start_coordinator()
    scripts.job.await_report(lambda report: report.training, "taken over")
    workers[1].kill()
    scripts.job.kill_coordinator()  # once more, while they re-form
    replacement = scripts.job.start_worker(1, attempt=2)
    scripts.job.start_coordinator()
    told = scripts.told(0, generation=number(1, attempt=3))
    scripts.go()

    assert told["WORLD_SIZE"] == "2"
    assert scripts.codes(workers[0], replacement) == [0, 0]


def test_a_plain_torchrun_meets_through_the_coordinator_as_well(make_scripts: MakeScripts) -> None:
    scripts = make_scripts()
    scripts.job.launch = (
        *("--", "python", "-m", "support.plain_torchrun"),
        *("--nnodes=1:2", "--rdzv-backend=ebbtide", "--rdzv-id=1"),
    )
    workers = scripts.job.start(workers=2)

    told = [scripts.told(rank, generation=0) for rank in range(2)]
    workers[1].kill()
    replacement = scripts.job.start_worker(1, attempt=2)
    scripts.await_found("saved-0-0")
    (scripts.folder / "go").write_text("")

    assert [each["WORLD_SIZE"] for each in told] == ["2", "2"]
    assert scripts.codes(workers[0], replacement) == [0, 0]


def test_newcomers_are_taken_in_after_a_while(make_scripts: MakeScripts) -> None:
    scripts = make_scripts(min_replicas=1, desired=2)
    first = scripts.job.start(workers=1)[0]
    assert scripts.told(0, generation=number(1))["WORLD_SIZE"] == "1"

    second = scripts.job.start_worker(1)
    told = scripts.told(1, generation=number(2))
    scripts.go()

    assert told["WORLD_SIZE"] == "2"
    assert scripts.codes(first, second) == [0, 0]
