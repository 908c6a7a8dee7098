"""
How much of the time to come a pool gives nodes, as what is remembered of it tells.

Spells in which nodes could be had and spells in which none could take turns, each as likely to end
at any moment. A plan is made for nodes that can be had now, so what is likely at first is that
they can be had: over a time much longer than spells are it is the share of the long run.
"""

import math
from dataclasses import dataclass
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

    The means are those of a constant rate with imagined spells beside the seen ones. `time_scale`
    is how many seconds one counts for: where days pass in minutes, those shrink as well.
    """
    ends = [*(later.since for later in past.spells[1:]), now]
    lasted_h = {True: 0.0, False: 0.0}
    for spell, end in zip(past.spells, ends, strict=False):
        lasted_h[spell.available] += max((end - spell.since) / HOUR, 0.0)
    num_droughts = sum(not spell.available for spell in past.spells)
    if not num_droughts:
        return ALWAYS
    num_over = sum(not spell.available for spell in past.spells[:-1])
    return Supply(
        up_h=(lasted_h[True] + IMAGINED_UP_H / time_scale) / num_droughts,
        down_h=(lasted_h[False] + IMAGINED_DOWN_H / time_scale) / (num_over + 1),
    )
