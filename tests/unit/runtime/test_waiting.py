"""What a process says while it waits, and what a local job is not started with."""

import time

import pytest

from ebbtide.runtime.errors import UsageError
from ebbtide.runtime.joining import join_locally
from ebbtide.runtime.reporting import Waiting
from ebbtide.runtime.standing import Phase, Standing
from ebbtide.wire.messages import WorkSpec

WORK = WorkSpec(job="ns/j", steps=3, global_batch_size=2, min_replicas=4, desired=5)


def test_nothing_is_said_before_the_interval_and_one_line_after_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Waiting().look(lambda: "a friend")
    assert capsys.readouterr().out == ""

    Waiting(interval=0.0).look(lambda: "a friend")
    assert capsys.readouterr().out == "ebbtide: waiting for a friend, 0 s so far\n"


@pytest.mark.parametrize(
    ("standing", "words"),
    [
        (Standing(away_since=time.monotonic()), "the coordinator (not yet connected)"),
        (Standing(away_since=0.0, away_why="refused"), "the coordinator (refused)"),
        (Standing(work=WORK, phase=Phase.IDLE), "a generation of at least 4 workers"),
        (Standing(work=WORK, phase=Phase.REACHED), "the final checkpoint"),
    ],
)
def test_what_is_waited_for_has_a_name(standing: Standing, words: str) -> None:
    assert standing.waits_for() == words


@pytest.mark.parametrize(
    ("steps", "batch"), [(0, 4), (-1, 4), (4, 0), (4, -2)], ids=["0", "-1", "no batch", "less"]
)
def test_a_local_job_without_steps_or_samples_is_refused(steps: int, batch: int) -> None:
    with pytest.raises(UsageError, match=f"steps={steps}, global_batch_size={batch}"):
        join_locally(2, steps=steps, global_batch_size=batch, checkpoint_path="")
