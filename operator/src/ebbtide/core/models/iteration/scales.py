"""
Scales of the process: how far a measurement speaks for others, and how much it repeats.

No value is set here: a fit chooses them from its samples (`choosing`). What stands here is where
it starts and to what few samples are pulled: round values, the same for all lengths, all effects
and all noise.
"""

from dataclasses import asdict, astuple, dataclass, fields
from typing import Final, Self

import numpy as np

from ebbtide.core.models.forecast import Json
from ebbtide.core.models.table import Floats

LENGTH: Final = 1.0
"""A factor of e in GPUs, in nodes or in batch makes two steps hardly alike."""
EFFECT: Final = 0.2
"""A placement moves a step by a fifth."""
NOISE: Final = 0.05
"""Steps repeat within 5 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scales:
    """The same for all workloads of a fit. Standard deviations are of logarithms."""

    gpus: float = LENGTH
    """Length, in the logarithm of GPUs ..."""
    nodes: float = LENGTH
    """... of nodes ..."""
    uneven: float = LENGTH
    """... of GPUs on the fullest and on the emptiest node ..."""
    batch: float = LENGTH
    """... and of the local batch."""
    place_sync: float = EFFECT
    """Effect of a placement on communication, whatever the batch ..."""
    place_all: float = EFFECT
    """... on the whole step ..."""
    place_batch: float = EFFECT
    """... and on the whole step of one batch and those near it."""
    jump: float = NOISE
    """The same of one batch alone: libraries change kernels from one batch to the next."""
    noise_sync: float = NOISE
    """Noise of one measurement, in what it communicates ..."""
    noise_all: float = NOISE
    """... and in all of it."""
    run_sync: float = NOISE
    """What all measurements of one placement are off by together: in what they communicate ..."""
    run_all: float = NOISE
    """... and in all of it."""

    def __post_init__(self) -> None:
        for field, value in zip(fields(self), astuple(self), strict=True):
            if not 0 < value < float("inf"):
                raise ValueError(f"scale {field.name}: {value!r} is not finite and above 0")

    def deviation(self, share: Floats) -> Floats:
        """Return the standard deviation of the logarithm of one measurement."""
        sync = self.noise_sync**2 + self.run_sync**2
        found: Floats = np.sqrt(sync * share**2 + self.noise_all**2 + self.run_all**2)
        return found

    def logs(self) -> Floats:
        """Return logarithms, in the order of the fields."""
        return np.log(astuple(self))

    @classmethod
    def of_logs(cls, logs: Floats) -> Self:
        """Return scales from logarithms in the order of the fields."""
        names = [field.name for field in fields(cls)]
        return cls(**dict(zip(names, np.exp(logs).tolist(), strict=True)))

    def rounded(self, digits: int) -> Self:
        """Return scales of so many significant digits."""
        return type(self)(
            **{name: float(f"{value:.{digits}g}") for name, value in asdict(self).items()}
        )

    def to_json(self) -> Json:
        """Return plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Json) -> Self:
        """Read what `to_json` wrote."""
        return cls(**{field.name: float(stored[field.name]) for field in fields(cls)})


CENTRE: Final = Scales()
"""Where every fit starts."""
