"""What every job must come to, whatever was done to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from support.bed import Bed
    from world.api import Json
    from world.training import Training


class Undisturbed(Protocol):
    """Gives the result of the same job without any disturbance."""

    async def __call__(self, bed: Bed, *, workers: int, steps: int = 120) -> Json:
        """Train it once per test run, and remember."""


def check_whole(
    job: Training, *, revocations: int | None = None, steps_lost: int | None = 0
) -> None:
    """Complete, each step counted once, nothing failed, and never a wrong word on the way."""
    steps = job.manifest["spec"]["work"]["steps"]
    assert job.status["state"] == "Complete"
    assert job.result["steps"] == steps
    assert job.status["progress"]["step"] == steps
    assert job.counter("failures") == 0
    if steps_lost is not None:
        assert job.counter("stepsLost") == steps_lost
    if revocations is not None:
        assert job.counter("revocations") == revocations
    check_history(job)


def check_history(job: Training) -> None:
    """B021: read after every write, conditions never contradict each other."""
    ended = False
    for version in job.history:
        status = version.get("status", {})
        true = {c["type"] for c in status.get("conditions") or [] if c["status"] == "True"}
        assert not {"Complete", "Failed"} <= true
        assert not ({"Complete", "Failed"} & true and {"Running", "Degraded", "Replacing"} & true)
        assert not ended or {"Complete", "Failed"} & true
        ended = bool({"Complete", "Failed"} & true)
        assert status.get("observedGeneration", -1) <= version["metadata"]["generation"]
        assert all(c["reason"] for c in status.get("conditions") or [])


def check_equal(job: Training, expected: Json) -> None:
    """The final model is the one that an undisturbed run gives."""
    assert job.result["loss"] == pytest.approx(expected["loss"], abs=1e-4)
    assert job.result["accuracy"] == pytest.approx(expected["accuracy"], abs=1e-6)


def check_as_good(job: Training, expected: Json) -> None:
    """The final model is as good as the one that an undisturbed run gives."""
    assert job.result["loss"] == pytest.approx(expected["loss"], abs=0.05)
    assert job.result["accuracy"] == pytest.approx(expected["accuracy"], abs=0.01)
