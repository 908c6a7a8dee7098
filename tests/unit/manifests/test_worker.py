import copy
from datetime import timedelta
from typing import Any

import pytest
from kubernetes_validate import validate

from ebbtide.api.convert import parse_job
from ebbtide.core.values.decision import CreatePod
from ebbtide.core.values.job import Job
from ebbtide.core.values.observed import Role
from ebbtide.core.values.pool import Market, Pool
from ebbtide.manifests import Options, build_worker
from ebbtide.wire.messages import WorkSpec
from support.builders import make_pool
from support.manifests import container, job_manifest, stored, template

OPTIONS = Options(coordinator_image="registry.example/ebbtide:1")
GPU_TAINT = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
SPOT = make_pool(
    "v100-spot",
    node_selector={"example.com/pool": "v100-spot"},
    tolerations=(GPU_TAINT,),
    notice=timedelta(seconds=30),
)
WORK = WorkSpec(job="team/digits", steps=1, global_batch_size=4, min_replicas=1, desired=1)


def job_with(**spec: Any) -> Job:
    job = parse_job(stored(job_manifest(**spec)))
    assert isinstance(job, Job), job.errors
    return job


def build(
    job: Job, *, pool: Pool | None = SPOT, index: int = 2, attempt: int = 3, image: str = ""
) -> Any:
    action = CreatePod(
        role=Role.WORKER, index=index, attempt=attempt, work=WORK, image=image, pool=pool
    )
    return build_worker(job, action, options=OPTIONS)


def pod_of(*, metadata: Any = None, pool: Pool = SPOT, **pod: Any) -> Any:
    asked = template(**pod)
    if metadata:
        asked["metadata"] = metadata
    return build(job_with(template=asked), pool=pool)


def environment(pod: Any) -> dict[str, Any]:
    entries = pod["spec"]["containers"][0]["env"]
    assert len({entry["name"] for entry in entries}) == len(entries)
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in entries}


def test_a_worker_is_a_pod_that_kubernetes_knows() -> None:
    validate(build(job_with()), "1.36", strict=True)


def test_names_tell_job_role_index_and_attempt() -> None:
    pod = build(job_with())

    assert pod["metadata"]["name"] == "digits-worker-2-3"
    assert pod["metadata"]["namespace"] == "team"
    assert pod["spec"]["hostname"] == "digits-worker-2"


def test_labels_tell_whose_it_is_and_where_it_is_to_run() -> None:
    pod = build(job_with())

    assert pod["metadata"]["labels"] == {
        "app.kubernetes.io/name": "ebbtide",
        "app.kubernetes.io/instance": "digits",
        "app.kubernetes.io/component": "worker",
        "app.kubernetes.io/part-of": "ebbtide",
        "app.kubernetes.io/managed-by": "ebbtide",
        "ebbtide.dev/job-name": "digits",
        "ebbtide.dev/job-uid": "7f4c1b52-0000-4000-8000-000000000001",
        "ebbtide.dev/replica-type": "worker",
        "ebbtide.dev/replica-index": "2",
        "ebbtide.dev/attempt": "3",
        "ebbtide.dev/pool": "v100-spot",
        "ebbtide.dev/capacity-type": "spot",
    }


