"""
What a job has spent: whole nodes, from Ready until gone, split by GPUs between jobs.

A charge runs while a pod of the job stands on the node, and ends with the node's object or its
Ready condition, whichever is first. Ended charges are summed up, running ones are listed, so the
sum does not depend on how often anybody looks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Final

from ebbtide.core.values.observed import Node, Pod
from ebbtide.core.values.pool import Pool
from ebbtide.core.values.status import Cost, NodeCharge

CENT: Final = Decimal("0.01")
MICRO: Final = Decimal("0.000001")
SECONDS_PER_HOUR: Final = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """What the charges depend on."""

    pods: tuple[Pod, ...]
    nodes: Mapping[str, Node]
    node_gpus: Mapping[str, int]  # GPUs asked for on each node by the pods of all jobs
    pools: tuple[Pool, ...]


def charge(cost: Cost, meter: Meter, *, now: datetime) -> Cost:
    """Return the cost at `now`: end charges that are over, begin new ones, add up."""
    due = _due(meter)
    settled, running = cost.settled_usd, []
    for old in cost.nodes:
        new = due.pop(old.node, None)
        same = new is not None and (new.uid, new.usd_per_hour) == (old.uid, old.usd_per_hour)
        if same:
            running.append(old)
            continue
        end = _end(old, meter.nodes.get(old.node), now=now)
        settled += usd_between(old, end)
        if new is not None:
            due[new.node] = replace(new, since=max(new.since, end))
    running += due.values()
    running.sort(key=lambda entry: entry.node)
    return _total(Cost(settled_usd=settled, nodes=tuple(running)), now=now)


def settle(cost: Cost, *, now: datetime) -> Cost:
    """End every charge: the job is over and spends no more."""
    settled = cost.settled_usd + sum((usd_between(c, now) for c in cost.nodes), Decimal(0))
    return _total(Cost(settled_usd=settled), now=now)


def usd_between(entry: NodeCharge, end: datetime) -> Decimal:
    """Return what one charge comes to, in USD to the millionth."""
    seconds = Decimal(str(max((end - entry.since).total_seconds(), 0.0)))
    return (entry.usd_per_hour * seconds / SECONDS_PER_HOUR).quantize(MICRO, ROUND_HALF_EVEN)


def _total(cost: Cost, *, now: datetime) -> Cost:
    running = sum((usd_between(entry, now) for entry in cost.nodes), Decimal(0))
    spent = (cost.settled_usd + running).quantize(CENT, ROUND_HALF_EVEN)
    return replace(cost, spent_usd=spent)


def _due(meter: Meter) -> dict[str, NodeCharge]:
    pools = {pool.name: pool for pool in meter.pools}
    found: dict[str, NodeCharge] = {}
    for pod in sorted(meter.pods, key=lambda pod: pod.created):
        node, pool = meter.nodes.get(pod.node), pools.get(pod.pool)
        if node is None or pool is None or pod.ended or not node.ready or node.name in found:
            continue
        ours = sum(p.gpus for p in meter.pods if p.node == node.name and not p.ended)
        everybody = max(meter.node_gpus.get(node.name, 0), ours)
        share = Decimal(ours) / Decimal(everybody) if everybody else Decimal(1)
        found[node.name] = NodeCharge(
            node=node.name,
            uid=node.uid,
            pool=pool.name,
            usd_per_hour=(pool.usd_per_node_hour * share).quantize(MICRO),
            since=max(node.ready_changed, pod.created),
        )
    return found


def _end(entry: NodeCharge, node: Node | None, *, now: datetime) -> datetime:
    gone_dark = node is not None and node.uid == entry.uid and not node.ready
    return max(node.ready_changed, entry.since) if node is not None and gone_dark else now
