"""How a pod's end is judged: every row of the table, and which row wins."""

from typing import Any

import pytest

from ebbtide.core.lifecycle.judging import Judgement, Verdict, Work, judge
from ebbtide.core.lifecycle.signs import read_sign
from ebbtide.core.values.observed import Node, Pod, PodPhase, Role, Taint
from ebbtide.core.values.settings import Settings
from support.builders import at, make_node, make_pod

SPOT_ITN = Taint(key="aws-node-termination-handler/spot-itn", effect="NoSchedule")
UNDONE = Work(done=False)


def failed(**changes: Any) -> Pod:
    return make_pod(phase=PodPhase.FAILED, finished_at=at(5), **changes)


def judged(
    pod: Pod, *, work: Work = UNDONE, now: float = 6, node: Node | None = None, gone: bool = False
) -> Judgement | None:
    found = None if gone else node or make_node(pod.node)
    sign = read_sign(pod, found, now=at(now), settings=Settings())
    return judge(pod, found, sign, work=work, now=at(now))


def verdict(*args: Pod, **kwargs: object) -> Verdict | None:
    judgement = judged(*args, **kwargs)  # type: ignore[arg-type]  # passed through
    return judgement.verdict if judgement else None


# The eight losses of B001: none of them touches the failure budget.
B001 = [
    pytest.param(
        {"reason": "Terminated", "disruption": "TerminationByKubelet"}, Verdict.REVOCATION, id="a"
    ),
    pytest.param({"reason": "Evicted", "started": False}, Verdict.RESTART, id="b"),
    pytest.param({"reason": "NodeShutdown"}, Verdict.REVOCATION, id="c"),
    pytest.param({"reason": "Shutdown"}, Verdict.REVOCATION, id="d"),
    pytest.param({"reason": "Preempting"}, Verdict.RESTART, id="e"),
    pytest.param({"disruption": "PreemptionByScheduler"}, Verdict.RESTART, id="f"),
    pytest.param({"disruption": "DeletionByTaintManager"}, Verdict.RESTART, id="g-healthy-node"),
    pytest.param({"disruption": "DeletionByPodGC"}, Verdict.REVOCATION, id="h"),
]


@pytest.mark.parametrize(("facts", "expected"), B001)
def test_b001_no_loss_by_cluster_or_provider_is_a_failure(
    facts: dict[str, Any], expected: Verdict
) -> None:
    assert verdict(failed(**facts)) is expected


@pytest.mark.parametrize("disruption", ["DeletionByTaintManager", "EvictionByEvictionAPI"])
@pytest.mark.parametrize(
    "node",
    [
        pytest.param({"taints": (SPOT_ITN,)}, id="tainted"),
        pytest.param({"unschedulable": True}, id="cordoned"),
        pytest.param({"ready": False}, id="not ready"),
    ],
)
def test_an_eviction_from_a_node_that_goes_is_a_revocation(
    disruption: str, node: dict[str, Any]
) -> None:
    pod = failed(disruption=disruption, exit_code=143)

    assert verdict(pod, node=make_node(pod.node, **node)) is Verdict.REVOCATION


def test_an_eviction_from_a_healthy_node_is_nobodys_fault() -> None:
    assert verdict(failed(disruption="EvictionByEvictionAPI", exit_code=143)) is Verdict.RESTART


@pytest.mark.parametrize("reason", ["UnexpectedAdmissionError", "OutOfcpu", "OutOfnvidia.com/gpu"])
def test_a_node_that_refuses_the_pod_is_nobodys_fault(reason: str) -> None:
    assert verdict(failed(reason=reason, started=False)) is Verdict.RESTART


def test_exit_0_on_sigterm_of_a_node_shutdown_is_a_revocation_not_an_end() -> None:
    pod = make_pod(phase=PodPhase.SUCCEEDED, exit_code=0, disruption="TerminationByKubelet")

    assert verdict(pod) is Verdict.REVOCATION


@pytest.mark.parametrize(
    ("done", "expected"),
    [(True, Verdict.DONE), (False, Verdict.FAILURE), (None, Verdict.RESTART)],
)
def test_exit_0_counts_by_whether_the_work_is_done(*, done: bool | None, expected: Verdict) -> None:
    pod = make_pod(phase=PodPhase.SUCCEEDED, exit_code=0)

    assert verdict(pod, work=Work(done=done)) is expected


def test_exit_0_before_the_work_is_done_says_so() -> None:
    judgement = judged(make_pod(phase=PodPhase.SUCCEEDED, exit_code=0))

    assert judgement is not None
    assert "WorkUnfinished" in judgement.cause


def test_exit_82_unasked_is_a_restart() -> None:
    assert verdict(failed(exit_code=82)) is Verdict.RESTART


