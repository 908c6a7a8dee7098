"""
A model corrected by what is measured while it is in use.

Samples are pairs of predicted and measured values of one quantity (a step time, a communication
time, a speed); what counts is the logarithm of their ratio. Two memories: the last few samples as
they were, and a settled offset made of all older ones, which forgets by half every `half_life`.

- Where the median of the last few departs from the settled offset by more than a tolerance, the
  quantity drifts. While it does, the median itself corrects, and the settled offset learns nothing:
  a passing trouble is not believed for longer than it lasts.
- A drift that stays for `accept_after` samples is the new state of things: the settled offset
  moves there at once.
- Else both memories correct together, with the model's prior counted as `prior_samples`.

So a prior that is wrong by more than the tolerance is corrected after `samples_to_notice` samples,
to within their noise; one that is wrong by less leaves after n samples at most
prior_samples / (prior_samples + n) of the tolerance. Single outliers change nothing.
"""

import math
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from statistics import median
from typing import Any, Final, Self

from ebbtide.core.models.forecast import Forecast, Json

TOLERANCE: Final = 0.15
"""Noise of computing stays below it (1.1x was seen); slow communication is above (1.8x)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """How fast to learn, to forget, and to call it a drift."""

    window: int = 9
    """Samples that are remembered as they were; odd, so that one of them is their median."""
    half_life: int = 64
    """Samples after which an old one counts half."""
    prior_samples: float = 4.0
    """How many samples the model's own word is worth at the start."""
    tolerance: float = TOLERANCE
    """A departure by more than this fraction is a drift."""
    model_error: float = 0.0
    """The model's own held-out MAPE; the tolerance is never below twice as much."""
    accept_after: int = 64
    """Samples in drift after which it is the new state of things."""

    def __post_init__(self) -> None:
        counts = {"window": self.window, "half_life": self.half_life}
        for name, value in {**counts, "accept_after": self.accept_after}.items():
            if value < 1:
                raise ValueError(f"{name} {value}: at least 1 is needed")
        if self.window % 2 == 0:
            raise ValueError(f"window {self.window}: an odd number is needed")
        positive = {"prior_samples": self.prior_samples, "tolerance": self.tolerance}
        for name, number in positive.items():
            if not 0 < number < math.inf:
                raise ValueError(f"{name} {number}: a number above 0 is needed")
        if not 0 <= self.model_error < math.inf:
            raise ValueError(f"model_error {self.model_error}: a fraction from 0 is needed")

    @property
    def samples_to_notice(self) -> int:
        """More than half of the window: from then on its median is of the new state."""
        return self.window // 2 + 1

    @property
    def threshold(self) -> float:
        """The tolerance as a difference of logarithms."""
        return math.log1p(max(self.tolerance, 2 * self.model_error))

    @property
    def memory(self) -> float:
        """What is left of a sample's weight when the next one comes."""
        return float(0.5 ** (1 / self.half_life))


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """How wrong the predictions have been, recent ones counting more; sums and their weight."""

    weight: float = 0.0
    raw: float = 0.0
    """Relative errors of the model as it was."""
    corrected: float = 0.0
    """Relative errors after correction, each made before its sample was known."""
    asked: float = 0.0
    """The weight of samples that came with an interval."""
    inside: float = 0.0

    def add(self, sample: "Sample", *, offset: float, memory: float) -> "Record":
        """Count a sample that was predicted with `offset`."""
        known = sample.low is not None and sample.high is not None
        scale = math.exp(offset)
        held = known and (
            (sample.low or 0.0) * scale <= sample.measured <= (sample.high or 0.0) * scale
        )
        return Record(
            weight=self.weight * memory + 1,
            raw=self.raw * memory + abs(sample.predicted / sample.measured - 1),
            corrected=self.corrected * memory + abs(sample.predicted * scale / sample.measured - 1),
            asked=self.asked * memory + known,
            inside=self.inside * memory + held,
        )

    @property
    def raw_mape(self) -> float | None:
        """Mean relative error of the model as it was; None before the first sample."""
        return self.raw / self.weight if self.weight else None

    @property
    def mape(self) -> float | None:
        """Mean relative error after correction."""
        return self.corrected / self.weight if self.weight else None

    @property
    def coverage(self) -> float | None:
        """The share of samples inside their (corrected) interval; None where none was given."""
        return self.inside / self.asked if self.asked else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One value as it was predicted and measured, in the same unit."""

    predicted: float
    measured: float
    low: float | None = None
    """The prediction's interval, if it had one."""
    high: float | None = None

    def __post_init__(self) -> None:
        for name in ("predicted", "measured"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise ValueError(f"{name} {value}: a number above 0 is needed")
        ends = [end for end in (self.low, self.predicted, self.high) if end is not None]
        if any(not low <= high for low, high in pairwise(ends)):
            raise ValueError(
                f"interval {self.low} to {self.high}: it must hold the prediction {self.predicted}"
            )

    @property
    def log_ratio(self) -> float:
        """Above 0 where more was measured than predicted."""
        return math.log(self.measured / self.predicted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What has been learnt so far; `add` gives the next state."""

    habits: Habits = field(default_factory=Habits)
    recent: tuple[float, ...] = ()
    """Logarithms of measured/predicted, oldest first."""
    settled: float = 0.0
    """The offset, a logarithm, of everything older."""
    weight: float | None = None
    """What the settled offset is worth, in samples; None: the prior's."""
    drifting: int = 0
    """Samples since the drift was noticed; 0 where there is none."""
    record: Record = field(default_factory=Record)
    samples: int = 0

    @property
    def is_drifting(self) -> bool:
        """Whether what is measured lately is not what was measured before."""
        return self.drifting > 0

    @property
    def drift(self) -> float:
        """By which factor the last samples depart from the settled state; 1 without any."""
        return math.exp(self._departure())

    @property
    def factor(self) -> float:
        """What predictions are to be multiplied with."""
        return math.exp(self._offset())

    def add(self, sample: Sample) -> "Calibration":
        """Learn from one sample."""
        record = self.record.add(sample, offset=self._offset(), memory=self.habits.memory)
        recent = (*self.recent, sample.log_ratio)
        oldest, recent = recent[: -self.habits.window], recent[-self.habits.window :]
        after = replace(self, recent=recent, record=record, samples=self.samples + 1)
        if not self.is_drifting:
            after = after._settle(oldest)  # noqa: SLF001 -- the same class
        departs = abs(after._departure()) > self.habits.threshold  # noqa: SLF001 -- the same class
        after = replace(after, drifting=self.drifting + 1 if departs else 0)
        return after._accept() if after.drifting > self.habits.accept_after else after  # noqa: SLF001 -- the same class

    def correct(self, forecast: Forecast) -> Forecast:
        """Multiply values and intervals of a forecast with what has been learnt."""
        factor = self.factor
        return replace(
            forecast,
            value=forecast.value * factor,
            low=forecast.low * factor,
            high=forecast.high * factor,
        )

    def to_json(self) -> Json:
        """Return plain JSON."""
        return asdict(self) | {"recent": list(self.recent)}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        return cls(
            habits=Habits(**stored["habits"]),
            recent=tuple(float(ratio) for ratio in stored["recent"]),
            settled=float(stored["settled"]),
            weight=stored["weight"],
            drifting=int(stored["drifting"]),
            record=Record(**stored["record"]),
            samples=int(stored["samples"]),
        )

    def _worth(self) -> float:
        return self.habits.prior_samples if self.weight is None else self.weight

    def _departure(self) -> float:
        """By how much, in logarithms, the last samples depart; 0 while there are too few."""
        if len(self.recent) < self.habits.samples_to_notice:
            return 0.0
        return median(self.recent) - self.settled

    def _offset(self) -> float:
        if self.is_drifting:
            return median(self.recent)
        if not self.recent:
            return self.settled
        # each sample counts as far as it does not depart: one outlier moves nothing far
        limit = self.habits.threshold
        clipped = (min(max(ratio - self.settled, -limit), limit) for ratio in self.recent)
        return self.settled + sum(clipped) / (self._worth() + len(self.recent))

    def _settle(self, oldest: tuple[float, ...]) -> "Calibration":
        """Let samples that leave the window move the settled offset, none by more than a drift."""
        settled, weight = self.settled, self._worth()
        limit = self.habits.threshold
        for ratio in oldest:
            weight = weight * self.habits.memory + 1
            settled += min(max(ratio - settled, -limit), limit) / weight
        return replace(self, settled=settled, weight=weight)

    def _accept(self) -> "Calibration":
        return replace(
            self, settled=median(self.recent), weight=float(len(self.recent)), drifting=0
        )
