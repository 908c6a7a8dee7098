"""Pools: nodes of one kind that the provider sells, and what they look like in the cluster."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

GPU_RESOURCE: Final = "nvidia.com/gpu"


class Market(enum.StrEnum):
    """How a node is bought; the words are those of a CapacityPool."""

    SPOT = "Spot"
    ON_DEMAND = "OnDemand"


class Provider(enum.StrEnum):
    """Whose labels, taints and manners a pool has."""

    GKE = "gke"
    EKS = "eks"
    KARPENTER = "karpenter"
    AKS = "aks"


NOTICE: Final[Mapping[Provider, float]] = {
    Provider.GKE: 30.0,
    Provider.EKS: 120.0,
    Provider.KARPENTER: 120.0,
    Provider.AKS: 30.0,
}

WARNINGS: Final[Mapping[Provider, str]] = {
    Provider.GKE: "cloud.google.com/impending-node-termination",
    Provider.EKS: "aws-node-termination-handler/spot-itn",
    Provider.KARPENTER: "karpenter.sh/disrupted",
    Provider.AKS: "remediator.kubernetes.azure.com/unschedulable",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """What a GPU type is called, and by whom."""

    product: str
    """As NVIDIA's feature discovery writes it."""
    memory_mib: int
    family: str
    gke: str
    """As GKE's accelerator label writes it."""


