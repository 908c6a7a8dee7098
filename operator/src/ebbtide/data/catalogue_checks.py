"""Which rows of a price list can be believed: each by itself, then beside its neighbours."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from statistics import median
from typing import Any, Final

from ebbtide.data.offers import CURRENCY, INTERRUPTIONS, Offer, Refused

MOST_USD: Final = 10_000.0
"""No node costs more in an hour; what does was written in another currency or unit."""
MOST_GPUS: Final = 72
"""As many as the largest machines that are rented as one."""

CHEAP: Final = 6.0
DEAR: Final = 16.0
"""
How far the price of one GPU may lie from the median of its type. Real lists reach 5.5 below and,
where one GPU sits in a large host, 8 above; a price in cents is 100 off.
"""
NEIGHBOURS: Final = 3
"""So many offers of a type, itself included, give a median that one wrong price cannot move."""
REGIONS: Final = 2.5
"""How far the price of one type of node may lie from its median over regions; lists reach 1.6."""
LARGER: Final = 4
LARGER_COSTS: Final = 1.3
"""A node of so many times the GPUs costs more than this times as much; lists go down to 1.65."""
SPOT_LEAST: Final = 0.02
"""No provider gives 98 % off; the deepest that the lists know is 90 %."""

ALLOWED: Final = frozenset(field.name for field in fields(Offer)) | {"currency"}


class _NoOfferError(ValueError):
    """Why a row is no offer."""


def believe(
    rows: Sequence[object],
) -> tuple[tuple[Offer, ...], tuple[Refused, ...], tuple[str, ...]]:
    """Sort rows into offers and refused ones, and note what is strange about those kept."""
    read: dict[int, Offer] = {}
    refused: list[Refused] = []
    for row, written in enumerate(rows, start=1):
        try:
            read[row] = _read(written)
        except _NoOfferError as error:
            refused.append(Refused(row=row, name=_name_of(written), reason=str(error)))
    for check in (_contradictions, _outliers, _odd_regions, _prices_of_one_gpu):
        doubts = check(read)
        refused += [
            Refused(row=row, name=read[row].name, reason=reason) for row, reason in doubts.items()
        ]
        read = {row: offer for row, offer in read.items() if row not in doubts}
    offers = tuple(dict.fromkeys(read.values()))
    return offers, tuple(sorted(refused, key=lambda entry: entry.row)), _notes(read)


# ---------------------------------------------------------------- a row by itself


def _read(written: object) -> Offer:
    if not isinstance(written, Mapping):
        raise _NoOfferError("it is no object")
    unknown = sorted(set(written) - ALLOWED)
    if unknown:
        raise _NoOfferError(f"unknown field {', '.join(unknown)}")
    if written.get("currency", CURRENCY) != CURRENCY:
        raise _NoOfferError(f"currency {written['currency']!r}; {CURRENCY} is wanted")
    on_demand = _price(written, "on_demand_usd")
    spot = _price(written, "spot_usd") if written.get("spot_usd") is not None else None
    if spot is not None and spot < SPOT_LEAST * on_demand:
        raise _NoOfferError(
            f"spot_usd {spot:g} is under {SPOT_LEAST:.0%} of {on_demand:g} on demand"
        )
    return Offer(
        provider=_text(written, "provider"),
        instance_type=_text(written, "instance_type"),
        region=str(written.get("region") or ""),
        gpu=_text(written, "gpu"),
        gpus=_count(written),
        on_demand_usd=on_demand,
        spot_usd=spot,
        nic_gbps=_number(written, "nic_gbps") if written.get("nic_gbps") is not None else None,
        interruption=_interruption(written.get("interruption")),
        date=str(written.get("date") or ""),
        source=str(written.get("source") or ""),
    )


def _text(written: Mapping[str, Any], name: str) -> str:
    value = written.get(name)
    if not isinstance(value, str) or not value.strip():
        hint = ": a host without its GPU" if name == "gpu" else ""
        raise _NoOfferError(f"{name} is {value!r}, a name is wanted{hint}")
    return value.strip()


def _count(written: Mapping[str, Any]) -> int:
    value = written.get("gpus")
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_GPUS:
        raise _NoOfferError(f"gpus is {value!r}, a whole number from 1 to {MOST_GPUS} is wanted")
    return value


def _number(written: Mapping[str, Any], name: str) -> float:
    value = written.get(name)
    try:
        number = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]  # what is no number is answered below
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise _NoOfferError(f"{name} is {value!r}, a number above 0 is wanted")
    return number


def _price(written: Mapping[str, Any], name: str) -> float:
    number = _number(written, name)
    if number > MOST_USD:
        raise _NoOfferError(
            f"{name} is {number:g}, at most {MOST_USD:g} {CURRENCY} per hour is wanted"
        )
    return number


def _interruption(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value not in range(5):
        raise _NoOfferError(
            f"interruption is {value!r}, a class from 0 to {len(INTERRUPTIONS) - 1}"
        )
    return value


def _name_of(written: object) -> str:
    if not isinstance(written, Mapping):
        return repr(written)[:40]
    parts = (written.get(name) for name in ("provider", "instance_type", "region"))
    return " ".join(str(part) for part in parts if part) or "nameless"


# ---------------------------------------------------------------- rows beside each other


def _contradictions(read: Mapping[int, Offer]) -> dict[int, str]:
    """Find rows that say two things of one node: neither is believed."""
    prices: dict[object, set[object]] = {}
    for offer in read.values():
        prices.setdefault(offer.key, set()).add((offer.on_demand_usd, offer.spot_usd))
    return {
        row: "it stands in the list again with another price"
        for row, offer in read.items()
        if len(prices[offer.key]) > 1
    }


def _outliers(read: Mapping[int, Offer]) -> dict[int, str]:
    """Find prices of one GPU that are far from those of its type."""
    by_type: dict[str, list[float]] = {}
    for offer in read.values():
        by_type.setdefault(offer.gpu, []).append(offer.on_demand_usd / offer.gpus)
    middle = {gpu: median(prices) for gpu, prices in by_type.items()}
    doubts: dict[int, str] = {}
    for row, offer in read.items():
        price, usual = offer.on_demand_usd / offer.gpus, middle[offer.gpu]
        if len(by_type[offer.gpu]) < NEIGHBOURS or usual / CHEAP < price < usual * DEAR:
            continue
        doubts[row] = (
            f"{price:.4g} {CURRENCY} for one {offer.gpu} and hour, where {usual:.4g} is usual:"
            " cents, another currency, the host alone, or the price of one GPU for all?"
        )
    return doubts


def _odd_regions(read: Mapping[int, Offer]) -> dict[int, str]:
    """Find prices that are far from those of the same type of node in other regions."""
    by_type: dict[tuple[str, str, str], list[float]] = {}
    for offer in read.values():
        kind = (offer.provider, offer.instance_type, offer.gpu)
        by_type.setdefault(kind, []).append(offer.on_demand_usd)
    doubts: dict[int, str] = {}
    for row, offer in read.items():
        prices = by_type[offer.provider, offer.instance_type, offer.gpu]
        usual = median(prices)
        if len(prices) < NEIGHBOURS or usual / REGIONS < offer.on_demand_usd < usual * REGIONS:
            continue
        doubts[row] = (
            f"{offer.on_demand_usd:g} {CURRENCY} an hour, where {usual:g} is usual in other"
            " regions: the host without its GPUs?"
        )
    return doubts


def _prices_of_one_gpu(read: Mapping[int, Offer]) -> dict[int, str]:
    """Find nodes that cost like nodes of fewer GPUs, of the same provider and region."""
    cheapest: dict[tuple[str, str, str], dict[int, float]] = {}
    for offer in read.values():
        sizes = cheapest.setdefault((offer.provider, offer.region, offer.gpu), {})
        sizes[offer.gpus] = min(offer.on_demand_usd, sizes.get(offer.gpus, math.inf))
    doubts: dict[int, str] = {}
    for row, offer in read.items():
        sizes = cheapest[offer.provider, offer.region, offer.gpu]
        least = [
            price * (LARGER_COSTS if offer.gpus >= LARGER * gpus else 1.0)
            for gpus, price in sizes.items()
            if gpus < offer.gpus
        ]
        if offer.on_demand_usd <= max(least, default=0.0):
            doubts[row] = (
                f"{offer.gpus} GPUs for {offer.on_demand_usd:g} {CURRENCY} an hour, which is what"
                " fewer of them cost: the price of one GPU for the whole node?"
            )
    return doubts


def _notes(read: Mapping[int, Offer]) -> tuple[str, ...]:
    strange = [
        f"offer {row} ({offer.name}): spot {offer.spot_usd:g} is not below {offer.on_demand_usd:g}"
        " on demand, where it is then bought"
        for row, offer in read.items()
        if offer.spot_usd is not None and offer.market == "OnDemand"
    ]
    return (*strange, *_repeated(read.values()))


def _repeated(offers: Iterable[Offer]) -> list[str]:
    counts = Counter(offer.key for offer in offers)
    extra = sum(count - 1 for count in counts.values())
    return [f"{extra} offers repeat another and count once"] if extra else []
