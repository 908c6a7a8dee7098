from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
import yaml

from ebbtide.api.convert import parse_job, parse_pool, template_hash
from ebbtide.core.values.errors import InvalidManifestError
from ebbtide.core.values.job import BrokenJob, CleanPodPolicy, Job, JobKey, SpotUse
from ebbtide.core.values.objective import Minimize, Objective, OnBudget, PlanMode
from ebbtide.core.values.pool import Market
from ebbtide.data.listed_prices import embedded_price
from support.manifests import (
    ABSENT,
    changed,
    container,
    job_manifest,
    pool_manifest,
    stored,
    template,
)
from support.mistakes import Wrong
from support.wrong_jobs import WRONG_JOBS, WRONG_NAMES

EXAMPLES = Path(__file__).parents[3] / "examples"


def parsed(**changes: object) -> Job:
    manifest = stored(
        changed(job_manifest(), {k.replace("__", "."): v for k, v in changes.items()})
    )
    job = parse_job(manifest)
    assert isinstance(job, Job), job.errors
    return job


def faults(manifest: dict[str, object]) -> tuple[str, ...]:
    job = parse_job(manifest)
    assert isinstance(job, BrokenJob)
    return job.errors


def test_a_short_manifest_gets_every_default() -> None:
    job = parsed()

    assert job.key == JobKey("team", "digits")
    assert job.uid == "7f4c1b52-0000-4000-8000-000000000001"
    assert (job.generation, job.resource_version) == (3, "41")
    assert job.created == datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert not job.deleting
    assert (job.steps, job.global_batch_size) == (600, 64)
    assert (job.min_replicas, job.max_replicas) == (2, 4)
    assert job.pools is None
    assert job.pool_selector is None
    assert (job.on_demand_floor, job.spot) == (1, SpotUse.ALLOW)
    assert (job.gpus_per_worker, job.processes_per_worker) == (0, 1)
    assert job.checkpoint_path == "/checkpoints"
    assert job.checkpoint_interval is None
    assert job.checkpoint_retain == 3
    assert job.objective == Objective(minimize=Minimize.COST, on_budget=OnBudget.STOP)
    assert (job.plan_mode, job.replicas) == (PlanMode.AUTO, None)
    assert (job.profile, job.workload) == (None, "")
    assert job.sizes() == (2, 3, 4)
    assert not job.suspend
    assert job.managed_by == "ebbtide.dev/trainingjob-controller"
    assert job.backoff_limit == 6
    assert job.active_deadline is None
    assert job.ttl_after_finished is None
    assert job.clean_pod_policy is CleanPodPolicy.RUNNING
    assert job.template == template()


def test_servers_come_with_their_defaults_and_all_reduce_has_none() -> None:
    served = parsed(spec__strategy="ParameterServer")

    assert (parsed().servers, parsed().uses_servers) == (0, False)
    assert (served.servers, served.max_staleness, served.server_resources) == (None, None, None)
    assert served.uses_servers


def test_what_is_said_of_servers_counts() -> None:
    resources = {"requests": {"memory": "8Gi"}}
    asked = {"replicas": 2, "maxStaleness": 0, "resources": resources}

    job = parsed(spec__strategy="ParameterServer", spec__parameterServer=asked)

    assert (job.servers, job.max_staleness, job.server_resources) == (2, 0, resources)


def test_what_is_written_counts() -> None:
    job = parse_job(
        stored(
            job_manifest(
                capacity={
                    "pools": ["b", "a"],
                    "onDemandFloor": 0,
                    "spot": "Only",
                },
                processesPerWorker=2,
                checkpoint={"path": "/checkpoints/run/", "interval": 5, "retain": 1},
                suspend=True,
                managedBy="kueue.x-k8s.io/multikueue",
                backoffLimit=0,
                activeDeadlineSeconds=3600,
                ttlSecondsAfterFinished=0,
                cleanPodPolicy="None",
                profile="resnet50",
                planMode="Manual",
                elasticPolicy={
                    "minReplicas": 2,
                    "maxReplicas": 8,
                    "replicaDiscreteValues": [8, 4, 2, 1],
                    "replicas": 4,
                },
                objective={
                    "minimize": "Time",
                    "deadline": "2030-01-31T20:00:00+02:00",
                    "budget": "120.00",
                    "onBudget": "Warn",
                },
            )
        )
    )

    assert isinstance(job, Job)
    assert job.profile == "resnet50"
    assert (job.plan_mode, job.replicas, job.sizes()) == (PlanMode.MANUAL, 4, (2, 4, 8))
    assert job.objective == Objective(
        minimize=Minimize.TIME,
        deadline=datetime(2030, 1, 31, 18, tzinfo=UTC),
        budget_usd=Decimal("120.00"),
        on_budget=OnBudget.WARN,
    )
    assert job.pools == ("b", "a")
    assert (job.on_demand_floor, job.spot) == (0, SpotUse.ONLY)
    assert job.processes_per_worker == 2
    assert job.checkpoint_path == "/checkpoints/run"
    assert (job.checkpoint_interval, job.checkpoint_retain) == (timedelta(seconds=5), 1)
    assert job.suspend
    assert job.managed_by == "kueue.x-k8s.io/multikueue"
    assert job.backoff_limit == 0
    assert job.active_deadline == timedelta(hours=1)
    assert job.ttl_after_finished == timedelta(0)
    assert job.clean_pod_policy is CleanPodPolicy.NONE


