"""What a fit would have been wrong by on placements that it had not seen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

import numpy as np

from ebbtide.core.models.forecast import Forecast, Spread
from ebbtide.core.models.quality import Quality, judge
from ebbtide.core.models.residuals import spread_of
from ebbtide.core.models.table import Flags, Floats, Indices, Texts

FOLDS: Final = 5
UNKNOWN: Final = Spread(low=float(np.exp(-10)), high=float(np.exp(10)))
"""In standard deviations, where fewer than two placements could be held out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Measurements of one workload, each with its residual had its placement not been seen."""

    places: Texts
    log_seconds: Floats
    residuals: Floats
    """Logarithms of measured over predicted."""
    deviation: Floats
    """What the model takes for the standard deviation of each."""

    @classmethod
    def join(cls, parts: "Sequence[Held]") -> "Held":
        """Put measurements together; of none there are none."""
        nothing = np.empty(0)
        return cls(
            places=np.concatenate([nothing.astype(object), *(part.places for part in parts)]),
            log_seconds=np.concatenate([nothing, *(part.log_seconds for part in parts)]),
            residuals=np.concatenate([nothing, *(part.residuals for part in parts)]),
            deviation=np.concatenate([nothing, *(part.deviation for part in parts)]),
        )

    def spread(self, chosen: Flags | None = None) -> Spread:
        """Return the interval of residuals, in standard deviations."""
        kept = np.ones(len(self.places), dtype=np.bool_) if chosen is None else chosen
        if len(set(self.places[kept].tolist())) < 2:  # noqa: PLR2004 -- one to know, one to ask
            return UNKNOWN
        return spread_of((self.residuals / self.deviation)[kept])


def deal(places: Texts) -> Indices:
    """
    Deal placements into folds in turn, in an order that has no sense; one fold for each row.

    In order of name every fold would take all placements that are alike in one way.
    """
    names = sorted(set(places.tolist()), key=lambda name: sha256(str(name).encode()).digest())
    fold = {name: number % FOLDS for number, name in enumerate(names)}
    return np.array([fold[name] for name in places.tolist()], dtype=np.intp)


def judge_held(found: Mapping[str, Held], *, split: str, samples: int) -> Quality:
    """Put the residuals of all workloads together; intervals come from other placements."""
    several = {name: held for name, held in found.items() if held.spread() is not UNKNOWN}
    if not several:
        return Quality(samples=samples, split="none")
    answers = [_answer(held) for held in several.values()]
    return judge(
        np.exp(np.concatenate([held.log_seconds for held in several.values()])),
        Forecast(
            value=np.concatenate([answer.value for answer in answers]),
            low=np.concatenate([answer.low for answer in answers]),
            high=np.concatenate([answer.high for answer in answers]),
            beyond=np.concatenate([answer.beyond for answer in answers]),
        ),
        groups=np.concatenate(
            [np.full(len(held.places), name, dtype=object) for name, held in several.items()]
        ),
        split=split,
        samples=samples,
    )


def _answer(held: Held) -> Forecast:
    fold = deal(held.places)
    value = np.exp(held.log_seconds - held.residuals)
    low, high = value.copy(), value.copy()
    for number in sorted(set(fold.tolist())):
        here = fold == number
        around = held.spread(~here)
        low[here] *= around.low ** held.deviation[here]
        high[here] *= around.high ** held.deviation[here]
    return Forecast(value=value, low=low, high=high, beyond=np.zeros(len(value), dtype=np.bool_))
