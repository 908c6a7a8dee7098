"""
How much of the time to come a pool gives nodes, as what is remembered of it tells.

Spells in which nodes could be had and spells in which none could take turns, each as likely to end
at any moment. A plan is made for nodes that can be had now, so what is likely at first is that
they can be had: over a time much longer than spells are it is the share of the long run.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from ebbtide.core.values.past import Past

HOUR: Final = timedelta(hours=1)
IMAGINED_UP_H: Final = 24.0
"""Hours without a drought beside those that were seen: one drought soon after the first node is no
law."""
IMAGINED_DOWN_H: Final = 2.0
"""Of one drought beside those that were seen, which is how long one is taken to last at first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Supply:
    """How long spells last in the mean, hours."""

    up_h: float = math.inf
    down_h: float = 0.0

    @property
    def long_run(self) -> float:
        """The share of the time in which nodes can be had."""
        return 1.0 if math.isinf(self.up_h) else self.up_h / (self.up_h + self.down_h)

    def share(self, hours: float) -> float:
        """Return the share of so many hours, if nodes can be had when they begin."""
        rest = 1 - self.long_run
        if rest <= 0 or hours <= 0:
            return 1.0
        ages = hours * (1 / self.up_h + 1 / self.down_h)
        return 1 - rest * (1 + math.expm1(-ages) / ages)


ALWAYS: Final = Supply()


def supply_of(past: Past, now: datetime, *, time_scale: float = 1.0) -> Supply:
    """
    Return what the spells of a pool tell.

    The means are those of a constant rate with imagined spells beside the seen ones. Where nodes
    were held while no other could be had, there were some. `time_scale` is how many seconds one
    counts for: where days pass in minutes, what is imagined shrinks as well.
    """
    droughts = [(begin, end, _empty(past, begin, end, now)) for begin, end in _droughts(past, now)]
    dry = [empty for _, _, empty in droughts if empty > timedelta(0)]
    if not dry:
        return ALWAYS
    num_over = sum(end < now for _, end, empty in droughts if empty > timedelta(0))
    dry_h = sum(dry, timedelta(0)) / HOUR
    up_h = (now - past.spells[0].since) / HOUR - dry_h
    return Supply(
        up_h=(up_h + IMAGINED_UP_H / time_scale) / len(dry),
        down_h=(dry_h + IMAGINED_DOWN_H / time_scale) / (num_over + 1),
    )


def supplies_of(
    pasts: Mapping[str, Past], now: datetime, *, move: timedelta, time_scale: float = 1.0
) -> dict[str, Supply]:
    """
    Return the supply of each of some pools that stand in for one another.

    `move` is how long it takes until a worker whose pool is dry trains in another one: with another
    one there, a drought costs no more.
    """
    found = {name: supply_of(past, now, time_scale=time_scale) for name, past in pasts.items()}
    if len(found) == 1:
        return found
    return {name: replace(own, down_h=min(own.down_h, move / HOUR)) for name, own in found.items()}


def _droughts(past: Past, now: datetime) -> list[tuple[datetime, datetime]]:
    ends = [*(later.since for later in past.spells[1:]), now]
    pairs = zip(past.spells, ends, strict=False)
    return [(spell.since, end) for spell, end in pairs if not spell.available]


def _empty(past: Past, begin: datetime, end: datetime, now: datetime) -> timedelta:
    """Return for how long of a drought there was no node at all: some may have been held."""
    lives = [(life.since, life.ended) for life in past.lives]
    lives += [(node.since, node.idle_since or now) for node in past.followed]
    left, at = end - begin, begin
    for since, until in sorted(lives):
        sooner, later = max(since, at), min(until, end)
        if later > sooner:
            left -= later - sooner
            at = later
    return left
