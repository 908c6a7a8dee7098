"""
Prices of spot as they change over time: what holds now, and what a stretch of time costs.

A price holds from its second to the next one's, also inside ticks, and is paid by the second.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np

from ebbtide.core.models.table import Column, DataError, Floats, Table
from ebbtide.core.planner.policies.history import HOUR_S, History

SECONDS: Final = Column(name="seconds", unit="s", open_below=False)
ZONE: Final = Column(name="zone", unit="text")
PRICE: Final = Column(name="price", unit="USD/h", most=1e6)
"""Of one node. A price of 0 is a hole in a list, not a gift."""


@dataclass(frozen=True)
class Series:
    """The price of one zone; the first holds before its time too, the last for ever."""

    times_s: tuple[float, ...]
    """Rising, since the first row of the history."""
    usd_per_s: tuple[float, ...]

    @classmethod
    def steady(cls, usd_per_s: float) -> "Series":
        """Return a price that never changes."""
        return cls((0.0,), (usd_per_s,))

    @cached_property
    def _paid(self) -> tuple[float, ...]:
        """USD from the first time to each."""
        steps = np.diff(self.times_s) * np.array(self.usd_per_s[:-1])
        return tuple(np.concatenate([[0.0], np.cumsum(steps)]).tolist())

    def now(self, at_s: float) -> float:
        """Return what holds, USD/s."""
        return self.usd_per_s[self._number(at_s)]

    def usd(self, from_s: float, for_s: float) -> float:
        """Return what a stretch of time costs."""
        return self._until(from_s + for_s) - self._until(from_s)

    def usd_each(self, from_s: float, for_s: Floats) -> Floats:
        """Return what stretches of several lengths cost."""
        if len(self.times_s) == 1:
            return self.usd_per_s[0] * for_s
        return np.array([self.usd(from_s, length) for length in for_s.tolist()], dtype=np.float64)

    def times(self, factor: float) -> "Series":
        """Return the price of several nodes together."""
        return Series(self.times_s, tuple(factor * price for price in self.usd_per_s))

    def _number(self, at_s: float) -> int:
        return max(bisect_right(self.times_s, at_s) - 1, 0)

    def _until(self, at_s: float) -> float:
        number = self._number(at_s)
        return self._paid[number] + (at_s - self.times_s[number]) * self.usd_per_s[number]


Prices: TypeAlias = Sequence[Series]
"""One for each zone, in the order of the history."""


def by_row(prices: Prices, *, rows: int, tick_s: float) -> list[tuple[float, ...]]:
    """Return what holds in each zone at the beginning of each tick."""
    return [tuple(zone.now(row * tick_s) for zone in prices) for row in range(rows)]


def read_prices(table: Table, history: History, *, default: float | None) -> tuple[Series, ...]:
    """
    Read prices of the zones of a history: `seconds` on its clock, `zone`, `price` in USD/h.

    Args:
        table: rows in order of time, zone by zone or mixed.
        history: names the zones and gives the clock.
        default: USD/s where the table says nothing of a zone, or not yet; None to refuse that.

    Raises:
        DataError: with row, column, value and what would be right.

    """
    listed = list_prices(table, history.zones, start_s=history.start_s)
    found = {
        zone: [(at_s, usd_per_h / HOUR_S) for at_s, usd_per_h in known]
        for zone, known in listed.items()
    }
    return tuple(_series(zone, found[zone], history, default) for zone in history.zones)


def list_prices(
    table: Table, zones: Sequence[str], *, start_s: float
) -> dict[str, list[tuple[float, float]]]:
    """Return by zone the seconds since the start and the USD/h from then on; raises DataError."""
    seconds, named, prices = table.numbers(SECONDS), table.texts(ZONE), table.numbers(PRICE)
    found: dict[str, list[tuple[float, float]]] = {zone: [] for zone in zones}
    for row, at_s, zone, price in zip(
        table.rows, (seconds - start_s).tolist(), named, prices.tolist(), strict=True
    ):
        if zone not in found:
            names = ", ".join(zones)
            raise DataError(f"column zone, row {row}: {zone!r} is no zone of the trace: {names}")
        known = found[zone]
        if known and at_s <= known[-1][0]:
            raise DataError(
                f"column seconds, row {row}: {at_s + start_s:.10g} is not after the price"
                f" before of zone {zone}, at {known[-1][0] + start_s:.10g}; times that rise"
                " are needed"
            )
        known.append((at_s, price))
    return found


def _series(
    zone: str, known: list[tuple[float, float]], history: History, default: float | None
) -> Series:
    if known and known[0][0] <= 0:
        return Series(*_columns(known))
    if default is None:
        first = f"its first price is at {known[0][0] + history.start_s:.10g}" if known else "none"
        raise DataError(
            f"column zone: {zone!r} has no price at {history.start_s:.10g}, where the trace begins"
            f" ({first}): a row for it is needed, or --spot-price for what the file does not say"
        )
    return Series(*_columns([(min(0.0, known[0][0]) if known else 0.0, default), *known]))


def _columns(known: list[tuple[float, float]]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    times, prices = zip(*known, strict=True)
    return times, prices
