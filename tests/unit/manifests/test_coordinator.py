from typing import Any

import msgspec
from kubernetes_validate import validate

from ebbtide.api.convert import parse_job
from ebbtide.core.values.decision import CreatePod
from ebbtide.core.values.job import Job
from ebbtide.core.values.observed import Role
from ebbtide.manifests import Options, build_coordinator, build_secret, build_service
from ebbtide.wire.messages import WorkSpec
from support.manifests import job_manifest, stored

WORK = WorkSpec(job="team/digits", steps=600, global_batch_size=64, min_replicas=2, desired=4)
OPTIONS = Options(coordinator_image="registry.example/ebbtide:1", coordinator_python="python3")


def make_parsed_job(name: str = "digits") -> Job:
    job = parse_job(stored(job_manifest(name)))
    assert isinstance(job, Job)
    return job


def build(name: str = "digits", attempt: int = 2) -> Any:
    action = CreatePod(role=Role.COORDINATOR, index=0, attempt=attempt, work=WORK)
    return build_coordinator(make_parsed_job(name), action, options=OPTIONS)


def test_a_coordinator_is_a_pod_that_kubernetes_knows() -> None:
    validate(build(), "1.36", strict=True)


def test_it_runs_our_image_and_gets_the_work_in_its_environment() -> None:
    container = build()["spec"]["containers"][0]
    env = {entry["name"]: entry.get("value") for entry in container["env"]}

    assert container["image"] == "registry.example/ebbtide:1"
    assert container["command"] == ["python3", "-m", "ebbtide.coordinator"]
    assert msgspec.json.decode(env["EBBTIDE_WORK"], type=WorkSpec) == WORK
    assert env["EBBTIDE_ATTEMPT"] == "2"
    assert env["EBBTIDE_ROLE"] == "coordinator"


def test_it_never_runs_on_spot_nodes_of_any_provider() -> None:
    node = build()["spec"]["affinity"]["nodeAffinity"]
    (term,) = node["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    shunned = {
        entry["key"]: (entry["operator"], entry["values"]) for entry in term["matchExpressions"]
    }

    assert shunned["cloud.google.com/gke-spot"] == ("NotIn", ["true"])
    assert shunned["eks.amazonaws.com/capacityType"] == ("NotIn", ["SPOT"])
    assert shunned["karpenter.sh/capacity-type"] == ("NotIn", ["spot"])
    assert shunned["kubernetes.azure.com/scalesetpriority"] == ("NotIn", ["spot"])


def test_it_meets_the_restricted_pod_security_standard() -> None:
    spec = build()["spec"]
    container = spec["containers"][0]

    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert set(spec["volumes"][0]) == {"name", "secret"}


def test_the_token_is_readable_for_its_group_and_nobody_else() -> None:
    spec = build()["spec"]

    assert spec["volumes"][0]["secret"]["defaultMode"] == 0o440
    assert spec["securityContext"]["fsGroup"] == spec["securityContext"]["runAsGroup"]


def test_it_asks_for_little_and_for_no_gpu() -> None:
    resources = build()["spec"]["containers"][0]["resources"]

    assert resources == {
        "requests": {"cpu": "50m", "memory": "64Mi"},
        "limits": {"memory": "256Mi"},
    }


def test_its_pod_never_restarts_and_belongs_to_no_pool() -> None:
    pod = build()

    assert pod["spec"]["restartPolicy"] == "Never"
    assert "ebbtide.dev/pool" not in pod["metadata"]["labels"]


def test_the_service_leads_to_one_attempt_and_to_no_other() -> None:
    service = build_service(make_parsed_job(), 2)
    labels = build(attempt=2)["metadata"]["labels"]
    former = build(attempt=1)["metadata"]["labels"]
    selector = service["spec"]["selector"]

    validate(service, "1.36", strict=True)
    assert selector.items() <= labels.items()
    assert not selector.items() <= former.items()


def test_the_service_answers_before_the_pod_is_ready() -> None:
    spec = build_service(make_parsed_job(), 1)["spec"]

    assert spec["clusterIP"] == "None"
    assert spec["publishNotReadyAddresses"] is True


def test_workers_find_the_service_under_the_name_they_are_given() -> None:
    service = build_service(make_parsed_job(), 1)
    env = {entry["name"]: entry.get("value") for entry in build()["spec"]["containers"][0]["env"]}

    host, port = env["EBBTIDE_COORDINATOR"].split(":")

    assert host == f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
    assert int(port) == service["spec"]["ports"][0]["port"]


def test_the_secret_holds_the_token_under_the_name_that_pods_mount() -> None:
    secret = build_secret(make_parsed_job(), "t0ken")
    volume = build()["spec"]["volumes"][0]

    validate(secret, "1.36", strict=True)
    assert secret["metadata"]["name"] == volume["secret"]["secretName"]
    assert secret["data"] == {"token": "dDBrZW4="}
    assert secret["immutable"] is True


def test_the_job_owns_all_of_it() -> None:
    job = make_parsed_job()

    for child in (build(), build_service(job, 1), build_secret(job, "x")):
        (owner,) = child["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (job.uid, True)
        assert child["metadata"]["labels"]["ebbtide.dev/job-uid"] == job.uid


def test_b030_names_of_the_longest_job_are_legal() -> None:
    pod = build("a" * 43, attempt=99_999)
    service = build_service(make_parsed_job("a" * 43), 1)

    assert len(pod["metadata"]["name"]) == 63
    assert len(service["metadata"]["name"]) <= 63
