"""Pools that a price list offers in one region: what is planned with where none are given."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from ebbtide.core.values.pool import Market, Pool
from ebbtide.data.catalogue import Catalogue
from ebbtide.data.offers import Offer

PROVIDER: Final = "aws"
REGION: Final = "us-east-1"
"""Of this region the list prices most types of nodes on both markets."""
MOST_NODES: Final = 16
"""Of each pool; quotas of providers begin lower."""


def pools_of(
    catalogue: Catalogue,
    *,
    gpus_per_worker: int,
    provider: str = PROVIDER,
    region: str = REGION,
    most_nodes: int = MOST_NODES,
) -> tuple[Pool, ...]:
    """
    Return a spot and an on-demand pool of each GPU type that a region prices.

    Of the types of nodes with a GPU type that carry a worker, the cheapest per GPU on demand is
    taken; of equal ones the smallest.
    """
    offers = [
        offer
        for offer in catalogue.offers
        if (offer.provider, offer.region) == (provider, region)
        and offer.gpus >= max(gpus_per_worker, 1)
    ]
    pools = []
    for gpu in sorted({offer.gpu for offer in offers}):
        best = min((offer for offer in offers if offer.gpu == gpu), key=_rank)
        pools += list(_markets(best, most_nodes))
    return tuple(pools)


def _rank(offer: Offer) -> tuple[float, int, str]:
    return offer.on_demand_usd / offer.gpus, offer.gpus, offer.instance_type


def _markets(offer: Offer, most_nodes: int) -> Iterable[Pool]:
    prices = ((Market.SPOT, offer.spot_usd), (Market.ON_DEMAND, offer.on_demand_usd))
    for market, usd in prices:
        if usd is None:
            continue
        kind = "spot" if market is Market.SPOT else "ondemand"
        yield Pool(
            name=f"{offer.gpu.lower()}-{kind}",
            market=market,
            region=offer.region,
            max_nodes=most_nodes,
            gpu_type=offer.gpu,
            gpus_per_node=offer.gpus,
            usd_per_node_hour=Decimal(str(usd)),
        )
