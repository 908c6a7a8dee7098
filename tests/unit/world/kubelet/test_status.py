"""Phases and conditions, as a kubelet computes them from container states."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from world.kubelet import status
from world.kubelet.status import ContainerRecord, PodReport

NOW = "2026-01-01T00:00:09Z"
WAITING = {"waiting": {"reason": "ContainerCreating"}}
RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


def make_ended(code: int) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed"}}


def make_record(state: dict[str, Any], **more: Any) -> ContainerRecord:
    fields = {"name": "main", "image": "any", "ready": "running" in state, **more}
    return ContainerRecord(state=state, **fields)


def make_report(*main: ContainerRecord, **more: Any) -> PodReport:
    spec = {"restartPolicy": more.pop("policy", "Never"), "containers": []}
    pod = {"metadata": {"generation": 3}, "spec": spec, "status": more.pop("before", {})}
    fields: dict[str, Any] = {
        "started_at": "2026-01-01T00:00:00Z",
        "host_ip": "10.77.1.1",
        "pod_ip": "10.77.1.2",
        "has_sandbox": True,
        "init": (),
        "ended": False,
    }
    return PodReport(pod=pod, main=main, **{**fields, **more})


def conditions(found: dict[str, Any]) -> dict[str, tuple[str, str | None]]:
    return {c["type"]: (c["status"], c["reason"]) for c in found["conditions"]}


CRASHED = {"last_state": make_ended(1)}


@pytest.mark.parametrize(
    ("policy", "ended", "main", "expected"),
    [
        pytest.param("Never", False, [make_record(WAITING)], "Pending", id="not started"),
        pytest.param("Never", False, [make_record(RUNNING)], "Running", id="running"),
        pytest.param(
            "Never",
            False,
            [make_record(RUNNING), make_record(WAITING)],
            "Pending",
            id="half started",
        ),
        pytest.param("Never", True, [make_record(make_ended(0))], "Succeeded", id="clean"),
        pytest.param("Never", True, [make_record(make_ended(82))], "Failed", id="not clean"),
        pytest.param(
            "Never",
            True,
            [make_record(make_ended(0)), make_record(make_ended(1))],
            "Failed",
            id="one not clean",
        ),
        pytest.param(
            "Never",
            False,
            [make_record(make_ended(1)), make_record(RUNNING)],
            "Running",
            id="one left",
        ),
        pytest.param("Always", False, [make_record(make_ended(0))], "Running", id="will restart"),
        pytest.param("OnFailure", False, [make_record(make_ended(1))], "Running", id="will retry"),
        pytest.param("OnFailure", True, [make_record(make_ended(0))], "Succeeded", id="no retry"),
        pytest.param(
            "Always", False, [make_record(WAITING, **CRASHED)], "Running", id="backing off"
        ),
        pytest.param("Always", True, [make_record(make_ended(0))], "Succeeded", id="stopped clean"),
        pytest.param("Always", True, [make_record(make_ended(143))], "Failed", id="stopped"),
    ],
)
def test_the_phase_follows_from_the_containers(
    *, policy: str, ended: bool, main: list[ContainerRecord], expected: str
) -> None:
    assert status.phase(policy, init=(), main=main, ended=ended) == expected


@pytest.mark.parametrize(
    ("policy", "init", "expected"),
    [
        pytest.param("Never", make_record(WAITING), "Pending", id="waiting"),
        pytest.param("Never", make_record(RUNNING), "Pending", id="running"),
        pytest.param("Never", make_record(make_ended(1)), "Failed", id="failed for good"),
        pytest.param("Always", make_record(make_ended(1)), "Pending", id="failed, to be retried"),
        pytest.param("Never", make_record(make_ended(0)), "Running", id="done"),
    ],
)
def test_init_containers_come_first(policy: str, init: ContainerRecord, expected: str) -> None:
    main = [make_record(RUNNING)]

    assert status.phase(policy, init=[init], main=main, ended=False) == expected


STATES = st.sampled_from([WAITING, RUNNING, make_ended(0), make_ended(1), make_ended(137)])
RECORDS = st.builds(make_record, STATES)


@given(
    policy=st.sampled_from(["Never", "OnFailure", "Always"]),
    main=st.lists(RECORDS, min_size=1, max_size=4),
)
def test_no_pod_succeeds_with_a_container_that_did_not(
    policy: str, main: list[ContainerRecord]
) -> None:
    for record in main:
        status.close(record)

    found = status.phase(policy, init=(), main=main, ended=True)

    clean = all(record.exit_code == 0 for record in main)
    assert found == ("Succeeded" if clean else "Failed")


@given(main=st.lists(RECORDS, min_size=1, max_size=4), ended=st.booleans())
def test_ready_means_running_with_every_container_ready(
    *, main: list[ContainerRecord], ended: bool
) -> None:
    found = status.pod_status(make_report(*main, ended=ended), now=NOW)

    if conditions(found)["Ready"][0] == "True":
        assert found["phase"] == "Running"
        assert all(record.ready for record in main)


def test_an_end_is_told_only_when_the_pod_has_ended() -> None:
    report = make_report(make_record(make_ended(1)), ended=False, outcome=status.SHUT_DOWN)

    found = status.pod_status(report, now=NOW)

    assert found["phase"] == "Running"
    assert "reason" not in found
    assert "DisruptionTarget" not in conditions(found)


def test_a_shutdown_is_the_reason_of_a_failure() -> None:
    report = make_report(make_record(make_ended(82)), ended=True, outcome=status.SHUT_DOWN)

    found = status.pod_status(report, now=NOW)

    assert (found["phase"], found["reason"]) == ("Failed", "Terminated")
    assert conditions(found)["DisruptionTarget"] == ("True", "TerminationByKubelet")
    assert conditions(found)["PodReadyToStartContainers"] == ("False", None)


def test_a_pod_that_exits_0_at_a_shutdown_succeeds_and_is_a_disruption_target() -> None:
    report = make_report(make_record(make_ended(0)), ended=True, outcome=status.SHUT_DOWN)

    found = status.pod_status(report, now=NOW)

    assert found["phase"] == "Succeeded"
    assert "reason" not in found
    assert conditions(found)["DisruptionTarget"] == ("True", "TerminationByKubelet")


def test_a_missed_deadline_fails_a_pod_that_exits_0() -> None:
    report = make_report(make_record(make_ended(0)), ended=True, outcome=status.DEADLINE)

    found = status.pod_status(report, now=NOW)

    assert (found["phase"], found["reason"]) == ("Failed", "DeadlineExceeded")
    assert "DisruptionTarget" not in conditions(found)


def test_a_phase_that_is_an_end_stays() -> None:
    before = {"phase": "Failed"}

    found = status.pod_status(make_report(make_record(RUNNING), before=before), now=NOW)

    assert found["phase"] == "Failed"


def test_a_condition_keeps_its_time_while_it_does_not_change() -> None:
    old = "2026-01-01T00:00:01Z"
    listed = [
        {"type": "Initialized", "status": "True", "lastTransitionTime": old},
        {"type": "Ready", "status": "False", "lastTransitionTime": old},
    ]

    found = status.pod_status(
        make_report(make_record(RUNNING), before={"conditions": listed}), now=NOW
    )

    times = {c["type"]: c["lastTransitionTime"] for c in found["conditions"]}
    assert times["Initialized"] == old
    assert times["Ready"] == NOW
    assert all(c["observedGeneration"] == 3 for c in found["conditions"])


def test_a_closed_readiness_gate_keeps_the_pod_from_being_ready() -> None:
    report = make_report(make_record(RUNNING))
    report.pod["spec"]["readinessGates"] = [{"conditionType": "a.b/ready"}]

    found = conditions(status.pod_status(report, now=NOW))

    assert found["ContainersReady"] == ("True", None)
    assert found["Ready"] == ("False", "ReadinessGatesNotReady")


@pytest.mark.parametrize("final", [True, False])
def test_what_an_earlier_boot_ran_is_lost(*, final: bool) -> None:
    spec = {"name": "main", "image": "any"}
    before = {"name": "main", "state": RUNNING, "restartCount": 2, "containerID": "process://x"}

    record = status.restored(spec, before, waiting=WAITING, final=final)

    lost = (record.state if final else record.last_state)["terminated"]
    assert (lost["exitCode"], lost["reason"]) == (137, "ContainerStatusUnknown")
    assert record.restart_count == (2 if final else 3)
    assert record.ended is final


def test_what_an_earlier_boot_saw_end_stays_ended() -> None:
    spec = {"name": "main", "image": "any"}

    record = status.restored(
        spec, {"state": make_ended(3), "restartCount": 0}, waiting=WAITING, final=True
    )

    assert record.exit_code == 3
