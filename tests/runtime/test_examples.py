"""Every example trains as two processes without a cluster, and learns what it should."""

import re
from pathlib import Path

import pytest
import yaml

from ebbtide.api.convert import parse_job, parse_profile
from ebbtide.core.values.job import Job
from support.nursery import Nursery
from support.processes import start_script

from .conftest import DIGITS, MakeJob

EXAMPLES = DIGITS.parents[1]
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/job.yaml"))


def train(nursery: Nursery, folder: Path, name: str, *options: str) -> str:
    """Run an example as two processes; return what they printed."""
    script = EXAMPLES / name / "train.py"
    run = start_script(nursery, script, "--local", "2", *options, log=folder / f"{name}.log")
    assert run.await_code(patience=110) == 0, run.said()
    assert "Warning" not in run.said(), run.said()
    assert "2 members, 2 ranks" in run.said()
    return run.said()


def values_after(word: str, said: str) -> list[float]:
    return [float(value) for value in re.findall(rf"^{word} ([0-9.]+)", said, flags=re.MULTILINE)]


@pytest.mark.timeout(120)
def test_the_language_model_learns_letters(nursery: Nursery, tmp_path: Path) -> None:
    said = train(nursery, tmp_path, "language", "--steps", "60")

    losses = values_after("loss", said)
    assert len(losses) == 2
    assert losses[0] == losses[1], "it is the loss of the whole batch"
    assert losses[0] < 3.1, "it knows how frequent letters are: 61 of them alike would be 4.1"
    assert said.count("\nROMEO:\n") == 1, "one of the two writes"


@pytest.mark.timeout(120)
def test_the_recommender_learns_through_sparse_gradients(nursery: Nursery, tmp_path: Path) -> None:
    said = train(nursery, tmp_path, "recommender", "--steps", "120")

    accuracies = values_after("test accuracy", said)
    assert len(accuracies) == 2
    assert accuracies[0] == accuracies[1], "both hold the same tables"
    assert accuracies[0] > 0.75


@pytest.mark.timeout(120)
def test_the_recommender_keeps_its_tables_on_parameter_servers_unchanged(
    make_job: MakeJob,
) -> None:
    job = make_job(
        script=EXAMPLES / "recommender" / "train.py",
        servers=2, steps=200, global_batch_size=1024, min_replicas=1,
    )  # fmt: skip

    job.start(workers=2)
    job.await_done()

    said = [worker.said() for worker in job.workers.values()]
    accuracies = [value for text in said for value in values_after("test accuracy", text)]
    assert len(accuracies) == 2, said
    assert min(accuracies) > 0.7
    assert [job.await_code(server) for server in job.servers.values()] == [0, 0]


@pytest.mark.parametrize("name", NAMES)
def test_every_example_has_a_job_that_the_operator_takes(name: str) -> None:
    text = (EXAMPLES / name / "job.yaml").read_text(encoding="utf-8")
    documents = {one["kind"]: one for one in yaml.safe_load_all(text)}

    job = parse_job(documents["TrainingJob"])

    assert isinstance(job, Job), job
    assert (EXAMPLES / name / "README.md").exists()
    claims = documents["TrainingJob"]["spec"]["template"]["spec"]["volumes"]
    assert (
        claims[0]["persistentVolumeClaim"]["claimName"]
        == (documents["PersistentVolumeClaim"]["metadata"]["name"])
    )
    if "WorkloadProfile" in documents:
        assert parse_profile(documents["WorkloadProfile"]).workload == name


def test_the_text_is_what_its_readme_says() -> None:
    text = (EXAMPLES / "language" / "romeo-and-juliet.txt").read_text(encoding="ascii")

    assert text.startswith("SAMPSON:\nGregory, o' my word, we'll not carry coals.")
    assert text.rstrip().endswith("Mercy but murders, pardoning those that kill.")
    assert len(set(text)) == 61
