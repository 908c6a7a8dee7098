import dataclasses
import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from ebbtide.cluster.reading import CachedPod, count_gpus, read_node, read_pod
from ebbtide.cluster.shapes import NodeShape, PodShape
from ebbtide.core.values.observed import PodPhase, Role, Taint
from support.objects import JOB_UID, node_object, owner, pod_object


def read(body: dict[str, Any]) -> CachedPod | None:
    return read_pod(msgspec.json.decode(json.dumps(body), type=PodShape))


def read_known(body: dict[str, Any]) -> CachedPod:
    found = read(body)
    assert found is not None
    return found


def test_a_running_pod_is_read_with_its_place_in_the_job() -> None:
    found = read_known(pod_object(3, 2))

    assert (found.job.namespace, found.job.name, found.job_uid) == ("team", "digits", JOB_UID)
    assert found.version == 10
    pod = found.pod
    assert (pod.role, pod.index, pod.attempt, pod.pool) == (Role.WORKER, 3, 2, "spot")
    assert (pod.node, pod.phase, pod.ip, pod.gpus) == ("node-1", PodPhase.RUNNING, "10.0.0.1", 1)
    assert not pod.ended


@pytest.mark.parametrize(
    "labels",
    [
        {"ebbtide.dev/replica-type": "dancer"},
        {"ebbtide.dev/replica-index": "-1"},
        {"ebbtide.dev/attempt": "many"},
        {"ebbtide.dev/attempt": "1" * 20},
    ],
)
def test_a_pod_with_labels_that_we_never_write_is_not_ours(labels: dict[str, str]) -> None:
    assert read(pod_object(metadata={"labels": labels})) is None


@pytest.mark.parametrize("owners", [[], [owner(kind="Job")], [{**owner(), "controller": False}]])
def test_a_pod_that_no_training_job_controls_belongs_to_no_job(owners: list[Any]) -> None:
    assert read_known(pod_object(metadata={"ownerReferences": owners})).job_uid == ""


def test_the_moment_a_deletion_was_asked_for_comes_before_its_grace() -> None:
    meta = {"deletionTimestamp": "2026-01-01T12:01:00Z", "deletionGracePeriodSeconds": 30}

    pod = read_known(pod_object(metadata=meta)).pod

    assert pod.deletion_requested == datetime(2026, 1, 1, 12, 0, 30, tzinfo=UTC)


def condition(kind: str, status: str, reason: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": f"about {reason}",
        "lastTransitionTime": "2026-01-01T12:00:05Z",
    }


def test_an_unschedulable_pod_says_since_when_and_why() -> None:
    found = condition("PodScheduled", "False", "Unschedulable")

    pod = read_known(pod_object(status={"phase": "Pending", "conditions": [found]})).pod

    assert pod.unschedulable_since == datetime(2026, 1, 1, 12, 0, 5, tzinfo=UTC)
    assert pod.unschedulable_message == "about Unschedulable"


def test_a_pod_held_by_a_scheduling_gate_is_not_unschedulable() -> None:
    found = condition("PodScheduled", "False", "SchedulingGated")

    assert read_known(pod_object(status={"conditions": [found]})).pod.unschedulable_since is None


def test_a_disruption_and_its_reason_are_read() -> None:
    found = condition("DisruptionTarget", "True", "TerminationByKubelet")

    pod = read_known(pod_object(status={"phase": "Failed", "conditions": [found]})).pod

    assert (pod.disruption, pod.disruption_message) == (
        "TerminationByKubelet",
        "about TerminationByKubelet",
    )
    assert pod.ended


def ended(name: str, code: int, *, at: str = "12:00:09", reason: str = "Error") -> dict[str, Any]:
    end = {
        "exitCode": code,
        "reason": reason,
        "message": f"{name} says {code}",
        "startedAt": "2026-01-01T12:00:01Z",
        "finishedAt": f"2026-01-01T{at}Z",
    }
    return {"name": name, "state": {"terminated": end}}


def test_the_container_that_ended_badly_first_explains_the_end() -> None:
    status = {
        "phase": "Failed",
        "containerStatuses": [
            ended("trainer", 143, at="12:00:09"),
            ended("sidecar", 1, at="12:00:08"),
        ],
    }

    pod = read_known(pod_object(status=status)).pod

    assert (pod.exit_container, pod.exit_code, pod.exit_message) == ("sidecar", 1, "sidecar says 1")
    assert pod.finished_at == datetime(2026, 1, 1, 12, 0, 8, tzinfo=UTC)
    assert pod.started


def test_a_failed_init_container_is_an_end_before_the_trainer_started() -> None:
    waiting = {"name": "trainer", "state": {"waiting": {"reason": "PodInitializing"}}}
    status = {
        "phase": "Failed",
        "initContainerStatuses": [ended("fetch", 2)],
        "containerStatuses": [waiting],
    }

    pod = read_known(pod_object(status=status)).pod

    assert (pod.exit_container, pod.exit_code, pod.started) == ("fetch", 2, False)


