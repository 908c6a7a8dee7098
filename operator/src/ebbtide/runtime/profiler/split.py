"""Where the time of one step goes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """
    Seconds of one step of one rank; the four parts add up to the step.

    `data`: fetching the samples. `communication`: in collectives. `idle`: standing still, for the
    slowest rank or for a checkpoint that is still being staged. `compute`: all the rest.
    """

    step: float
    data: float = 0.0
    communication: float = 0.0
    idle: float = 0.0

    @property
    def compute(self) -> float:
        """The script's own work and the optimizer's."""
        return max(0.0, self.step - self.data - self.communication - self.idle)

    @property
    def alone(self) -> float:
        """What the step would take on one rank with nobody to wait for: data and compute."""
        return self.data + self.compute
