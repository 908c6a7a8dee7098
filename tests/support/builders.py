"""Builders of core values with defaults, so that a test says only what it is about."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from ebbtide.core.values.job import Job, JobKey
from ebbtide.core.values.observed import CoordinatorView, Node, Observed, Pod, PodPhase, Role
from ebbtide.core.values.pool import Market, Pool
from ebbtide.core.values.status import JobStatus
from ebbtide.wire.messages import Report, WorkerReport

START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """Return the moment so many seconds after the start of the test's time."""
    return START + timedelta(seconds=seconds)


def make_job(**changes: Any) -> Job:
    job = Job(
        key=JobKey("team", "digits"),
        uid="uid-1",
        generation=1,
        resource_version="1",
        created=START,
        steps=1000,
        global_batch_size=64,
        min_replicas=2,
        max_replicas=3,
        template_hash="t1",
    )
    return replace(job, **changes)


def make_pool(name: str = "spot", **changes: Any) -> Pool:
    pool = Pool(
        name=name,
        market=Market.SPOT,
        max_nodes=8,
        gpu_type="V100",
        gpus_per_node=1,
        usd_per_node_hour=Decimal("0.90"),
    )
    return replace(pool, **changes)


SPOT = make_pool()
ON_DEMAND = make_pool("on-demand", market=Market.ON_DEMAND, usd_per_node_hour=Decimal("3.00"))


def make_pod(
    index: int = 0,
    attempt: int = 1,
    *,
    role: Role = Role.WORKER,
    **changes: Any,
) -> Pod:
    name = f"digits-{role}-{index}-{attempt}"
    pod = Pod(
        name=name,
        uid=f"uid-{name}",
        role=role,
        index=index,
        attempt=attempt,
        created=START,
        pool="spot" if role is Role.WORKER else "",
        node=f"node-{name}",
        phase=PodPhase.RUNNING,
        ready=True,
        started=True,
        template_hash="t1" if role is Role.WORKER else "",
        gpus=1 if role is Role.WORKER else 0,
        boot_id="boot-1",
    )
    return replace(pod, **changes)


def make_node(name: str, **changes: Any) -> Node:
    node = Node(
        name=name, uid=f"uid-{name}", ready=True, ready_changed=START, boot_id="boot-1", gpus=1
    )
    return replace(node, **changes)


def nodes_of(*pods: Pod, **changes: Any) -> dict[str, Node]:
    return {pod.node: make_node(pod.node, **changes) for pod in pods if pod.node}


def make_report(*members: Pod, **changes: Any) -> Report:
    workers = tuple(
        WorkerReport(
            worker=pod.name, index=pod.index, attempt=pod.attempt, state="member", generation=1
        )
        for pod in members
    )
    fields: dict[str, Any] = {
        "attempt": 1,
        "version": 1,
        "generation": 1_000_001,
        "members": tuple(pod.name for pod in members),
        "training": True,
        "step": 10,
        "steps_per_second": 5.0,
        "workers": workers,
    }
    return Report(**{**fields, **changes})


def make_view(
    report: Report | None, *, heard: datetime = START, error: str = ""
) -> CoordinatorView:
    return CoordinatorView(report=report, heard=heard, error=error)


def make_observed(
    job: Job | None = None,
    *pods: Pod,
    nodes: Mapping[str, Node] | None = None,
    **changes: Any,
) -> Observed:
    observed = Observed(
        job=job or make_job(),
        status=JobStatus(),
        pods=pods,
        nodes=nodes_of(*pods) if nodes is None else nodes,
        pools=(SPOT, ON_DEMAND),
    )
    return replace(observed, **changes)
