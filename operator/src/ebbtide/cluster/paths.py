"""Addresses of the objects we read and write."""

from typing import Final

from ebbtide.wire.names import CAPACITY_POOLS, GROUP, TRAINING_JOBS, VERSION

CORE: Final = "/api/v1"
OURS: Final = f"/apis/{GROUP}/{VERSION}"
LEASES: Final = "/apis/coordination.k8s.io/v1"
NODES: Final = f"{CORE}/nodes"
POOLS: Final = f"{OURS}/{CAPACITY_POOLS}"


def within(namespace: str, plural: str, *, root: str = CORE) -> str:
    """The address of a collection in one namespace, or in all of them for ""."""
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


def pod(namespace: str, name: str) -> str:
    """The address of one pod."""
    return f"{within(namespace, 'pods')}/{name}"


def service(namespace: str, name: str) -> str:
    """The address of one Service."""
    return f"{within(namespace, 'services')}/{name}"


def secret(namespace: str, name: str) -> str:
    """The address of one Secret."""
    return f"{within(namespace, 'secrets')}/{name}"


def config_map(namespace: str, name: str) -> str:
    """The address of one ConfigMap."""
    return f"{within(namespace, 'configmaps')}/{name}"


def job(namespace: str, name: str) -> str:
    """The address of one TrainingJob."""
    return f"{within(namespace, TRAINING_JOBS, root=OURS)}/{name}"


def pool(name: str) -> str:
    """The address of one CapacityPool."""
    return f"{POOLS}/{name}"


def lease(namespace: str, name: str) -> str:
    """The address of one Lease."""
    return f"{within(namespace, 'leases', root=LEASES)}/{name}"
