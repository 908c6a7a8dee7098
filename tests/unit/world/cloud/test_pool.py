"""What pools look like in the cluster, provider by provider."""

from decimal import Decimal
from typing import Any

import pytest

from world.cloud.pool import GPU_RESOURCE, GPUS, NOTICE, Market, Pool, Provider, make_system_pool
from world.samples import make_pool

ALL = list(Provider)


@pytest.mark.parametrize("provider", ALL)
@pytest.mark.parametrize("market", list(Market))
def test_the_selector_of_a_pool_is_among_its_labels(provider: Provider, market: Market) -> None:
    pool = make_pool(provider=provider, market=market)
    assert pool.node_selector().items() <= pool.labels().items()


@pytest.mark.parametrize("provider", ALL)
def test_labels_tell_the_gpu_and_the_place(provider: Provider) -> None:
    labels = make_pool(provider=provider, gpus_per_node=4, zone="z", region="r").labels()
    assert labels["nvidia.com/gpu.product"] == GPUS["V100"].product
    assert labels["nvidia.com/gpu.count"] == "4"
    assert labels["topology.kubernetes.io/zone"] == "z"
    assert labels["topology.kubernetes.io/region"] == "r"
    assert labels["node.kubernetes.io/instance-type"]


@pytest.mark.parametrize(
    ("provider", "key", "spot", "on_demand"),
    [
        (Provider.GKE, "cloud.google.com/gke-spot", "true", None),
        (Provider.GKE, "cloud.google.com/gke-provisioning", "spot", "standard"),
        (Provider.EKS, "eks.amazonaws.com/capacityType", "SPOT", "ON_DEMAND"),
        (Provider.KARPENTER, "karpenter.sh/capacity-type", "spot", "on-demand"),
        (Provider.AKS, "kubernetes.azure.com/scalesetpriority", "spot", None),
    ],
)
def test_labels_tell_the_market(
    provider: Provider, key: str, spot: str, on_demand: str | None
) -> None:
    assert make_pool(provider=provider).labels().get(key) == spot
    twin = make_pool(provider=provider, market=Market.ON_DEMAND)
    assert twin.labels().get(key) == on_demand


def test_only_some_providers_taint_their_nodes() -> None:
    keys = {p: [t["key"] for t in make_pool(provider=p).taints()] for p in ALL}
    assert keys == {
        Provider.GKE: [GPU_RESOURCE],
        Provider.EKS: [],
        Provider.KARPENTER: [],
        Provider.AKS: ["kubernetes.azure.com/scalesetpriority"],
    }


def test_the_notice_is_the_provider_s_unless_the_pool_has_its_own() -> None:
    assert {p: make_pool(provider=p).notice for p in ALL} == NOTICE
    assert make_pool(notice_seconds=120.0).notice == 120.0


def test_the_manifest_describes_the_pool_at_the_world_s_pace() -> None:
    spec = make_pool(max_nodes=3).manifest(factor=0.1)["spec"]
    assert spec["market"] == "Spot"
    assert spec["noticeSeconds"] == 3
    assert spec["maxNodes"] == 3
    assert spec["gpu"] == {"type": "V100", "count": 1}
    assert spec["price"] == {"usdPerNodeHour": "0.92"}
    assert spec["tolerations"][0]["key"] == GPU_RESOURCE
    assert make_pool().manifest(factor=0.001)["spec"]["noticeSeconds"] == 1


def test_the_system_pool_always_has_its_one_untainted_node() -> None:
    pool = make_system_pool()
    assert (pool.min_nodes, pool.max_nodes) == (1, 1)
    assert pool.taints() == ()
    assert not pool.is_spot
    assert GPU_RESOURCE not in pool.capacity()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gpu": None}, "1 GPUs of type None"),
        ({"gpus_per_node": 0}, "0 GPUs of type V100"),
        ({"gpu": "Voodoo"}, "'Voodoo' is not one of K80"),
        ({"min_nodes": 9}, "9 nodes at least, 8 at most"),
    ],
)
def test_an_impossible_pool_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_pool(**changes)


def test_a_node_s_resources_may_lack_the_gpus_for_now() -> None:
    pool = Pool(
        name="big",
        market=Market.ON_DEMAND,
        usd_per_node_hour=Decimal(30),
        gpu="A100",
        gpus_per_node=8,
    )
    assert pool.capacity()[GPU_RESOURCE] == "8"
    assert pool.capacity(gpus=0)[GPU_RESOURCE] == "0"
