"""Jobs of real processes: coordinator, workers, gloo, losses."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ebbtide.wire.messages import WorkSpec
from support.nursery import Nursery
from support.processes import Fault, Job

SMALL_RUN = Path(__file__).parents[1] / "support" / "small_run.py"
DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "train.py"

MakeJob = Callable[..., Job]


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    nursery = Nursery(tmp_path_factory.mktemp("nursery") / "log")
    yield nursery
    nursery.close()


@pytest.fixture
def make_job(nursery: Nursery, tmp_path: Path) -> Iterator[MakeJob]:
    """Make jobs of two members that train sixty steps, or as the keywords say."""
    made: list[Job] = []

    def make(
        *arguments: str,
        faults: list[Fault] | None = None,
        script: Path = SMALL_RUN,
        notice_seconds: float = 10.0,
        **work: Any,
    ) -> Job:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        fields: dict[str, Any] = {
            "job": "tests/small",
            "steps": 60,
            "global_batch_size": 16,
            "min_replicas": 2,
            "desired": 2,
            "coordinator_grace": 20.0,
            **work,
        }
        job = Job(
            folder=folder,
            nursery=nursery,
            work=WorkSpec(**fields),
            script=script,
            arguments=list(arguments),
            faults=faults or [],
            notice_seconds=notice_seconds,
        )
        made.append(job)
        return job

    yield make
    for job in made:
        job.close()


@pytest.fixture(scope="session")
def undisturbed(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The fingerprint of sixty steps by two ranks to whom nothing happened."""
    job = Job(
        folder=tmp_path_factory.mktemp("undisturbed"),
        nursery=nursery,
        work=WorkSpec(job="tests/small", steps=60, global_batch_size=16, min_replicas=2, desired=2),
        script=SMALL_RUN,
    )
    try:
        job.start(workers=2)
        digests = {result["digest"] for result in job.await_done().values()}
    finally:
        job.close()
    assert len(digests) == 1
    return str(digests.pop())
