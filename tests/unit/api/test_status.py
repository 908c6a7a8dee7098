from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from ebbtide.api.job_status import Status
from ebbtide.api.status import parse_status, render_status
from ebbtide.api.texts import render_time, render_usd
from ebbtide.core.values.errors import InvalidManifestError
from ebbtide.core.values.status import (
    Attempts,
    Condition,
    Cost,
    Counters,
    Display,
    JobStatus,
    LastFailure,
    NodeCharge,
    Progress,
    RefusedImage,
    Replicas,
    RoleStatus,
)

NOON = datetime(2026, 1, 1, 12, 0, 0, 250_000, tzinfo=UTC)
NODE = NodeCharge(
    node="node-1", uid="uid-n", pool="spot", usd_per_hour=Decimal(1) / Decimal(3), since=NOON
)
FULL = JobStatus(
    observed_generation=3,
    state="Running",
    conditions=(
        Condition(
            type="Running",
            status="True",
            reason="Training",
            message="4 of 4 workers train.",
            observed_generation=3,
            last_transition=NOON,
        ),
    ),
    first_start=NOON,
    start=NOON,
    completion=NOON,
    generation=1_000_002,
    members=4,
    replicas=Replicas(desired=4, ready=4, spot=3, on_demand=1, spares=1),
    replica_statuses={"worker": RoleStatus(active=4, ready=4, succeeded=1, failed=2)},
    selector="ebbtide.dev/job-name=digits",
    attempts={"worker-0": Attempts(last=3, judged=2, tried=("spot",)), "worker-1": Attempts()},
    progress=Progress(
        step=10,
        steps=600,
        steps_per_second=2.5,
        percentage=1,
        estimated_remaining_seconds=236,
        last_checkpoint_step=0,
        last_checkpoint_time=NOON,
        updated=NOON,
    ),
    cost=Cost(spent_usd=Decimal("1.005"), settled_usd=Decimal("0.1234567"), nodes=(NODE,)),
    counters=Counters(revocations=1, failures=2, restarts=3, steps_lost=4),
    last_failure=LastFailure(generation=1_000_001, time=NOON, message="exit 1"),
    refused_image=RefusedImage(image="registry.example/warm:2", since=NOON, message="not found"),
    display=Display(ready="4/4", gpu="4x V100", spot="3/4", progress="1%"),
)


@pytest.mark.parametrize("stored", [None, {}, {"observedGeneration": -1}], ids=repr)
def test_a_job_that_nobody_has_seen_has_an_empty_status(stored: dict[str, int] | None) -> None:
    assert parse_status(stored) == JobStatus()


def test_a_full_status_is_what_the_definition_says() -> None:
    rendered = render_status(FULL)

    Status.model_validate(rendered)  # raises where it is not
    assert rendered["cost"] == {
        "spentUsd": "1.01",
        "settledUsd": "0.123457",
        "nodes": [
            {
                "node": "node-1",
                "uid": "uid-n",
                "pool": "spot",
                "usdPerHour": "0.333333",
                "since": "2026-01-01T12:00:00.250000Z",
            }
        ],
    }
    assert rendered["attempts"] == {
        "worker-0": {"last": 3, "judged": 2, "tried": ["spot"]},
        "worker-1": {"last": 0, "judged": 0},
    }
    assert rendered["generation"] == {"number": 1_000_002, "members": 4}


def test_every_field_survives_being_stored() -> None:
    again = parse_status(render_status(FULL))

    assert render_status(again) == render_status(FULL)
    assert again.last_failure == FULL.last_failure
    assert again.refused_image == FULL.refused_image
    assert again.attempts == FULL.attempts
    assert again.progress.updated == NOON
    assert again.counters == FULL.counters
    assert again.replicas == FULL.replicas
    assert again.replica_statuses == FULL.replica_statuses
    assert again.display == FULL.display


def test_times_that_users_read_are_whole_seconds() -> None:
    rendered = render_status(FULL)

    assert rendered["conditions"][0]["lastTransitionTime"] == "2026-01-01T12:00:00Z"
    assert rendered["firstStartTime"] == "2026-01-01T12:00:00Z"
    assert rendered["lastFailure"]["time"] == "2026-01-01T12:00:00.250000Z"


def test_times_of_other_zones_become_utc() -> None:
    there = NOON.astimezone(timezone(timedelta(hours=2)))

    assert render_time(there) == "2026-01-01T12:00:00.250000Z"


def test_what_is_not_known_is_left_out() -> None:
    rendered = render_status(JobStatus(observed_generation=1, state="Pending"))

    assert rendered == {
        "observedGeneration": 1,
        "state": "Pending",
        "generation": {"number": 0, "members": 0},
        "replicas": {"desired": 0, "ready": 0, "spot": 0, "onDemand": 0, "spares": 0},
        "progress": {"step": 0, "steps": 0, "stepsPerSecond": 0.0, "percentage": 0},
        "cost": {"spentUsd": "0.00", "settledUsd": "0.000000"},
        "counters": {"revocations": 0, "failures": 0, "restarts": 0, "stepsLost": 0},
    }


def test_a_message_without_end_is_cut_to_what_may_be_stored() -> None:
    failure = LastFailure(generation=1, time=NOON, message="x" * 40_000)
    display = Display(gpu="8x " + "V100 " * 100)

    rendered = render_status(JobStatus(last_failure=failure, display=display))

    Status.model_validate(rendered)  # raises where it is not


@pytest.mark.parametrize("rate", [float("inf"), float("nan"), -1.0])
def test_a_speed_that_is_no_number_is_none(rate: float) -> None:
    rendered = render_status(JobStatus(progress=Progress(steps_per_second=rate)))

    assert rendered["progress"]["stepsPerSecond"] == 0.0


def test_a_field_of_a_later_version_is_no_reason_to_fail() -> None:
    assert parse_status({"forecast": {"at": "now"}, "state": "Running"}).state == "Running"


def test_a_status_of_a_wrong_shape_names_the_field() -> None:
    with pytest.raises(InvalidManifestError, match=r"status\.counters\.failures"):
        parse_status({"counters": {"failures": "many"}})


@pytest.mark.parametrize(
    ("amount", "text"),
    [("0", "0.00"), ("0.005", "0.01"), ("1234567.894", "1234567.89"), ("1E+3", "1000.00")],
)
def test_money_is_a_plain_decimal(amount: str, text: str) -> None:
    assert render_usd(Decimal(amount)) == text
