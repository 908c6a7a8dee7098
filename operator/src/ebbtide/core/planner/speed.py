"""How fast workers of each GPU type are, alone and together."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Samples per second of one worker that trains alone, with the interval of nine of ten."""

    value: float
    low: float
    high: float
    source: str  # where it comes from, in words: a profile, measured, a model, the embedded prior


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """
    The speed of every fleet that a plan may choose.

    A fleet makes sum(pace of each worker) * efficiency[workers - 1] samples per second, and with
    parameter servers no more than servers * server_samples_per_s.
    """

    paces: Mapping[str, Pace]  # by GPU type; a type that is missing cannot be planned with
    efficiency: tuple[float, ...] = ()  # of 1, 2, ... workers; beyond the last: the last
    server_samples_per_s: float | None = None
    notes: tuple[str, ...] = field(default=())  # what was assumed, and how sure that is

    def efficiency_of(self, workers: int) -> float:
        """Return the share of the summed pace that so many workers keep."""
        if not self.efficiency or workers < 1:
            return 1.0
        return self.efficiency[min(workers, len(self.efficiency)) - 1]