def test_an_end_that_follows_somebody_s_delete_is_a_restart() -> None:
    assert verdict(failed(exit_code=143, deletion_requested=at(4))) is Verdict.RESTART


def test_a_failure_that_somebody_deletes_afterwards_stays_one() -> None:
    assert verdict(failed(exit_code=1, deletion_requested=at(6)), now=7) is Verdict.FAILURE


def test_exit_82_on_a_warned_node_is_a_revocation() -> None:
    pod = failed(exit_code=82)

    assert verdict(pod, node=make_node(pod.node, taints=(SPOT_ITN,))) is Verdict.REVOCATION


@pytest.mark.parametrize("code", [1, 137, 139])
def test_a_bad_exit_on_a_healthy_node_is_a_failure_with_its_last_words(code: int) -> None:
    pod = failed(
        exit_code=code, exit_container="trainer", exit_reason="Error", exit_message="boom\n"
    )

    judgement = judged(pod)

    assert judgement == Judgement(
        verdict=Verdict.FAILURE,
        cause=f"container trainer exited {code} (Error): boom",
        at=at(5),
    )


def test_out_of_memory_is_a_failure() -> None:
    judgement = judged(failed(exit_code=137, exit_reason="OOMKilled"))

    assert judgement is not None
    assert judgement.verdict is Verdict.FAILURE
    assert "OOMKilled" in judgement.cause


def test_b004_an_init_container_that_fails_is_named() -> None:
    judgement = judged(failed(started=False, exit_container="setup", exit_code=1))

    assert judgement is not None
    assert judgement.verdict is Verdict.FAILURE
    assert "container setup exited 1" in judgement.cause


def test_b004_an_init_container_lost_with_its_node_is_a_revocation() -> None:
    pod = make_pod(phase=PodPhase.PENDING, started=False, bound_since=at(0))

    assert verdict(pod, gone=True) is Verdict.REVOCATION


def test_b002_a_node_that_is_gone_takes_its_running_pod_along() -> None:
    assert verdict(make_pod(), gone=True) is Verdict.REVOCATION


@pytest.mark.parametrize(("now", "expected"), [(4, None), (5, Verdict.REVOCATION)])
def test_a_node_that_is_not_known_yet_is_not_taken_for_gone(
    now: float, expected: Verdict | None
) -> None:
    pod = make_pod(phase=PodPhase.PENDING, started=False, bound_since=at(0))

    assert verdict(pod, gone=True, now=now) is expected


def test_b002_a_node_back_from_another_boot_has_lost_its_pod() -> None:
    pod = make_pod(boot_id="boot-1")

    assert verdict(pod, node=make_node(pod.node, boot_id="boot-2")) is Verdict.REVOCATION


@pytest.mark.parametrize(("away", "expected"), [(9, None), (10, Verdict.REVOCATION)])
def test_a_node_that_is_not_ready_counts_as_lost_after_node_lost_seconds(
    away: float, expected: Verdict | None
) -> None:
    pod = make_pod()
    node = make_node(pod.node, ready=False, ready_changed=at(0))

    assert verdict(pod, node=node, now=away) is expected


def test_a_bad_exit_on_a_node_that_just_became_not_ready_is_not_judged_yet() -> None:
    pod = failed(exit_code=1)
    node = make_node(pod.node, ready=False, ready_changed=at(4))

    assert verdict(pod, node=node, now=6) is None
    assert verdict(pod, node=node, now=14) is Verdict.REVOCATION


def test_a_pod_that_runs_is_not_judged() -> None:
    assert verdict(make_pod()) is None


def test_a_pod_that_was_told_to_go_is_judged_when_it_has_gone() -> None:
    assert verdict(make_pod(deletion_requested=at(1))) is None


@pytest.mark.parametrize(
    "facts",
    [{"exit_code": 1}, {"exit_code": 0, "phase": PodPhase.SUCCEEDED}, {"reason": "Evicted"}],
)
def test_any_end_of_a_coordinator_is_a_restart(facts: dict[str, Any]) -> None:
    pod = make_pod(role=Role.COORDINATOR, **{"phase": PodPhase.FAILED, **facts})

    assert verdict(pod) is Verdict.RESTART


def test_a_coordinator_lost_with_its_node_is_a_restart() -> None:
    assert verdict(make_pod(role=Role.COORDINATOR), gone=True) is Verdict.RESTART


def test_who_exited_0_before_its_node_went_was_not_taken_away() -> None:
    pod = make_pod(phase=PodPhase.SUCCEEDED, exit_code=0)

    assert verdict(pod, gone=True, work=Work(done=True)) is Verdict.DONE
