"""
What the provider charges: each node from Ready to power-off, at the price of the moment.

Kept apart from `core.lifecycle.cost`, which counts what the operator sees: a law holds the two
against each other. A node without a pod is charged too, and told apart.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Final

from ebbtide.core.values.pool import Market

CENT: Final = Decimal("0.01")
MICROSECOND: Final = timedelta(microseconds=1)
MICROSECONDS_PER_HOUR: Final = 3_600_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One node over a span in which neither its price nor its use changed."""

    node: str
    pool: str
    market: Market
    usd_per_hour: Decimal
    is_idle: bool  # no pod of the job was on it
    since: datetime
    until: datetime

    @property
    def hours(self) -> Decimal:
        """How long, exactly."""
        return Decimal((self.until - self.since) // MICROSECOND) / MICROSECONDS_PER_HOUR

    @property
    def usd(self) -> Decimal:
        """How much, not rounded."""
        return self.hours * self.usd_per_hour


@dataclass(frozen=True, slots=True)
class Bill:
    """All items up to a moment."""

    items: tuple[Item, ...]

    @property
    def usd(self) -> Decimal:
        """The sum, to the cent."""
        return _sum(item.usd for item in self.items).quantize(CENT, ROUND_HALF_EVEN)

    @property
    def idle_usd(self) -> Decimal:
        """The part of it for nodes without a pod, to the cent."""
        idle = (item.usd for item in self.items if item.is_idle)
        return _sum(idle).quantize(CENT, ROUND_HALF_EVEN)

    def hours(self, market: Market) -> float:
        """Return the node hours of one market."""
        return float(_sum(item.hours for item in self.items if item.market is market))


class Meter:
    """Writes items as nodes come, go, and change."""

    def __init__(self) -> None:
        self._closed: list[Item] = []
        self._open: dict[str, Item] = {}

    def begin(self, item: Item) -> None:
        """Charge for a node from `item.since` on."""
        self._open[item.node] = item

    def use(self, node: str, now: datetime, *, is_idle: bool) -> None:
        """Tell that a node is used, or is not, from now on."""
        item = self._open.get(node)
        if item is not None and item.is_idle != is_idle:
            self._turn(item, now, replace(item, is_idle=is_idle))

    def reprice(self, pool: str, usd_per_hour: Decimal, now: datetime) -> None:
        """Change the price of every node of a pool."""
        for item in list(self._open.values()):
            if item.pool == pool and item.usd_per_hour != usd_per_hour:
                self._turn(item, now, replace(item, usd_per_hour=usd_per_hour))

    def end(self, node: str, now: datetime) -> None:
        """Charge no further for a node."""
        item = self._open.pop(node, None)
        if item is not None:
            self._close(item, now)

    def bill(self, now: datetime) -> Bill:
        """Return the bill as it stands."""
        running = (replace(item, until=max(now, item.since)) for item in self._open.values())
        return Bill((*self._closed, *running))

    def _turn(self, old: Item, now: datetime, new: Item) -> None:
        self._close(old, now)
        self._open[new.node] = replace(new, since=now, until=now)

    def _close(self, item: Item, now: datetime) -> None:
        if now > item.since:
            self._closed.append(replace(item, until=now))


def _sum(amounts: Iterable[Decimal]) -> Decimal:
    return sum(amounts, Decimal(0))
