"""The bill: each node from Ready to power-off, times the price of its pool. Wall-clock seconds."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

CENT: Final = Decimal("0.01")
MICROSECONDS_PER_HOUR: Final = Decimal(3_600_000_000)
MICROSECOND: Final = dt.timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One boot of one node."""

    node: str
    pool: str
    usd_per_node_hour: Decimal
    ready: dt.datetime
    off: dt.datetime | None = None

    def usd(self, at: dt.datetime) -> Decimal:
        """Return what it has cost until a moment, exactly."""
        end = at if self.off is None else min(self.off, at)
        if end <= self.ready:
            return Decimal(0)
        duration = Decimal((end - self.ready) // MICROSECOND)
        return duration / MICROSECONDS_PER_HOUR * self.usd_per_node_hour


class Bill:
    """Collects items; rounds to cents only what it hands out."""

    def __init__(self) -> None:
        """Start at nothing."""
        self.items: list[Item] = []

    def start(self, item: Item) -> None:
        """Begin to charge for a node that has become Ready."""
        self.items.append(item)

    def stop(self, node: str, at: dt.datetime) -> None:
        """Charge no further for a node; it is fine if nothing was being charged."""
        self.items = [
            replace(item, off=at) if item.node == node and item.off is None else item
            for item in self.items
        ]

    def total(self, at: dt.datetime) -> Decimal:
        """Return the sum until a moment, in USD to the cent."""
        return _to_cents(sum((item.usd(at) for item in self.items), Decimal(0)))

    def by_pool(self, at: dt.datetime) -> dict[str, Decimal]:
        """Return the sum of each pool, in USD to the cent."""
        sums: defaultdict[str, Decimal] = defaultdict(Decimal)
        for item in self.items:
            sums[item.pool] += item.usd(at)
        return {pool: _to_cents(amount) for pool, amount in sorted(sums.items())}


def _to_cents(amount: Decimal) -> Decimal:
    return amount.quantize(CENT, rounding=ROUND_HALF_UP)
