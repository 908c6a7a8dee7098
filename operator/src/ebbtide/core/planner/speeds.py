"""How fast workers are, from the best that is known: profile, models, measurements, a prior."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """How fast a job was seen to train."""

    workers: Mapping[str, int]  # by GPU type
    steps_per_second: float
    servers: int = 0