def test_a_deadline_may_count_from_the_first_start() -> None:
    job = parsed(spec__objective={"deadlineSeconds": 28800})

    assert job.objective.deadline is None
    assert job.objective.deadline_after == timedelta(hours=8)


def test_a_deadline_beyond_all_calendars_can_be_added_to_a_date() -> None:
    job = parsed(spec__objective={"deadlineSeconds": 10**12})

    assert job.objective.due(job.created) is not None


def test_a_deadline_that_a_yaml_reader_took_for_a_date_is_a_deadline() -> None:
    moment = yaml.safe_load("2030-01-31T18:00:00Z")

    assert parsed(spec__objective={"deadline": moment}).objective.deadline == moment


def test_sizes_may_grow_in_steps() -> None:
    policy = {"minReplicas": 2, "maxReplicas": 7, "replicaIncrementStep": 2}

    assert parsed(spec__elasticPolicy=policy).sizes() == (2, 4, 6)


def test_a_label_tells_the_workload() -> None:
    assert parsed(metadata__labels={"ebbtide.dev/workload": "resnet50"}).workload == "resnet50"


def test_pools_may_be_selected_by_label() -> None:
    job = parsed(spec__capacity={"poolSelector": {"matchLabels": {"tier": "cheap"}}})

    assert job.pool_selector == {"tier": "cheap"}


@pytest.mark.parametrize("limit", [2, "2"])
def test_the_gpu_limit_gives_the_processes(limit: object) -> None:
    trainer = container(resources={"limits": {"nvidia.com/gpu": limit}})

    job = parsed(spec__template__spec__containers=[trainer])

    assert (job.gpus_per_worker, job.processes_per_worker) == (2, 2)


def test_a_job_on_its_way_out_says_so() -> None:
    manifest = changed(
        stored(job_manifest()), {"metadata.deletionTimestamp": "2026-01-01T13:00:00Z"}
    )

    job = parse_job(manifest)

    assert isinstance(job, Job)
    assert job.deleting


def test_the_hash_of_a_template_ignores_the_order_of_its_fields() -> None:
    one = {"spec": {"a": 1, "b": [1, 2]}}
    same = {"spec": {"b": [1, 2], "a": 1}}
    other = {"spec": {"b": [2, 1], "a": 1}}

    assert template_hash(one) == template_hash(same)
    assert template_hash(one) != template_hash(other)
    assert len(template_hash(one)) == 16


@pytest.mark.parametrize("wrong", WRONG_JOBS, ids=lambda wrong: wrong.id)
def test_a_mistake_is_told_with_its_path_and_what_would_be_right(wrong: Wrong) -> None:
    errors = faults(stored(wrong.manifest()))

    told = [error for error in errors if error.startswith(f"{wrong.path}: ")]
    assert told, errors
    assert any(wrong.says in error for error in told), told


@pytest.mark.parametrize("name", WRONG_NAMES)
def test_b030_a_name_that_gives_no_host_names_is_told(name: str) -> None:
    errors = faults(stored(job_manifest(name)))

    assert len(errors) == 1
    assert errors[0].startswith(f"metadata.name: {name!r}: ")
    assert "at most 43 characters" in errors[0]


def test_b030_the_longest_name_keeps_every_child_within_63_characters() -> None:
    job = parse_job(stored(job_manifest("a" * 43)))

    assert isinstance(job, Job)
    assert len(f"{job.key.name}-coordinator-0-99999") == 63
    assert len(f"{job.key.name}-worker-4095-99999") <= 63