GPUS: Final[Mapping[str, Gpu]] = {
    "K80": Gpu(product="Tesla-K80", memory_mib=11441, family="kepler", gke="nvidia-tesla-k80"),
    "P100": Gpu(
        product="Tesla-P100-PCIE-16GB", memory_mib=16280, family="pascal", gke="nvidia-tesla-p100"
    ),
    "V100": Gpu(
        product="Tesla-V100-SXM2-16GB", memory_mib=16160, family="volta", gke="nvidia-tesla-v100"
    ),
    "T4": Gpu(product="Tesla-T4", memory_mib=15360, family="turing", gke="nvidia-tesla-t4"),
    "A100": Gpu(
        product="NVIDIA-A100-SXM4-40GB", memory_mib=40960, family="ampere", gke="nvidia-tesla-a100"
    ),
    "H100": Gpu(
        product="NVIDIA-H100-80GB-HBM3",
        memory_mib=81559,
        family="hopper",
        gke="nvidia-h100-80gb",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One pool. Times are simulated seconds; a pair is the range they are drawn from."""

    name: str
    market: Market
    usd_per_node_hour: Decimal
    provider: Provider = Provider.GKE
    gpu: str | None = None
    """One of `GPUS`; none for a pool of plain machines."""
    gpus_per_node: int = 0
    zone: str = "us-central1-a"
    region: str = "us-central1"
    max_nodes: int = 8
    min_nodes: int = 0
    """So many are started at once and replaced when lost, pending pods or not."""
    notice_seconds: float | None = None
    """From the notice of a revocation to power-off; by default as the provider has it."""
    provision_seconds: tuple[float, float] = (60.0, 60.0)
    """From the request to a node that boots."""
    gpu_seconds: tuple[float, float] = (0.0, 0.0)
    """From boot to the device plugin's GPUs; above 0, a startup taint stays as long."""
    idle_seconds: float = 600.0
    instance_type: str = ""
    cpu: str = "8"
    memory: str = "32Gi"
    extra_labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what no provider sells."""
        if (self.gpu is None) != (self.gpus_per_node == 0):
            message = f"pool {self.name}: {self.gpus_per_node} GPUs of type {self.gpu}"
            raise ValueError(message)
        if self.gpu is not None and self.gpu not in GPUS:
            message = f"pool {self.name}: GPU type {self.gpu!r} is not one of {', '.join(GPUS)}"
            raise ValueError(message)
        if not 0 <= self.min_nodes <= self.max_nodes:
            message = f"pool {self.name}: {self.min_nodes} nodes at least, {self.max_nodes} at most"
            raise ValueError(message)

    @property
    def notice(self) -> float:
        """Seconds from the notice of a revocation to power-off."""
        return NOTICE[self.provider] if self.notice_seconds is None else self.notice_seconds

    @property
    def is_spot(self) -> bool:
        """Whether the provider may take its nodes back."""
        return self.market is Market.SPOT

    def node_selector(self) -> dict[str, str]:
        """Return the label that the pool's nodes have and no others."""
        match self.provider:
            case Provider.GKE:
                return {"cloud.google.com/gke-nodepool": self.name}
            case Provider.EKS:
                return {"eks.amazonaws.com/nodegroup": self.name}
            case Provider.KARPENTER:
                return {"karpenter.sh/nodepool": self.name}
            case Provider.AKS:
                return {"kubernetes.azure.com/agentpool": self.name}

    def labels(self) -> dict[str, str]:
        """Return what the provider, and NVIDIA's feature discovery, write on each node."""
        return {
            "node.kubernetes.io/instance-type": self.instance_type or f"{self.name}-type",
            "topology.kubernetes.io/zone": self.zone,
            "topology.kubernetes.io/region": self.region,
            **self.node_selector(),
            **self._market_labels(),
            **self._gpu_labels(),
            **self.extra_labels,
        }

    def taints(self) -> tuple[dict[str, str], ...]:
        """Return the taints that nodes of the pool have all their life."""
        taints = []
        if self.gpu and self.provider is Provider.GKE:
            taints.append({"key": GPU_RESOURCE, "value": "present", "effect": "NoSchedule"})
        if self.is_spot and self.provider is Provider.AKS:
            key = "kubernetes.azure.com/scalesetpriority"
            taints.append({"key": key, "value": "spot", "effect": "NoSchedule"})
        return tuple(taints)

    def tolerations(self) -> list[dict[str, str]]:
        """Return what lets a pod onto the pool's nodes."""
        return [{"operator": "Equal", **taint} for taint in self.taints()]

    def startup_taint(self) -> dict[str, str]:
        """Return the taint of a node whose devices are not there yet."""
        if self.provider is Provider.KARPENTER:
            return {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}
        prefix = "startup-taint.cluster-autoscaler.kubernetes.io"
        return {"key": f"{prefix}/gpu-driver", "effect": "NoSchedule"}

    def warning_taint(self, event: str) -> dict[str, str]:
        """Return the taint by which the provider's agent says that a node may go."""
        taint = {"key": WARNINGS[self.provider], "effect": "NoSchedule"}
        return {**taint, "value": event} if self.provider is Provider.EKS else taint

    def capacity(self, *, gpus: int | None = None) -> dict[str, str]:
        """Return a node's resources; `gpus` where the device plugin says other than the pool."""
        resources = {"cpu": self.cpu, "memory": self.memory}
        if self.gpu:
            resources[GPU_RESOURCE] = str(self.gpus_per_node if gpus is None else gpus)
        return resources

    def manifest(self, *, factor: float = 1.0) -> dict[str, Any]:
        """Return the CapacityPool that describes this pool, its notice at the world's pace."""
        spec: dict[str, Any] = {
            "nodeSelector": self.node_selector(),
            "tolerations": self.tolerations(),
            "market": str(self.market),
            "zone": self.zone,
            "region": self.region,
            "noticeSeconds": max(1, round(self.notice * factor)),
            "maxNodes": self.max_nodes,
            "price": {"usdPerNodeHour": f"{self.usd_per_node_hour:.2f}"},
        }
        if self.gpu:
            spec["gpu"] = {"type": self.gpu, "count": self.gpus_per_node}
        return {
            "apiVersion": "ebbtide.dev/v1alpha1",
            "kind": "CapacityPool",
            "metadata": {"name": self.name},
            "spec": spec,
        }

    def _market_labels(self) -> dict[str, str]:
        match self.provider:
            case Provider.GKE if self.is_spot:
                return {
                    "cloud.google.com/gke-spot": "true",
                    "cloud.google.com/gke-provisioning": "spot",
                }
            case Provider.GKE:
                return {"cloud.google.com/gke-provisioning": "standard"}
            case Provider.EKS:
                return {"eks.amazonaws.com/capacityType": "SPOT" if self.is_spot else "ON_DEMAND"}
            case Provider.KARPENTER:
                return {"karpenter.sh/capacity-type": "spot" if self.is_spot else "on-demand"}
            case Provider.AKS if self.is_spot:
                return {"kubernetes.azure.com/scalesetpriority": "spot"}
            case Provider.AKS:
                return {}

    def _gpu_labels(self) -> dict[str, str]:
        if self.gpu is None:
            return {}
        gpu, count = GPUS[self.gpu], str(self.gpus_per_node)
        labels = {
            "nvidia.com/gpu.product": gpu.product,
            "nvidia.com/gpu.count": count,
            "nvidia.com/gpu.memory": str(gpu.memory_mib),
            "nvidia.com/gpu.family": gpu.family,
            "nvidia.com/gpu.replicas": "1",
        }
        match self.provider:
            case Provider.GKE:
                labels["cloud.google.com/gke-accelerator"] = gpu.gke
                labels["cloud.google.com/gke-accelerator-count"] = count
            case Provider.EKS:
                labels["k8s.amazonaws.com/accelerator"] = gpu.gke
            case Provider.KARPENTER:
                prefix = "karpenter.k8s.aws/instance-gpu"
                labels[f"{prefix}-name"] = self.gpu.lower()
                labels[f"{prefix}-manufacturer"] = "nvidia"
                labels[f"{prefix}-count"] = count
                labels[f"{prefix}-memory"] = str(gpu.memory_mib)
            case Provider.AKS:
                labels["kubernetes.azure.com/accelerator"] = "nvidia"
        return labels


def make_system_pool(*, provider: Provider = Provider.GKE) -> Pool:
    """Return the pool of the one machine that carries coordinators: plain, on demand, untainted."""
    return Pool(
        name="system",
        provider=provider,
        market=Market.ON_DEMAND,
        usd_per_node_hour=Decimal("0.19"),
        min_nodes=1,
        max_nodes=1,
        provision_seconds=(0.0, 0.0),
    )
