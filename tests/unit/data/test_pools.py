"""Pools from the price list."""

from ebbtide.core.values.pool import Market
from ebbtide.data.defaults import embedded_catalogue
from ebbtide.data.pools import REGION, pools_of


def test_each_gpu_type_of_a_region_has_a_pool_of_each_market() -> None:
    pools = pools_of(embedded_catalogue(), gpus_per_worker=1)

    names = {pool.name: pool for pool in pools}
    assert len(names) == len(pools)
    assert {"v100-spot", "v100-ondemand", "t4-spot", "t4-ondemand"} <= names.keys()
    assert all(pool.region == REGION and pool.usd_per_node_hour > 0 for pool in pools)
    for pool in pools:
        if pool.market is Market.SPOT and pool.name.replace("spot", "ondemand") in names:
            dear = names[pool.name.replace("spot", "ondemand")]
            assert dear.gpus_per_node == pool.gpus_per_node
            assert dear.gpu_type == pool.gpu_type


def test_nodes_are_large_enough_for_a_worker() -> None:
    pools = pools_of(embedded_catalogue(), gpus_per_worker=8)

    assert pools
    assert all(pool.workers_per_node(8) >= 1 for pool in pools)


def test_a_region_without_prices_has_no_pools() -> None:
    assert pools_of(embedded_catalogue(), gpus_per_worker=1, region="nowhere") == ()
