"""What a node costs by the embedded price list, for pools that name one instead of a price."""

from collections.abc import Iterable
from decimal import Decimal
from functools import cache
from typing import Final

from ebbtide.core.values.errors import UnknownPriceError
from ebbtide.core.values.pool import Listing
from ebbtide.data.catalogue import Catalogue
from ebbtide.data.defaults import embedded_catalogue
from ebbtide.data.offers import Offer

MOST_NAMED: Final = 8
"""What a message lists at most."""


def embedded_price(listing: Listing, /) -> Decimal:
    """Return the price of a node in the list that ships with the package."""
    return look_up(_embedded(), listing)


def look_up(catalogue: Catalogue, listing: Listing) -> Decimal:
    """
    Return the USD of one node for one hour, of the listing's market alone.

    Without a region the dearest one counts. Raises UnknownPriceError, which names the first thing
    that is not in the list and what is.
    """
    offers = _narrow(catalogue.offers, "provider", listing.provider, of="the price list")
    offers = _narrow(offers, "instance_type", listing.instance_type, of=listing.provider)
    node = f"{listing.provider} {listing.instance_type}"
    if listing.region:
        offers = _narrow(offers, "region", listing.region, of=node)
    fitting = [o for o in offers if (o.gpu, o.gpus) == (listing.gpu_type, listing.gpus)]
    if not fitting:
        has = _named(f"{offer.gpus} x {offer.gpu}" for offer in offers)
        raise UnknownPriceError(
            f"{node} has {has} in the price list, spec.gpu says"
            f" {listing.gpus} x {listing.gpu_type or 'none'}: they must be the same"
        )
    prices = [offer.usd_per_hour(listing.market.value) for offer in fitting]
    known = [usd for usd in prices if usd is not None]
    if not known:
        raise UnknownPriceError(
            f"the price list of {catalogue.date} has no price of {node} on the market"
            f" {listing.market}: give usdPerNodeHour"
        )
    return Decimal(str(max(known)))


def _narrow(offers: Iterable[Offer], name: str, wanted: str, *, of: str) -> list[Offer]:
    """Return the offers with one value, or say which values there are."""
    offers = list(offers)
    found = [offer for offer in offers if getattr(offer, name) == wanted]
    if not found:
        known = _named(getattr(offer, name) for offer in offers)
        what = name.replace("_", " ")
        raise UnknownPriceError(
            f"{of} has no {what} {wanted!r}; known are: {known}. Correct it or give usdPerNodeHour"
        )
    return found


def _named(values: Iterable[str]) -> str:
    names = sorted(set(values))
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


@cache
def _embedded() -> Catalogue:
    return embedded_catalogue()