def test_all_mistakes_are_told_at_once() -> None:
    manifest = stored(
        changed(
            job_manifest("Wrong"),
            {
                "spec.work.steps": -1,
                "spec.backoffLimit": "many",
                "spec.elasticPolicy.maxReplicas": ABSENT,
                "spec.unheardOf": 1,
            },
        )
    )

    paths = [error.split(": ")[0] for error in faults(manifest)]

    assert sorted(paths) == [
        "metadata.name",
        "spec.backoffLimit",
        "spec.elasticPolicy.maxReplicas",
        "spec.unheardOf",
        "spec.work.steps",
    ]


def test_mistakes_in_the_template_are_told_at_once() -> None:
    trainer = container(resources={"limits": {"nvidia.com/gpu": "half"}})
    manifest = stored(
        job_manifest(
            template=template(
                containers=[trainer],
                volumes=[{"name": "data", "emptyDir": {}}, {"name": "data", "emptyDir": {}}],
                nodeName="node-1",
            )
        )
    )

    assert len(faults(manifest)) == 4


def test_b096_a_field_that_this_version_does_not_know_is_never_ignored() -> None:
    errors = faults(stored(job_manifest(topology={"spread": "Zone"})))

    assert errors == ("spec.topology: no field of this name is known here; it has to be removed",)


def test_a_long_value_is_shown_cut() -> None:
    errors = faults(stored(job_manifest(strategy="x" * 1000)))

    assert len(errors[0]) < 200


def test_a_broken_job_still_says_who_it_is() -> None:
    job = parse_job(stored(job_manifest(work=None, managedBy="other.example/controller")))

    assert isinstance(job, BrokenJob)
    assert job.key == JobKey("team", "digits")
    assert job.managed_by == "other.example/controller"
    assert job.generation == 3


@pytest.mark.parametrize("spec", [None, 3, "text", [], {}], ids=repr)
def test_no_spec_at_all_is_a_broken_job(spec: object) -> None:
    assert faults({"metadata": {"name": "digits"}, "spec": spec})


def test_a_pool_comes_with_its_defaults() -> None:
    pool = parse_pool(pool_manifest(), embedded_price)

    assert (pool.name, pool.market) == ("v100-spot", Market.SPOT)
    assert pool.node_selector == {"example.com/pool": "v100-spot"}
    assert pool.tolerations == ()
    assert (pool.zone, pool.region) == ("", "")
    assert pool.notice == timedelta(seconds=30)
    assert (pool.max_nodes, pool.gpu_type, pool.gpus_per_node) == (8, "V100", 1)
    assert pool.usd_per_node_hour == Decimal("0.92")


def test_a_pool_keeps_what_is_written() -> None:
    toleration = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    manifest = pool_manifest(
        tolerations=[toleration], market="OnDemand", zone="a", region="r", noticeSeconds=0
    )
    manifest["metadata"]["labels"] = {"tier": "dear"}

    pool = parse_pool(manifest, embedded_price)

    assert pool.tolerations == (toleration,)
    assert pool.market is Market.ON_DEMAND
    assert (pool.zone, pool.region, pool.notice) == ("a", "r", timedelta(0))
    assert pool.labels == {"tier": "dear"}


def test_a_pool_without_gpus_carries_jobs_without_gpus_only() -> None:
    manifest = pool_manifest()
    del manifest["spec"]["gpu"]

    pool = parse_pool(manifest, embedded_price)

    assert pool.workers_per_node(1) == 0
    assert pool.workers_per_node(0) > 0


def test_all_mistakes_in_a_pool_are_told_at_once() -> None:
    manifest = pool_manifest(market="Cheap", price={"usdPerNodeHour": 0.92}, nodeSelector={})

    with pytest.raises(InvalidManifestError) as caught:
        parse_pool(manifest, embedded_price)

    assert [error.path for error in caught.value.errors] == [
        "spec.nodeSelector",
        "spec.market",
        "spec.price.usdPerNodeHour",
    ]


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.yaml")), ids=lambda path: path.name)
def test_every_example_is_right(path: Path) -> None:
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        if document["kind"] == "TrainingJob":
            job = parse_job(stored(document))
            assert isinstance(job, Job), job.errors
        elif document["kind"] == "CapacityPool":
            assert parse_pool(document, embedded_price).name


