"""Knowledge for the planner that a test can state in a line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from ebbtide.core.models.survival import Survival
from ebbtide.core.planner.inputs import Overheads
from ebbtide.core.planner.knowledge import Workload
from ebbtide.core.planner.speed import Pace, Speed
from ebbtide.core.values.past import Past
from ebbtide.core.values.pool import Market, Pool


@dataclass(frozen=True, kw_only=True)
class Known:
    """Each worker makes so many samples a second; spot nodes live so many hours on average."""

    samples_per_s: Mapping[str, float] = field(default_factory=lambda: {"V100": 64.0})
    life_h: float = 6.0
    efficiency: tuple[float, ...] = (1.0, 0.97, 0.94, 0.91)
    start_s: float = 60.0
    server_samples_per_s: float | None = None

    def speed(self, workload: Workload, pools: Sequence[Pool]) -> Speed:
        """Return the paces, measured or not."""
        paces = {
            gpu: Pace(value=value, low=0.9 * value, high=1.1 * value, source="a test")
            for gpu, value in self.samples_per_s.items()
        }
        return Speed(
            paces=paces,
            efficiency=self.efficiency,
            server_samples_per_s=self.server_samples_per_s if workload.job.uses_servers else None,
        )

    def life(self, pool: Pool, now: datetime, past: Past) -> Survival | None:
        """Return a constant hazard for spot nodes."""
        if pool.market is Market.ON_DEMAND:
            return None
        rate = 1 / (self.life_h * 3600)
        return Survival.of(lambda age: np.exp(-rate * age), unit_s=60.0, until_s=48 * 3600.0)

    def overheads(self, workload: Workload) -> Overheads:
        """Return what things take."""
        return Overheads(start_s=self.start_s, save_s=1.0, restore_s=5.0, reform_s=1.0)
