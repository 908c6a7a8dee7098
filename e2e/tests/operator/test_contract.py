"""What the operator promises an API server, its users and whoever runs it."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from world.api import Api

Bench = Any  # from conftest.py, which cannot be imported
Operator = Any
Proxy = Any

POOLS = "/apis/ebbtide.dev/v1alpha1/capacitypools"


async def count_writes(api: Api) -> int:
    """How many requests that write the API server has answered, of pods, jobs and their like."""
    total = 0
    for line in (await api.text("GET", "/metrics")).splitlines():
        if not line.startswith("apiserver_request_total{"):
            continue
        resource = line.partition('resource="')[2].partition('"')[0]
        verb = line.partition('verb="')[2].partition('"')[0]
        if resource in {"pods", "trainingjobs", "services", "secrets", "capacitypools"}:
            total += int(float(line.rpartition(" ")[2])) if verb in WRITES else 0
    return total


WRITES = {"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"}


async def test_a_job_gets_all_that_it_needs_and_a_status_from_the_first_second(
    bench: Bench, operator: Operator
) -> None:
    operator.start()
    await bench.add_job(workers=3)

    pods = await bench.until_pods(4)

    assert sorted(pods) == [
        "digits-coordinator-0-1",
        "digits-worker-0-1",
        "digits-worker-1-1",
        "digits-worker-2-1",
    ]
    await bench.until_condition("Planned")
    job = await bench.job()
    assert job["status"]["observedGeneration"] == job["metadata"]["generation"]
    assert len(job["status"]["conditions"]) >= 9
    assert job["metadata"].get("finalizers", []) == []
    assert not any("kopf" in key for key in job["metadata"].get("annotations", {}))
    managers = {field["manager"]: field for field in job["metadata"]["managedFields"]}
    assert set(managers["ebbtide"]["fieldsV1"]) == {"f:status"}  # never the spec
    owner = pods["digits-worker-0-1"]["metadata"]["ownerReferences"][0]
    assert (owner["uid"], owner["controller"]) == (job["metadata"]["uid"], True)
    await bench.api.request("GET", f"{bench.core}/services/digits-coordinator")
    await bench.api.request("GET", f"{bench.core}/secrets/ebbtide-{job['metadata']['uid']}")


async def test_what_turns_is_told_as_an_event_on_the_job(bench: Bench, operator: Operator) -> None:
    operator.start()
    await bench.add_job(suspend=True)
    await bench.until_condition("Suspended")

    async with asyncio.timeout(60):
        while not (events := await bench.events()):  # noqa: ASYNC110 -- any of them will do
            await asyncio.sleep(0.2)

    job = await bench.job()
    assert {event["involvedObject"]["uid"] for event in events} == {job["metadata"]["uid"]}
    assert all(event["message"] and event["reason"] for event in events)


async def test_thirty_of_thirty_two_workers_are_made_anew_at_once(
    bench: Bench, operator: Operator
) -> None:
    # B017
    operator.start()
    await bench.add_job(workers=32)
    pods = await bench.until_pods(33)
    await asyncio.sleep(2)
    before = await count_writes(bench.api)
    lost = [name for name in pods if "-worker-" in name][:30]
    begun = time.monotonic()

    await asyncio.gather(
        *(bench.api.request("DELETE", f"{bench.core}/pods/{name}") for name in lost)
    )
    pods = await bench.until_pods(33, seconds=15)
    while len([name for name in pods if name.endswith("-2")]) < 30:
        assert time.monotonic() - begun < 15, sorted(pods)
        await asyncio.sleep(0.1)
        pods = await bench.pods()

    assert len(pods) == 33
    await asyncio.sleep(2)
    written = await count_writes(bench.api) - before
    assert written < 200 + 30 + 60, "200 of ours; 30 deletes of the test, the scheduler's words"


async def test_a_killed_operator_leaves_no_duplicate_and_no_gap(
    bench: Bench, operator: Operator
) -> None:
    operator.start()
    await bench.add_job(workers=16)
    while len(await bench.pods()) < 3:  # noqa: ASYNC110 -- the moment counts
        await asyncio.sleep(0.01)
    await operator.kill()  # most often between creating pods and writing the status
    left = await bench.pods()

    operator.start()
    pods = await bench.until_pods(17)

    assert {name: pod["metadata"]["uid"] for name, pod in pods.items()}.items() >= {
        name: pod["metadata"]["uid"] for name, pod in left.items()
    }.items()
    assert all(name.endswith("-1") for name in pods)
    await asyncio.sleep(2)
    assert len(await bench.pods()) == 17


async def test_sigterm_ends_the_operator_within_five_seconds_with_success(
    bench: Bench, operator: Operator
) -> None:
    operator.start()
    await bench.add_job()
    await bench.until_pods(4)
    begun = time.monotonic()

    assert await operator.stop() == 0

    assert time.monotonic() - begun < 5
    assert "Traceback" not in operator.text()


async def test_a_quiet_job_is_not_written(bench: Bench, operator: Operator) -> None:
    # B042
    operator.start()
    await bench.add_job()
    await bench.until_pods(4)
    await bench.until_condition("Reconciling")
    await asyncio.sleep(3)
    written = await count_writes(bench.api)
    version = (await bench.job())["metadata"]["resourceVersion"]

    # Somebody else's edits of the metadata are no reason to write either.
    for number in range(5):
        change = {"metadata": {"labels": {"edited": str(number)}}}
        path = f"{bench.jobs}/digits"
        edited = await bench.api.request(
            "PATCH", path, change, content_type="application/merge-patch+json"
        )
        version = edited["metadata"]["resourceVersion"]
        await asyncio.sleep(1)

    assert (await bench.job())["metadata"]["resourceVersion"] == version
    # The scheduler writes on pending pods now and then.
    assert await count_writes(bench.api) - written <= 5 + 8


async def test_a_job_of_another_controller_is_left_alone(bench: Bench, operator: Operator) -> None:
    operator.start()
    await bench.add_job("theirs", managedBy="kueue.x-k8s.io/multikueue")
    await bench.add_job("ours")
    await bench.until_condition("Planned", name="ours")

    theirs = await bench.job("theirs")

    assert "conditions" not in theirs.get("status", {})
    assert not any(name.startswith("theirs") for name in await bench.pods())


async def test_a_suspended_job_can_be_deleted_at_once(bench: Bench, operator: Operator) -> None:
    operator.start()
    await bench.add_job(suspend=True)
    await bench.until_condition("Suspended")
    assert await bench.pods() == {}

    await bench.api.request("DELETE", f"{bench.jobs}/digits")

    async with asyncio.timeout(5):
        while await bench.job() is not None:  # noqa: ASYNC110 -- as kubectl delete --wait does
            await asyncio.sleep(0.1)
    # Its series go with it, once the news have come.
    async with asyncio.timeout(60):
        while f'namespace="{bench.namespace}"' in (await operator.get("/metrics"))[1]:  # noqa: ASYNC110 -- a scrape is a poll
            await asyncio.sleep(0.1)


async def test_a_job_made_anew_under_its_name_starts_anew(bench: Bench, operator: Operator) -> None:
    # B013
    operator.start()
    first = await bench.add_job()
    await bench.until_pods(4)
    await bench.until_condition("Planned")
    await bench.api.request("DELETE", f"{bench.jobs}/digits", {"propagationPolicy": "Background"})
    second = await bench.add_job()

    async with asyncio.timeout(60):
        while True:
            owners = {
                pod["metadata"]["ownerReferences"][0]["uid"]
                for pod in (await bench.pods()).values()
            }
            if owners == {second["metadata"]["uid"]} and len(await bench.pods()) == 4:
                break
            await asyncio.sleep(0.1)

    await bench.until_condition("Planned")
    job = await bench.job()
    assert job["metadata"]["uid"] != first["metadata"]["uid"]
    assert job["status"]["counters"]["restarts"] == 0


async def test_a_foreign_pod_in_our_place_is_named_and_left_alone(
    bench: Bench, operator: Operator
) -> None:
    # B013, variant
    body = {
        "metadata": {"name": "digits-worker-0-1"},
        "spec": {"containers": [{"name": "web", "image": "registry.example/web:1"}]},
    }
    stranger = await bench.api.request("POST", f"{bench.core}/pods", body)
    operator.start()
    await bench.add_job()

    stalled = await bench.until_condition("Stalled")

    assert "digits-worker-0-1" in stalled["message"]
    await asyncio.sleep(3)
    left = (await bench.pods())["digits-worker-0-1"]
    assert left["metadata"]["uid"] == stranger["metadata"]["uid"]
    assert "deletionTimestamp" not in left["metadata"]
    assert operator.text().count("CreatePod") < 10  # no storm


async def test_the_nodes_of_a_pool_are_counted(bench: Bench, operator: Operator) -> None:
    operator.start()
    name = f"{bench.namespace}-node"[-63:].strip("-")
    body = {"metadata": {"name": name, "labels": {"example.com/pool": bench.pool}}}
    await bench.api.request("POST", "/api/v1/nodes", body)
    try:
        async with asyncio.timeout(60):
            while True:
                pool = await bench.api.request("GET", f"{POOLS}/{bench.pool}")
                if pool.get("status", {}).get("nodes") == {"ready": 0, "total": 1}:
                    break
                await asyncio.sleep(0.2)
    finally:
        await bench.api.request("DELETE", f"/api/v1/nodes/{name}")


async def test_health_readiness_and_metrics_are_served(bench: Bench, operator: Operator) -> None:
    operator.start()
    await bench.add_job()
    await bench.until_condition("Planned")

    assert await operator.get("/healthz") == (200, "ok")
    assert await operator.get("/readyz") == (200, "ok")
    _, metrics = await operator.get("/metrics")
    for name in (
        "ebbtide_reconcile_duration_seconds_bucket",
        "ebbtide_queue_depth",
        "ebbtide_watch_age_seconds",
        "ebbtide_leader 1.0",
        "ebbtide_build_info",
        f'ebbtide_job_steps_total{{namespace="{bench.namespace}",trainingjob="digits"}}',
    ):
        assert name in metrics


async def test_one_of_two_operators_acts_and_the_other_takes_over(
    bench: Bench, operator: Operator, tmp_path_factory: Any
) -> None:
    second = type(operator)(tmp_path_factory.mktemp("second"), operator.kubeconfig)
    option = f"--lease-namespace={bench.namespace}"
    operator.start(option)
    await operator.says("at work")
    second.start(option)
    try:
        await asyncio.sleep(3)
        assert "at work" not in second.text()
        assert await second.get("/readyz") == (200, "ok")

        assert await operator.stop() == 0
        await second.says("at work", seconds=6)

        await bench.add_job()
        await bench.until_pods(4)
        assert await second.stop() == 0
    finally:
        if second.process.poll() is None:
            second.send(signal.SIGKILL)


async def test_an_api_server_that_was_away_changes_nothing(
    bench: Bench, operator: Operator, proxy: Proxy
) -> None:
    operator.kubeconfig = proxy.kubeconfig
    operator.start()
    await bench.add_job()
    before = await bench.until_pods(4)
    await bench.until_condition("Planned")  # status comes after pods: attempts are written, too
    await proxy.stop()
    await bench.api.request("DELETE", f"{bench.core}/pods/digits-worker-1-1")
    await asyncio.sleep(8)
    await proxy.start(proxy.port)

    pods = await bench.until_pods(4)

    assert set(pods) == {*before, "digits-worker-1-2"} - {"digits-worker-1-1"}
    await bench.add_job("second")
    await bench.until_condition("Planned", name="second")
    assert operator.process.poll() is None


async def test_watches_that_fall_silent_are_noticed(
    bench: Bench, operator: Operator, proxy: Proxy
) -> None:
    # B035
    operator.kubeconfig = proxy.kubeconfig
    operator.start("--no-lease", settings={"silentWatchSeconds": 3})
    await bench.add_job()
    await bench.until_pods(4)
    proxy.silence()
    await bench.add_job("second", workers=1)
    await bench.api.request("DELETE", f"{bench.core}/pods/digits-worker-1-1")

    await bench.until_condition("Planned", name="second", seconds=40)
    pods = await bench.until_pods(6, seconds=40)

    assert "digits-worker-1-2" in pods


async def test_an_operator_for_one_namespace_asks_for_nothing_else(
    bench: Bench, operator: Operator
) -> None:
    # B045
    pool = {
        "name": "ours",
        "spec": {
            "nodeSelector": {"example.com/pool": "ours"},
            "market": "Spot",
            "maxNodes": 4,
            "gpu": {"type": "V100", "count": 1},
            "price": {"usdPerNodeHour": "0.92"},
        },
    }
    operator.kubeconfig = await restricted(bench, operator)
    operator.start("--no-lease", settings={"namespaces": [bench.namespace], "pools": [pool]})
    await bench.add_job(capacity={"pools": ["ours"], "onDemandFloor": 0, "spot": "Only"})

    await bench.until_pods(4, seconds=15)

    assert operator.text().count("forbidden") <= 2  # nodes, said once


async def restricted(bench: Bench, operator: Operator) -> Any:
    """A kubeconfig of an account that may do what the operator needs in one namespace only."""
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{bench.namespace}"
    every = ["get", "list", "watch", "create", "patch", "delete"]
    rules = [
        {"apiGroups": [""], "resources": ["pods", "services"], "verbs": every},
        {
            "apiGroups": [""],
            "resources": ["secrets"],
            "verbs": ["get", "create", "patch", "delete"],
        },
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
        {
            "apiGroups": ["ebbtide.dev"],
            "resources": ["trainingjobs"],
            "verbs": ["get", "list", "watch", "delete"],
        },
        {"apiGroups": ["ebbtide.dev"], "resources": ["trainingjobs/status"], "verbs": ["patch"]},
        {
            "apiGroups": ["ebbtide.dev"],
            "resources": ["workloadprofiles"],
            "verbs": ["get", "list", "watch"],
        },
        {
            "apiGroups": ["ebbtide.dev"],
            "resources": ["trainingjobs/finalizers"],
            "verbs": ["update"],
        },
    ]
    await bench.api.request("POST", f"{rbac}/roles", {"metadata": {"name": "op"}, "rules": rules})
    binding = {
        "metadata": {"name": "op"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "op"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": bench.namespace}],
    }
    await bench.api.request("POST", f"{rbac}/rolebindings", binding)
    request = {"spec": {"expirationSeconds": 3600}}
    path = f"{bench.core}/serviceaccounts/default/token"
    token = (await bench.api.request("POST", path, request))["status"]["token"]
    return operator.with_token(token)


@pytest.mark.timeout(300)  # a fresh clone compiles for half a minute, at low priority
async def test_where_there_are_many_pools_the_planner_is_compiled_beside_the_work(
    bench: Bench, operator: Operator
) -> None:
    operator.start(settings={"compilePools": 1})
    await bench.add_job()

    await bench.until_pods(4)  # nothing waits for it
    await operator.says("the planner's loops are compiled", seconds=240)

    assert await operator.stop() == 0