def test_a_number_of_thousands_of_digits_is_a_wrong_number() -> None:
    limits = {"resources": {"limits": {"nvidia.com/gpu": "1" * 5000}}}
    manifest = stored(job_manifest())
    manifest["spec"]["template"] = template(containers=[container(**limits)])

    (fault,) = faults(manifest)

    assert "must be a whole number of GPUs" in fault


@pytest.mark.parametrize("depth", [100, 5000])
def test_what_is_nested_too_deep_is_refused_without_following_it(depth: int) -> None:
    manifest = stored(job_manifest())
    deep: dict[str, object] = {}
    for _ in range(depth):
        deep = {"x": [deep]}
    manifest["spec"]["template"]["spec"]["odd"] = deep

    (fault,) = faults(manifest)

    assert "nested deeper" in fault


def test_the_longest_time_that_a_spec_may_name_fits_into_a_date() -> None:
    job = parsed(spec__activeDeadlineSeconds=10**12, spec__ttlSecondsAfterFinished=10**12)

    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert job.active_deadline is not None
    assert job.ttl_after_finished is not None
    assert now + job.active_deadline > now + timedelta(days=10_000)
    assert now + job.ttl_after_finished > now + timedelta(days=10_000)


@pytest.mark.parametrize(
    ("price", "path", "says"),
    [
        pytest.param({"usdPerNodeHour": "0"}, "spec.price.usdPerNodeHour", "above 0", id="nothing"),
        pytest.param({"usdPerNodeHour": "00.00"}, "spec.price.usdPerNodeHour", "above 0", id="00"),
        pytest.param({}, "spec.price", "either usdPerNodeHour or catalogue", id="none"),
        pytest.param(
            {"usdPerNodeHour": "1", "catalogue": {"provider": "aws", "instanceType": "p3.2xlarge"}},
            "spec.price",
            "either usdPerNodeHour or catalogue",
            id="two",
        ),
        pytest.param(
            {"catalogue": {"provider": "aws"}},
            "spec.price.catalogue.instanceType",
            "is missing",
            id="half a name",
        ),
        pytest.param(
            {"catalogue": {"provider": "aws", "instanceType": "p9"}},
            "spec.price.catalogue",
            "aws has no instance type 'p9'",
            id="not in the list",
        ),
    ],
)
def test_b081_a_price_that_cannot_be_is_refused(price: object, path: str, says: str) -> None:
    with pytest.raises(InvalidManifestError) as caught:
        parse_pool(pool_manifest(price=price), embedded_price)

    (error,) = caught.value.errors
    assert error.path == path
    assert says in error.message


def test_a_price_may_be_looked_up_in_the_catalogue() -> None:
    price = {"catalogue": {"provider": "aws", "instanceType": "p3.2xlarge"}}

    spot = parse_pool(pool_manifest(price=price, region="us-east-1"), embedded_price)

    assert Decimal(0) < spot.usd_per_node_hour < Decimal("3.06")


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        pytest.param("s3://models/resnet/", "s3://models/resnet", id="s3"),
        pytest.param("gs://my-models.eu/team/resnet", "gs://my-models.eu/team/resnet", id="gcs"),
    ],
)
def test_checkpoints_in_a_bucket_need_no_volume(path: str, kept: str) -> None:
    manifest = changed(
        job_manifest(),
        {
            "spec.checkpoint": {"path": path},
            "spec.template.spec.containers.0.volumeMounts": ABSENT,
        },
    )

    job = parse_job(stored(manifest))

    assert isinstance(job, Job), job.errors
    assert job.checkpoint_path == kept


@pytest.mark.parametrize("launcher", ["Torchrun", "Command"])
def test_a_script_on_its_own_terms_needs_no_work_and_no_mounted_checkpoints(launcher: str) -> None:
    asked = template(containers=[container(volumeMounts=[])], volumes=[])
    manifest = changed(job_manifest(launcher=launcher, template=asked), {"spec.work": ABSENT})

    job = parse_job(stored(manifest))

    assert isinstance(job, Job), job.errors
    assert (job.launcher, job.steps, job.global_batch_size) == (launcher, 0, 0)


def test_work_of_a_script_on_its_own_terms_counts_for_nothing() -> None:
    job = parse_job(stored(job_manifest(launcher="Torchrun")))

    assert isinstance(job, Job)
    assert job.steps == 0
