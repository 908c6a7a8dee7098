"""Small pools and pods to try the world with, and the questions that are asked of them."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from world.cloud.pool import GPU_RESOURCE, Market, Pool

if TYPE_CHECKING:
    from collections.abc import Iterable

    from world.api import Json

LEAVES_ON_TERM: Final = "trap 'exit 82' TERM; sleep 1000 & wait"
"""A container that goes when it is told to, as a worker does."""
STAYS: Final = "trap '' TERM; while :; do sleep 1000; done"
"""A container that only SIGKILL ends."""


def make_pool(name: str = "spot", **changes: Any) -> Pool:
    """Return a spot pool of one-GPU nodes that come quickly, with changes."""
    values: dict[str, Any] = {
        "market": Market.SPOT,
        "gpu": "V100",
        "gpus_per_node": 1,
        "usd_per_node_hour": Decimal("0.92"),
        "provision_seconds": (4.0, 8.0),
    }
    return Pool(name=name, **(values | changes))


def make_pod(name: str, pool: Pool, *, script: str = LEAVES_ON_TERM, grace: int = 30) -> Json:
    """Return a pod of one container that wants one GPU of a pool's node."""
    resources = {"limits": {GPU_RESOURCE: "1"}} if pool.gpu else {}
    return {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": grace,
            "automountServiceAccountToken": False,
            "nodeSelector": pool.node_selector(),
            "tolerations": pool.tolerations(),
            "containers": [
                {
                    "name": "main",
                    "image": "any",
                    "command": ["sh", "-c", script],
                    "resources": resources,
                }
            ],
        },
    }


def find_condition(found: Json, kind: str) -> Json:
    """Return a condition of an object; an empty one if it has none of this type."""
    conditions: Iterable[Json] = found.get("status", {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind), {})


def is_running(pod: Json) -> bool:
    """Tell whether a pod runs."""
    return bool(pod["status"]["phase"] == "Running")


def is_over(pod: Json) -> bool:
    """Tell whether a pod has ended."""
    return pod["status"]["phase"] in {"Failed", "Succeeded"}


def is_ready(found: Json) -> bool:
    """Tell whether a node, or a pod, is Ready."""
    return bool(find_condition(found, "Ready").get("status") == "True")


def taint_keys(node: Json) -> set[str]:
    """Return the keys of a node's taints."""
    return {taint["key"] for taint in node["spec"].get("taints", [])}