def test_the_job_owns_the_pod() -> None:
    owner = build(job_with())["metadata"]["ownerReferences"]

    assert owner == [
        {
            "apiVersion": "ebbtide.dev/v1alpha1",
            "kind": "TrainingJob",
            "name": "digits",
            "uid": "7f4c1b52-0000-4000-8000-000000000001",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def test_the_pod_remembers_which_template_it_was_made_of() -> None:
    job = job_with()

    annotations = build(job)["metadata"]["annotations"]

    assert annotations["ebbtide.dev/template-hash"] == job.template_hash


def test_labels_and_annotations_of_the_template_are_copied_but_for_those_of_tools() -> None:
    theirs = {
        "team": "vision",
        "kopf.zalando.org/last-handled-configuration": "{}",
        "kopf.dev/x": "y",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "argocd.argoproj.io/tracking-id": "a",
        "ebbtide.dev/attempt": "77",
    }

    metadata = pod_of(metadata={"labels": theirs, "annotations": theirs})["metadata"]

    assert metadata["labels"]["team"] == "vision"
    assert metadata["labels"]["ebbtide.dev/attempt"] == "3"
    assert set(metadata["annotations"]) == {
        "team",
        "ebbtide.dev/template-hash",
        "cluster-autoscaler.kubernetes.io/safe-to-evict",
        "karpenter.sh/do-not-disrupt",
    }


def test_autoscalers_are_asked_to_leave_it_alone_unless_the_template_says_otherwise() -> None:
    release = {"karpenter.sh/do-not-disrupt": "false"}

    annotations = pod_of(metadata={"annotations": release})["metadata"]["annotations"]

    assert annotations["karpenter.sh/do-not-disrupt"] == "false"
    assert annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"


@pytest.mark.parametrize(
    ("command", "args", "runs"),
    [
        pytest.param(["python", "train.py"], [], "python", id="python"),
        pytest.param(["python3", "-m", "train"], ["--fast"], "python3", id="python3 with args"),
        pytest.param(
            ["/opt/venv/bin/python3.11", "t.py"], [], "/opt/venv/bin/python3.11", id="absolute"
        ),
        pytest.param(["sh", "-c", "python train.py"], [], "python", id="a shell"),
        pytest.param(["./pythonic"], [], "python", id="only looks like python"),
        pytest.param(["python2.7", "t.py"], [], "python", id="a python that is none of ours"),
    ],
)
def test_the_command_runs_under_our_runtime(command: list[str], args: list[str], runs: str) -> None:
    trainer = pod_of(containers=[container(command=command, args=args)])["spec"]["containers"][0]

    assert trainer["command"] == [runs, "-m", "ebbtide.runtime.worker", "--", *command, *args]
    assert "args" not in trainer


def test_another_interpreter_can_be_configured() -> None:
    action = CreatePod(role=Role.WORKER, index=0, attempt=1, work=WORK, pool=SPOT)
    options = Options(coordinator_image="x", python="/usr/bin/python3.12")
    job = job_with(template=template(containers=[container(command=["./run"])]))

    pod = build_worker(job, action, options=options)

    assert pod["spec"]["containers"][0]["command"][0] == "/usr/bin/python3.12"


def test_the_environment_tells_the_runtime_what_it_needs() -> None:
    job = job_with(processesPerWorker=2)

    assert environment(build(job)) == {
        "EBBTIDE_JOB": "team/digits",
        "EBBTIDE_WORKER": "digits-worker-2-3",
        "EBBTIDE_ROLE": "worker",
        "EBBTIDE_INDEX": "2",
        "EBBTIDE_ATTEMPT": "3",
        "EBBTIDE_COORDINATOR": "digits-coordinator.team.svc:7411",
        "EBBTIDE_TOKEN_FILE": "/var/run/secrets/ebbtide/token",
        "EBBTIDE_ADDRESS": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}},
        "EBBTIDE_NODE": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}},
        "EBBTIDE_CHECKPOINT_PATH": "/checkpoints",
        "EBBTIDE_PROCESSES_PER_WORKER": "2",
        "EBBTIDE_POOL": "v100-spot",
        "EBBTIDE_GPU": "V100",
        "EBBTIDE_NOTICE_SECONDS": "30",
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    }


def test_variables_of_the_template_stay_but_cannot_replace_ours() -> None:
    env = [{"name": "LR", "value": "0.1"}, {"name": "EBBTIDE_INDEX", "value": "9"}]

    variables = environment(pod_of(containers=[container(env=env)]))

    assert variables["LR"] == "0.1"
    assert variables["EBBTIDE_INDEX"] == "2"


def test_a_worker_gets_the_image_that_was_chosen_for_it_and_the_rest_of_its_template() -> None:
    job = job_with(template=template(containers=[container(), {"name": "other", "image": "o"}]))
    plain, warm = build(job), build(job, image="registry.example/warm:2")

    assert plain["spec"]["containers"][0]["image"] == job.template_image
    assert warm["spec"]["containers"][0]["image"] == "registry.example/warm:2"
    warm["spec"]["containers"][0]["image"] = job.template_image
    assert warm == plain


def test_how_memory_is_taken_is_the_templates_to_say() -> None:
    env = [{"name": "GLIBC_TUNABLES", "value": "glibc.malloc.check=3"}]

    entries = pod_of(containers=[container(env=env)])["spec"]["containers"][0]["env"]

    assert [each for each in entries if each["name"] == "GLIBC_TUNABLES"] == env


def test_the_token_is_mounted_into_the_trainer_alone() -> None:
    sidecar = {"name": "sidecar", "image": "x"}

    spec = pod_of(containers=[container(), sidecar])["spec"]

    assert spec["volumes"][-1] == {
        "name": "ebbtide-token",
        "secret": {
            "secretName": "ebbtide-7f4c1b52-0000-4000-8000-000000000001",
            "defaultMode": 0o444,
        },
    }
    assert spec["containers"][0]["volumeMounts"][-1] == {
        "name": "ebbtide-token",
        "mountPath": "/var/run/secrets/ebbtide",
        "readOnly": True,
    }
    assert "volumeMounts" not in spec["containers"][1]


def test_a_pod_never_restarts_itself_and_holds_no_api_token() -> None:
    spec = pod_of()["spec"]

    assert spec["restartPolicy"] == "Never"
    assert spec["automountServiceAccountToken"] is False


def test_an_api_token_that_the_template_asks_for_is_mounted() -> None:
    assert pod_of(automountServiceAccountToken=True)["spec"]["automountServiceAccountToken"]


