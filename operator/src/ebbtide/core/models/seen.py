"""What a regression saw, which bounds what it may answer: lines turn negative, kernels flatten."""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from ebbtide.core.models.forecast import Forecast, Json, Spread
from ebbtide.core.models.table import Flags, Floats

FLOOR: Final = 0.1
"""No answer is below this share of the least time measured."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seen:
    """Ranges of samples, and how far measurements lay from answers."""

    least: Floats
    most: Floats
    """Range of each feature."""
    floor_s: float
    spread: Spread

    @classmethod
    def of(cls, features: Floats, seconds: Floats, *, spread: Spread) -> Self:
        """Describe samples; features are of shape (rows, features)."""
        return cls(
            least=features.min(axis=0),
            most=features.max(axis=0),
            floor_s=FLOOR * float(seconds.min()),
            spread=spread,
        )

    def scale(self, features: Floats) -> Floats:
        """Return features where 0 is the least that was seen and 1 the most."""
        width = np.where(self.most > self.least, self.most - self.least, 1.0)
        found: Floats = (features - self.least) / width
        return found

    def bound(self, features: Floats, seconds: Floats) -> Forecast:
        """Put intervals around answers; mark those outside of what was seen, or too small."""
        outside = np.any((features < self.least) | (features > self.most), axis=1)
        beyond: Flags = np.logical_or(outside, seconds < self.floor_s)
        return self.spread.around(np.maximum(seconds, self.floor_s), beyond=beyond)

    def to_json(self) -> Json:
        """Return plain JSON."""
        return {
            "least": self.least.tolist(),
            "most": self.most.tolist(),
            "floor_s": self.floor_s,
            "spread": self.spread.to_json(),
        }

    @classmethod
    def from_json(cls, stored: Json) -> Self:
        """Read what `to_json` wrote."""
        return cls(
            least=np.array(stored["least"], dtype=np.float64),
            most=np.array(stored["most"], dtype=np.float64),
            floor_s=float(stored["floor_s"]),
            spread=Spread.from_json(stored["spread"]),
        )
