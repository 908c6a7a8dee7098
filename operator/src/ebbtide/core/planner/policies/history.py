"""What is known of zones: whether each had a node, tick by tick."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ebbtide.core.models.table import Flags, Floats

HOUR_S = 3600.0
HOURS_OF_DAY = 24


@dataclass(frozen=True, kw_only=True)
class History:
    """
    Availability of zones on a grid of ticks.

    A policy that runs at row r must read rows up to r alone; everything here is by row, so that a
    test can change what comes later.
    """

    zones: tuple[str, ...]
    up: Flags
    """[rows, zones]"""
    tick_s: float
    start_s: float = 0.0
    """Time of the first row since some midnight, UTC."""

    def __post_init__(self) -> None:
        if self.up.ndim != 2 or self.up.shape[1] != len(self.zones):  # noqa: PLR2004 -- rows, zones
            raise ValueError(f"up: [rows, {len(self.zones)}] is needed, not {self.up.shape}")
        if not self.zones or not len(self.up):
            raise ValueError("a history needs at least one zone and one row")
        if not 0 < self.tick_s < float("inf"):
            raise ValueError(f"tick_s {self.tick_s}: a number above 0 is needed")

    def __len__(self) -> int:
        return len(self.up)

    def take(self, zones: Sequence[int]) -> "History":
        """Return some of the zones, in the order given."""
        return History(
            zones=tuple(self.zones[zone] for zone in zones),
            up=self.up[:, list(zones)],
            tick_s=self.tick_s,
            start_s=self.start_s,
        )

    @cached_property
    def ages_s(self) -> Floats:
        """Time since the last change of each zone, [rows, zones]; 0 in the row of the change."""
        rows = np.arange(len(self.up))[:, np.newaxis]
        changed = np.ones_like(self.up)
        changed[1:] = self.up[1:] != self.up[:-1]
        last = np.maximum.accumulate(np.where(changed, rows, 0), axis=0)
        ages: Floats = (rows - last).astype(np.float64) * self.tick_s
        return ages