def test_every_container_says_why_it_ended() -> None:
    spec = pod_of(
        containers=[container(terminationMessagePolicy="File"), {"name": "b", "image": "x"}],
        initContainers=[{"name": "c", "image": "x"}],
    )["spec"]

    assert [
        part["terminationMessagePolicy"] for part in (*spec["containers"], *spec["initContainers"])
    ] == ["File", "FallbackToLogsOnError", "FallbackToLogsOnError"]


@pytest.mark.parametrize(("asked", "given"), [(None, 30), (0, 0), (5, 5)])
def test_the_grace_period_is_the_notice_unless_the_template_has_one(
    asked: int | None, given: int
) -> None:
    pod = pod_of(terminationGracePeriodSeconds=asked)

    assert pod["spec"]["terminationGracePeriodSeconds"] == given


def test_the_pool_adds_its_nodes_and_tolerations() -> None:
    theirs = {"key": "team", "operator": "Exists"}

    spec = pod_of(nodeSelector={"disk": "ssd"}, tolerations=[theirs, GPU_TAINT])["spec"]

    assert spec["nodeSelector"] == {"disk": "ssd", "example.com/pool": "v100-spot"}
    assert spec["tolerations"] == [theirs, GPU_TAINT]
    assert "affinity" not in spec


def test_a_template_that_wants_other_nodes_than_the_pool_gets_none() -> None:
    terms = [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {}]
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
        }
    }

    pod = pod_of(nodeSelector={"example.com/pool": "mine"}, affinity=affinity)

    demanded = {"key": "example.com/pool", "operator": "In", "values": ["v100-spot"]}
    required = pod["spec"]["affinity"]["nodeAffinity"]
    assert pod["spec"]["nodeSelector"] == {"example.com/pool": "mine"}
    assert required["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] == [
        {"matchExpressions": [{"key": "a", "operator": "Exists"}, demanded]},
        {"matchExpressions": [demanded]},
    ]
    validate(pod, "1.36", strict=True)


def test_on_demand_pools_say_so_in_a_label() -> None:
    pod = build(job_with(), pool=make_pool("od", market=Market.ON_DEMAND))

    assert pod["metadata"]["labels"]["ebbtide.dev/capacity-type"] == "on-demand"


def test_a_worker_without_a_pool_is_a_mistake_of_ours() -> None:
    with pytest.raises(ValueError, match="worker 2 has none"):
        build(job_with(), pool=None)


def test_building_changes_nothing_of_the_job() -> None:
    job = job_with()
    before = copy.deepcopy(job.template)

    first, second = build(job), build(job)

    assert job.template == before
    assert first == second


def test_b030_every_name_and_label_of_the_longest_job_is_legal() -> None:
    job = parse_job(stored(job_manifest("a" * 43)))
    assert isinstance(job, Job)

    pod = build(job, index=4095, attempt=99_999)

    assert len(pod["metadata"]["name"]) <= 63
    assert len(pod["spec"]["hostname"]) <= 63
    assert all(len(value) <= 63 for value in pod["metadata"]["labels"].values())


@pytest.mark.parametrize(
    ("command", "started"),
    [
        (["python", "train.py"], ["python", "-m", "ebbtide.runtime.worker", "--torchrun", "--"]),
        (["torchrun", "train.py"], ["python", "-m", "ebbtide.runtime.worker", "--torchrun", "--"]),
        (
            ["/opt/venv/bin/torchrun", "train.py"],
            ["/opt/venv/bin/python", "-m", "ebbtide.runtime.worker", "--torchrun", "--"],
        ),
    ],
)
def test_a_torchrun_script_is_started_by_our_agent(command: list[str], started: list[str]) -> None:
    asked = template(containers=[container(command=command, args=["--lr", "1"])])

    pod = build(job_with(launcher="Torchrun", template=asked))

    assert pod["spec"]["containers"][0]["command"] == [*started, *command, "--lr", "1"]
    validate(pod, "1.36", strict=True)


def test_a_plain_command_is_left_as_it_is() -> None:
    given = container(command=["/train"], args=["--lr", "1"])
    pod = build(job_with(launcher="Command", template=template(containers=[given])))

    trainer = pod["spec"]["containers"][0]
    assert (trainer["command"], trainer["args"]) == (["/train"], ["--lr", "1"])
    assert trainer["volumeMounts"] == given["volumeMounts"]
    assert [volume["name"] for volume in pod["spec"]["volumes"]] == ["data"]
    validate(pod, "1.36", strict=True)


def test_a_plain_command_is_told_where_it_is_but_of_no_coordinator() -> None:
    told = environment(build(job_with(launcher="Command")))

    assert told["EBBTIDE_WORKER"] == "digits-worker-2-3"
    assert told["EBBTIDE_CHECKPOINT_PATH"] == "/checkpoints"
    assert not {"EBBTIDE_COORDINATOR", "EBBTIDE_TOKEN_FILE"} & set(told)