def test_exit_zero_of_the_trainer_is_read_without_a_container_to_blame() -> None:
    status = {"phase": "Succeeded", "containerStatuses": [ended("trainer", 0, reason="Completed")]}

    pod = read_known(pod_object(status=status)).pod

    assert (pod.exit_container, pod.exit_code, pod.exit_reason) == ("", 0, "Completed")


def test_a_container_that_could_not_be_started_has_not_run() -> None:
    end = ended("trainer", 128, reason="StartError")
    end["state"]["terminated"]["startedAt"] = "1970-01-01T00:00:00Z"

    assert not read_known(pod_object(status={"containerStatuses": [end]})).pod.started


def test_an_image_that_cannot_be_pulled_is_told_before_one_that_is_only_waited_for() -> None:
    status = {
        "phase": "Pending",
        "containerStatuses": [
            {"name": "trainer", "state": {"waiting": {"reason": "ContainerCreating"}}},
            {"name": "sidecar", "state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}},
        ],
    }

    pod = read_known(pod_object(status=status)).pod

    assert (pod.waiting_reason, pod.waiting_message) == ("ErrImagePull", "no")
    assert pod.waiting_image == ""  # the template names no such container


@pytest.mark.parametrize(
    ("kind", "asked"),
    [("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")],
)
def test_the_image_that_is_waited_for_is_the_one_that_the_template_names(
    kind: str, asked: str
) -> None:
    found = pod_object(
        status={
            "phase": "Pending",
            kind: [{"name": "it", "state": {"waiting": {"reason": "ErrImagePull"}}}],
        }
    )
    found["spec"][asked] = [{"name": "it", "image": "registry.example/it:2"}]

    assert read_known(found).pod.waiting_image == "registry.example/it:2"


def test_a_phase_of_a_future_release_is_unknown() -> None:
    assert read_known(pod_object(status={"phase": "Dreaming"})).pod.phase is PodPhase.UNKNOWN


@pytest.mark.parametrize(("asked", "found"), [("2", 2), (1, 1), ("half", 0), ("1500m", 0)])
def test_gpus_are_whole_numbers(asked: str | int, found: int) -> None:
    assert count_gpus({"nvidia.com/gpu": asked}) == found


def test_a_node_is_read_with_its_taints_and_boot() -> None:
    taint = {"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NoSchedule"}
    body = node_object(spec={"unschedulable": True, "taints": [taint]})

    found = read_node(msgspec.json.decode(json.dumps(body), type=NodeShape))

    node = found.node
    assert (node.ready, node.boot_id, node.gpus, node.unschedulable) == (True, "boot-1", 1, True)
    assert node.taints == (
        Taint(key="cloud.google.com/gke-spot", value="true", effect="NoSchedule"),
    )


def test_a_node_that_never_reported_is_not_ready_since_it_was_made() -> None:
    body = node_object(status={"conditions": None})

    node = read_node(msgspec.json.decode(json.dumps(body), type=NodeShape)).node

    assert not node.ready
    assert node.ready_changed == datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def test_no_fact_of_a_pod_is_left_out() -> None:
    time = "2026-01-01T12:00:05Z"
    ended = {"exitCode": 137, "reason": "Error", "message": "last words"}
    ended |= {"startedAt": time, "finishedAt": time}
    facts = {
        "metadata": {
            "deletionTimestamp": time,
            "annotations": {"ebbtide.dev/boot-id": "boot-1", "ebbtide.dev/template-hash": "t1"},
        },
        "spec": {
            "activeDeadlineSeconds": 1,
            "initContainers": [{"name": "setup", "image": "registry.example/setup:1"}],
        },
        "status": {
            "phase": "Failed",
            "reason": "Terminated",
            "message": "told",
            "startTime": time,
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "0/1 nodes",
                    "lastTransitionTime": time,
                },
                {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "TerminationByKubelet",
                    "message": "imminent",
                    "lastTransitionTime": time,
                },
                {"type": "Ready", "status": "True", "lastTransitionTime": time},
            ],
            "initContainerStatuses": [
                {"name": "setup", "state": {"waiting": {"reason": "ErrImagePull", "message": "x"}}}
            ],
            "containerStatuses": [
                {"name": "trainer", "started": False, "state": {"terminated": ended}}
            ],
        },
    }

    pod = read_known(pod_object(1, 2, **facts)).pod

    same = [
        field.name
        for field in dataclasses.fields(pod)
        if field.default is not dataclasses.MISSING and getattr(pod, field.name) == field.default
    ]
    assert same == []


@pytest.mark.parametrize("grace", [10**11, 2**63 - 1])
def test_a_grace_that_no_date_has_room_for_is_still_a_deletion(grace: int) -> None:
    meta = {"deletionTimestamp": "2026-01-01T12:01:00Z", "deletionGracePeriodSeconds": grace}

    pod = read_known(pod_object(metadata=meta)).pod

    assert pod.deletion_requested is not None
    assert pod.deletion_requested <= datetime(2026, 1, 1, 12, 1, tzinfo=UTC)
