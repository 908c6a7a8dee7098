"""A pod lives and ends as on a real node. Left out: what the API server alone decides."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.kubelet.conftest import Bench
    from world.kubelet import Kubelet


def conditions(pod: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c.get("reason", "")) for c in pod["status"]["conditions"]}


def ended(pod: dict[str, Any], kind: str = "containerStatuses", index: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = pod["status"][kind][index]["state"]["terminated"]
    return found


async def test_a_pod_whose_command_exits_0_succeeds(bench: Bench, node: Kubelet) -> None:
    await bench.pod(node, "good", "echo done")

    pod = await bench.ended("good")

    status = pod["status"]
    assert status["phase"] == "Succeeded"
    assert ended(pod)["exitCode"] == 0
    assert ended(pod)["reason"] == "Completed"
    assert status["observedGeneration"] == pod["metadata"]["generation"]
    assert status["hostIP"] == node.shape.ip
    assert status["podIP"] == status["podIPs"][0]["ip"]
    assert conditions(pod) == {
        "PodReadyToStartContainers": ("False", ""),
        "Initialized": ("True", "PodCompleted"),
        "ContainersReady": ("False", "PodCompleted"),
        "Ready": ("False", "PodCompleted"),
        "PodScheduled": ("True", ""),
    }
    assert await bench.log("good") == "done\n"


async def test_a_running_pod_is_ready(bench: Bench, node: Kubelet) -> None:
    await bench.pod(node, "steady", "exec sleep 1000")

    pod = await bench.phase("steady", "Running")

    container = pod["status"]["containerStatuses"][0]
    assert (container["ready"], container["started"], container["restartCount"]) == (True, True, 0)
    assert "running" in container["state"]
    kinds = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
    assert [conditions(pod)[kind] for kind in kinds] == [("True", "")] * 4


async def test_a_pod_whose_command_fails_has_failed(bench: Bench, node: Kubelet) -> None:
    await bench.pod(node, "bad", "exit 82")

    pod = await bench.ended("bad")

    assert pod["status"]["phase"] == "Failed"
    assert (ended(pod)["exitCode"], ended(pod)["reason"]) == (82, "Error")
    assert "reason" not in pod["status"]
    assert conditions(pod)["Ready"] == ("False", "PodFailed")


async def test_a_command_killed_from_outside_ends_with_137(
    bench: Bench, node: Kubelet, running: Any
) -> None:
    await bench.pod(node, "shot", ["sleep", "98765.1"])
    await bench.phase("shot", "Running")
    (pid,) = running("98765.1", program="sleep")

    os.kill(pid, signal.SIGKILL)

    pod = await bench.ended("shot")
    assert ended(pod)["exitCode"] == 137
    assert await bench.log("shot") == ""


async def test_a_command_that_does_not_exist_is_a_start_error(bench: Bench, node: Kubelet) -> None:
    await bench.pod(node, "typo", ["no-such-program", "x"])

    pod = await bench.ended("typo")

    assert pod["status"]["phase"] == "Failed"
    assert (ended(pod)["exitCode"], ended(pod)["reason"]) == (128, "StartError")
    assert "no-such-program" in ended(pod)["message"]


async def test_a_failed_container_is_restarted_with_back_off(bench: Bench, node: Kubelet) -> None:
    await bench.pod(node, "again", "echo try; exit 1", spec={"restartPolicy": "OnFailure"})

    pod = await bench.until(
        f"{bench.pods}/again",
        lambda pod: (
            pod
            and "CrashLoopBackOff"
            in str(pod["status"].get("containerStatuses", [{}])[0].get("state"))
        ),
    )

    container = pod["status"]["containerStatuses"][0]
    assert pod["status"]["phase"] == "Running"
    assert container["restartCount"] == 1
    assert container["lastState"]["terminated"]["exitCode"] == 1
    assert await bench.log("again", previous="true") == "try\n"


async def test_init_containers_run_first_and_one_after_the_other(
    bench: Bench, node: Kubelet
) -> None:
    share = {"volumeMounts": [{"name": "share", "mountPath": "/share"}], "image": "any"}
    init = [
        {"name": "one", "command": ["sh", "-c", "echo one >>/share/order"], **share},
        {"name": "two", "command": ["sh", "-c", "echo two >>/share/order"], **share},
    ]
    await bench.pod(
        node,
        "prepared",
        "cat /share/order",
        container=share,
        spec={"initContainers": init, "volumes": [{"name": "share", "emptyDir": {}}]},
    )

    pod = await bench.ended("prepared")

    assert await bench.log("prepared") == "one\ntwo\n"
    assert [ended(pod, "initContainerStatuses", i)["reason"] for i in (0, 1)] == ["Completed"] * 2


async def test_a_failed_init_container_fails_a_pod_that_never_restarts(
    bench: Bench, node: Kubelet
) -> None:
    init = [{"name": "first", "image": "any", "command": ["sh", "-c", "exit 4"]}]
    await bench.pod(node, "unprepared", "echo never", spec={"initContainers": init})

    pod = await bench.ended("unprepared")

    assert pod["status"]["phase"] == "Failed"
    assert ended(pod, "initContainerStatuses")["exitCode"] == 4
    waiting = pod["status"]["containerStatuses"][0]["state"]["waiting"]
    assert waiting["reason"] == "PodInitializing"
    assert conditions(pod)["Initialized"] == ("False", "ContainersNotInitialized")


async def test_deletion_lets_a_pod_end_by_itself(bench: Bench, node: Kubelet) -> None:
    await bench.pod(node, "polite", "trap 'exit 82' TERM; echo up; while :; do sleep 0.1; done")
    await bench.log_has("polite", "up")

    await bench.api.request("DELETE", f"{bench.pods}/polite")

    pod = await bench.ended("polite")
    assert ended(pod)["exitCode"] == 82
    await bench.gone("polite")


async def test_deletion_kills_what_does_not_end_in_its_grace(bench: Bench, node: Kubelet) -> None:
    await bench.pod(node, "deaf", "trap '' TERM; echo up; while :; do sleep 0.1; done")
    await bench.log_has("deaf", "up")

    await bench.api.request("DELETE", f"{bench.pods}/deaf", {"gracePeriodSeconds": 1})

    pod = await bench.ended("deaf")
    assert ended(pod)["exitCode"] == 137
    await bench.gone("deaf")


async def test_processes_that_left_their_group_end_with_the_pod(
    bench: Bench, node: Kubelet, running: Any
) -> None:
    await bench.pod(node, "spread", "setsid sleep 98765.2 & echo up; exec sleep 98765.3")
    await bench.log_has("spread", "up")

    await bench.api.request("DELETE", f"{bench.pods}/spread", {"gracePeriodSeconds": 1})

    await bench.gone("spread")
    assert running("98765.2") == running("98765.3") == []


async def test_a_deleted_pod_that_never_started_is_let_go(bench: Bench, node: Kubelet) -> None:
    bench.images.unpullable.add("any")
    await bench.pod(node, "unborn", "true")
    await bench.until(f"{bench.pods}/unborn", lambda pod: "ErrImagePull" in str(pod))

    await bench.api.request("DELETE", f"{bench.pods}/unborn")

    await bench.gone("unborn")


async def test_a_finished_pod_stays_until_it_is_deleted(bench: Bench, node: Kubelet) -> None:
    await bench.pod(node, "over", "true")
    await bench.ended("over")

    await bench.api.request("DELETE", f"{bench.pods}/over")

    await bench.gone("over")


async def test_a_pod_removed_by_force_leaves_no_process(
    bench: Bench, node: Kubelet, running: Any, until_none: Any
) -> None:
    await bench.pod(node, "forced", ["sleep", "98765.4"])
    await bench.phase("forced", "Running")

    await bench.api.request("DELETE", f"{bench.pods}/forced", {"gracePeriodSeconds": 0})

    await until_none("98765.4")


async def test_a_deadline_set_on_a_running_pod_ends_it(bench: Bench, node: Kubelet) -> None:
    await bench.pod(node, "late", "trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done")
    await bench.log_has("late", "up")

    patch = {"spec": {"activeDeadlineSeconds": 1}}
    path = f"{bench.pods}/late"
    await bench.api.request("PATCH", path, patch, content_type="application/merge-patch+json")

    pod = await bench.ended("late")
    assert pod["status"]["phase"] == "Failed"
    assert pod["status"]["reason"] == "DeadlineExceeded"
    assert pod["status"]["message"] == (
        "Pod was active on the node longer than the specified deadline"
    )
    assert ended(pod)["exitCode"] == 0


@pytest.mark.parametrize(
    ("command", "policy", "message"),
    [
        pytest.param("echo why >/dev/termination-log; exit 1", "File", "why\n", id="file"),
        pytest.param("echo a; exit 1", "FallbackToLogsOnError", "a\n", id="log"),
        pytest.param("echo a", "FallbackToLogsOnError", None, id="no error, no log"),
        pytest.param("echo a; exit 1", "File", None, id="no file, no message"),
    ],
)
async def test_a_container_may_say_why_it_ended(
    bench: Bench, node: Kubelet, command: str, policy: str, message: str | None
) -> None:
    await bench.pod(node, "talks", command, container={"terminationMessagePolicy": policy})

    pod = await bench.ended("talks")

    assert ended(pod).get("message") == message


async def test_an_image_that_cannot_be_pulled_keeps_the_pod_pending(
    bench: Bench, node: Kubelet
) -> None:
    bench.images.unpullable.add("registry.example/*")
    image = {"image": "registry.example/trainer:1"}
    await bench.pod(node, "waits", "echo here", container=image)

    pod = await bench.until(f"{bench.pods}/waits", lambda pod: "ErrImagePull" in str(pod))
    assert pod["status"]["phase"] == "Pending"
    pod = await bench.until(f"{bench.pods}/waits", lambda pod: "ImagePullBackOff" in str(pod))
    waiting = pod["status"]["containerStatuses"][0]["state"]["waiting"]
    assert waiting["message"].startswith('Back-off pulling image "registry.example/trainer:1"')
    bench.images.unpullable.clear()

    assert (await bench.ended("waits"))["status"]["phase"] == "Succeeded"


@pytest.mark.parametrize(
    "probe",
    [
        pytest.param({"exec": {"command": ["test", "-e", "/run/ready-now"]}}, id="exec"),
        pytest.param({"tcpSocket": {"port": "web"}}, id="tcp"),
        pytest.param({"httpGet": {"port": 8080, "path": "/"}}, id="http"),
    ],
)
async def test_a_pod_is_ready_when_its_probe_says_so(
    bench: Bench, node: Kubelet, probe: dict[str, Any]
) -> None:
    serve = "python -m http.server 8080 --bind $POD_IP --directory /run/www"
    await bench.pod(
        node,
        "probed",
        f"echo up; while [ ! -e /go/on ]; do sleep 0.1; done; "
        f"mkdir -p /run/www; touch /run/ready-now; exec {serve}",
        container={
            "readinessProbe": {**probe, "periodSeconds": 1, "failureThreshold": 1},
            "ports": [{"name": "web", "containerPort": 8080}],
            "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            "volumeMounts": [{"name": "go", "mountPath": "/go"}],
        },
        spec={"volumes": [{"name": "go", "hostPath": {"path": str(bench.root / "go")}}]},
    )
    await bench.log_has("probed", "up")
    pod = await bench.api.request("GET", f"{bench.pods}/probed")
    assert pod["status"]["phase"] == "Running"
    assert conditions(pod)["Ready"] == ("False", "ContainersNotReady")

    (bench.root / "go" / "on").touch()

    await bench.until(
        f"{bench.pods}/probed", lambda pod: pod and conditions(pod)["Ready"] == ("True", "")
    )


async def test_a_failing_liveness_probe_restarts_the_container(bench: Bench, node: Kubelet) -> None:
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}
    await bench.pod(
        node,
        "sick",
        "exec sleep 1000",
        container={"livenessProbe": probe},
        spec={"restartPolicy": "Always", "terminationGracePeriodSeconds": 1},
    )

    pod = await bench.until(
        f"{bench.pods}/sick",
        lambda pod: pod and pod["status"].get("containerStatuses", [{}])[0].get("restartCount"),
    )

    assert pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 137
