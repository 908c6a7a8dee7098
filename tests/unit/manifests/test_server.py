"""The pod of a parameter server."""

from typing import Any

import pytest
from kubernetes_validate import validate

from ebbtide.api.convert import parse_job
from ebbtide.core.values.decision import CreatePod
from ebbtide.core.values.job import Job
from ebbtide.core.values.observed import Role
from ebbtide.manifests import Options, build_server
from ebbtide.wire.messages import WorkSpec
from support.manifests import container, job_manifest, stored, template

WORK = WorkSpec(job="team/digits", steps=600, global_batch_size=64, min_replicas=2, desired=4)
OPTIONS = Options(coordinator_image="registry.example/ebbtide:1", python="python3")
GPUS = {"limits": {"nvidia.com/gpu": 2, "memory": "4Gi"}, "requests": {"cpu": "1"}}


def build(servers: dict[str, Any] | None = None, **pod: Any) -> Any:
    spec: dict[str, Any] = {"strategy": "ParameterServer", "template": template(**pod)}
    if servers is not None:
        spec["parameterServer"] = servers
    job = parse_job(stored(job_manifest(**spec)))
    assert isinstance(job, Job), job
    action = CreatePod(role=Role.SERVER, index=1, attempt=3, work=WORK)
    return build_server(job, action, options=OPTIONS)


def environment(pod: Any) -> dict[str, str]:
    return {entry["name"]: entry.get("value") for entry in pod["spec"]["containers"][0]["env"]}


def test_a_server_is_a_pod_that_kubernetes_knows() -> None:
    validate(build(containers=[container(resources=GPUS)]), "1.36", strict=True)


def test_it_runs_the_image_of_the_template_under_our_runtime() -> None:
    trainer = container(command=["/opt/venv/bin/python", "train.py"], args=["--fast"])

    pod = build(containers=[trainer])

    [server] = pod["spec"]["containers"]
    assert server["image"] == trainer["image"]
    assert server["command"] == ["/opt/venv/bin/python", "-m", "ebbtide.runtime.server"]
    assert "args" not in server


def test_it_knows_who_and_where_it_is() -> None:
    variables = [{"name": "EBBTIDE_ROLE", "value": "boss"}, {"name": "AWS_REGION", "value": "x"}]

    found = environment(build(containers=[container(env=variables)]))

    assert found["EBBTIDE_ROLE"] == "server"
    assert found["EBBTIDE_WORKER"] == "digits-server-1-3"
    assert (found["EBBTIDE_INDEX"], found["EBBTIDE_ATTEMPT"]) == ("1", "3")
    assert found["EBBTIDE_CHECKPOINT_PATH"] == "/checkpoints"
    assert found["EBBTIDE_COORDINATOR"] == "digits-coordinator.team.svc:7411"
    assert found["AWS_REGION"] == "x"  # what the template gives for its bucket


def test_it_asks_for_what_a_worker_does_but_for_no_gpu() -> None:
    [server] = build(containers=[container(resources=GPUS)])["spec"]["containers"]

    assert server["resources"] == {"limits": {"memory": "4Gi"}, "requests": {"cpu": "1"}}


def test_what_the_job_says_of_servers_counts_instead() -> None:
    asked = {"requests": {"cpu": "2", "memory": "8Gi"}}

    pod = build({"replicas": 2, "resources": asked}, containers=[container(resources=GPUS)])

    assert pod["spec"]["containers"][0]["resources"] == asked


def test_it_never_runs_on_spot_nodes_and_is_bound_to_no_pool() -> None:
    pod = build(nodeSelector={"disk": "fast"})

    required = pod["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    [term] = required["nodeSelectorTerms"]
    shunned = {entry["key"] for entry in term["matchExpressions"] if entry["operator"] == "NotIn"}
    assert {"cloud.google.com/gke-spot", "karpenter.sh/capacity-type"} <= shunned
    assert "ebbtide.dev/pool" not in pod["metadata"]["labels"]
    assert pod["metadata"]["labels"]["ebbtide.dev/replica-type"] == "server"
    assert pod["spec"]["nodeSelector"] == {"disk": "fast"}


@pytest.mark.parametrize(
    ("declared", "grace"),
    [
        pytest.param({}, 30, id="none"),
        pytest.param({"terminationGracePeriodSeconds": 5}, 5, id="5"),
    ],
)
def test_its_notice_is_the_grace_of_its_pod(declared: dict[str, Any], grace: int) -> None:
    pod = build(None, **declared)

    assert pod["spec"]["terminationGracePeriodSeconds"] == grace
    assert environment(pod)["EBBTIDE_NOTICE_SECONDS"] == str(grace)


def test_what_stands_beside_the_trainer_stays_with_the_workers() -> None:
    beside = container(name="logger", volumeMounts=[])
    trainer = container(livenessProbe={"exec": {"command": ["true"]}}, ports=[{"containerPort": 1}])

    pod = build(containers=[trainer, beside], initContainers=[container(name="fetch")])

    [server] = pod["spec"]["containers"]
    assert "initContainers" not in pod["spec"]
    assert not {"livenessProbe", "ports"} & set(server)


def test_it_reads_the_token_and_writes_the_checkpoints() -> None:
    pod = build()

    mounts = {
        mount["mountPath"]: mount["name"] for mount in pod["spec"]["containers"][0]["volumeMounts"]
    }
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
    assert mounts["/checkpoints"] == "data"
    assert mounts["/var/run/secrets/ebbtide"] in volumes
    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["spec"]["hostname"] == "digits-server-1"


def test_the_template_is_not_changed_by_building() -> None:
    spec: dict[str, Any] = {"strategy": "ParameterServer", "template": template()}
    job = parse_job(stored(job_manifest(**spec)))
    assert isinstance(job, Job)
    before = repr(job.template)

    build_server(job, CreatePod(role=Role.SERVER, index=0, attempt=1, work=WORK), options=OPTIONS)

    assert repr(job.template) == before
