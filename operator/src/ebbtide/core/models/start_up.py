"""
How long a node takes until its worker trains, stage by stage.

Stages of a node are `provisioning`, `staging` and `booting`, and their group is its pool. What
follows is `cold` (the training process starts on a new node) or `warm` (everything is in place),
and its group is the workload: loading it is most of the time. Any other stage may be named.

Times are log-normal around the mean of their group; the means of groups are normal around that of
the stage. A group with few samples is drawn towards the stage, a new one is the stage, with an
interval as wide as groups differ: the empirical Bayes estimate of a one-way random effects model
(Searle, Casella and McCulloch 1992, Variance Components, chapters 3 and 7).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from ebbtide.core.models.forecast import Forecast, Json
from ebbtide.core.models.kinds import Kind
from ebbtide.core.models.quality import HeldOut, Quality, hold_out, judge, leave_one_out
from ebbtide.core.models.residuals import STUDENT
from ebbtide.core.models.table import Column, DataError, Floats, Table, check

POOL: Final = Column(name="pool", unit="text")
STAGE: Final = Column(name="stage", unit="text")
SECONDS: Final = Column(name="seconds", unit="s", least=1e-6, most=86_400.0)
"""A stage takes a day at most: larger numbers are of another unit."""

NODE_STAGES: Final = ("provisioning", "staging", "booting")
QUANTILE: Final = 1.645
"""Nine of ten values of a normal law lie within so many deviations."""
WITHIN: Final = 0.25
"""Deviation of log times inside a group, where no group has repeats; about that of staging."""
BETWEEN: Final = 0.5
"""Deviation of log means between groups, where there is one group: known within a factor of 2."""
WILD: Final = 1.0
"""A deviation above this makes no mean larger: it says that nothing is known, not that it lasts."""
LEAST: Final = 0.01
"""No deviation of log times is smaller: copies of one row are no proof of exactness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage: logs of seconds."""

    center: float
    """Mean over groups."""
    between: float
    """Deviation of the means of groups."""
    within: float
    """Deviation inside a group."""
    means: dict[str, float]
    """Mean of each group."""
    counts: dict[str, int]

    def guess(self, group: str) -> tuple[float, float, float]:
        """Return mean and deviation of the log of a time to come, and how far it may be off."""
        if group not in self.means:
            deviation = float(np.hypot(self.between, self.within))
            return self.center, deviation, self._reach(deviation)
        own = self.counts[group] / self.within**2
        all_others = 1 / self.between**2
        mean = (own * self.means[group] + all_others * self.center) / (own + all_others)
        deviation = float(np.sqrt(1 / (own + all_others) + self.within**2))
        return mean, deviation, QUANTILE * deviation

    def _reach(self, deviation: float) -> float:
        """Student's interval for one more group: few groups say little of how groups differ."""
        number = len(self.means)
        quantile = STUDENT[number - 2] if 1 < number <= len(STUDENT) + 1 else QUANTILE
        return quantile * float(np.sqrt(1 + 1 / number)) * deviation

    def to_json(self) -> Json:
        """Return plain JSON."""
        return {
            "center": self.center,
            "between": self.between,
            "within": self.within,
            "means": dict(self.means),
            "counts": dict(self.counts),
        }

    @classmethod
    def from_json(cls, stored: Json) -> Self:
        """Read what `to_json` wrote."""
        return cls(
            center=float(stored["center"]),
            between=float(stored["between"]),
            within=float(stored["within"]),
            means={group: float(mean) for group, mean in stored["means"].items()},
            counts={group: int(count) for group, count in stored["counts"].items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Duration:
    """Expected seconds of one start, with the interval of nine of ten."""

    value: float
    low: float
    high: float
    beyond: bool
    """Whether a group was not seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartUpModel:
    """Stages by name."""

    method: str
    quality: Quality
    stages: dict[str, Stage]

    def predict(self, table: Table) -> Forecast:
        """Return the expected seconds of the stage of each row; raises DataError."""
        check(table, (POOL, STAGE))
        pools, stages = table.texts(POOL).tolist(), table.texts(STAGE).tolist()
        known: dict[tuple[str, str], tuple[float, float, float, bool]] = {}
        for row, pool, stage in zip(table.rows.tolist(), pools, stages, strict=True):
            if stage not in self.stages:
                raise DataError(
                    f"column {STAGE.name}, row {row}: {stage!r} is unknown; measured were: "
                    f"{', '.join(self.stages)}"
                )
            if (stage, pool) not in known:
                found = self.stages[stage]
                known[stage, pool] = (*found.guess(pool), pool not in found.means)
        guesses = [known[pair] for pair in zip(stages, pools, strict=True)]
        mean, deviation, reach, beyond = (np.array(part) for part in zip(*guesses, strict=True))
        value = np.exp(mean + np.minimum(deviation, WILD) ** 2 / 2)
        high = np.exp(np.minimum(mean + reach, np.log(SECONDS.most)))
        return Forecast(
            value=value, low=np.exp(mean - reach), high=np.maximum(high, value), beyond=beyond
        )

    def total(self, stages: Mapping[str, str] | Sequence[tuple[str, str]]) -> Duration:
        """
        Return the time of several stages, one after the other, given with their groups.

        Stages vary each by itself, so the distances of their bounds add up as squares do.
        """
        pairs = list(stages.items()) if isinstance(stages, Mapping) else list(stages)
        names, groups = [name for name, _ in pairs], [group for _, group in pairs]
        found = self.predict(Table.of(stage=names, pool=groups))
        value = float(found.value.sum())
        return Duration(
            value=value,
            low=value - float(np.linalg.norm(found.value - found.low)),
            high=value + float(np.linalg.norm(found.high - found.value)),
            beyond=bool(found.beyond.any()),
        )

    def parameters(self) -> Json:
        """Return plain JSON."""
        return {"stages": {name: stage.to_json() for name, stage in self.stages.items()}}

    @classmethod
    def read(cls, method: str, quality: Quality, stored: Json) -> Self:
        """Read what `parameters` wrote."""
        stages = {name: Stage.from_json(one) for name, one in stored["stages"].items()}
        return cls(method=method, quality=quality, stages=stages)


def fit(table: Table) -> StartUpModel:
    """Fit from rows of pool, stage and seconds; raises DataError."""
    check(table, (POOL, STAGE, SECONDS))
    stages = _fit_stages(table)
    quality = Quality(samples=len(table), split="none")
    held = [_hold_out(table.take(table.texts(STAGE) == name)) for name in stages]
    found = [one for one in held if one is not None]
    if found:
        quality = judge(
            np.concatenate([part.numbers(SECONDS)[one.rows] for part, one in found]),
            Forecast(
                value=np.concatenate([one.forecast.value for _, one in found]),
                low=np.concatenate([one.forecast.low for _, one in found]),
                high=np.concatenate([one.forecast.high for _, one in found]),
                beyond=np.concatenate([one.forecast.beyond for _, one in found]),
            ),
            groups=np.concatenate([part.texts(STAGE)[one.rows] for part, one in found]),
            split=f"leave-one-out:{POOL.name}",
            samples=len(table),
        )
    return StartUpModel(method="random-effects", quality=quality, stages=stages)


KIND: Final = Kind(
    name="start-up",
    inputs=(POOL, STAGE),
    target=SECONDS,
    group=POOL.name,
    methods={"random-effects": fit},
    read=StartUpModel.read,
)


def _fit_stages(table: Table) -> dict[str, Stage]:
    pools, stages = table.texts(POOL), table.texts(STAGE)
    logs = np.log(table.numbers(SECONDS))
    found: dict[str, Stage] = {}
    for name in dict.fromkeys(stages.tolist()):
        here = stages == name
        groups = {
            pool: logs[here & (pools == pool)] for pool in dict.fromkeys(pools[here].tolist())
        }
        found[name] = _fit_stage(groups)
    return found


def _fit_stage(groups: dict[str, Floats]) -> Stage:
    """Take variances by moments; the center weighs groups by what they say of it."""
    counts = np.array([len(logs) for logs in groups.values()])
    means = np.array([logs.mean() for logs in groups.values()])
    squares = sum(float(((logs - logs.mean()) ** 2).sum()) for logs in groups.values())
    free = int(counts.sum()) - len(groups)
    within = max(np.sqrt(squares / free), LEAST) if free else WITHIN
    between = BETWEEN
    if len(groups) > 1:
        # Means of groups vary by what they differ, and by the noise that their samples leave.
        noise = float((within**2 / counts).mean())
        between = max(np.sqrt(max(float(means.var(ddof=1)) - noise, 0.0)), LEAST)
    weights = 1 / (between**2 + within**2 / counts)
    return Stage(
        center=float(weights @ means / weights.sum()),
        between=float(between),
        within=float(within),
        means=dict(zip(groups, means.tolist(), strict=True)),
        counts=dict(zip(groups, counts.tolist(), strict=True)),
    )


def _hold_out(table: Table) -> tuple[Table, HeldOut] | None:
    """Ask about each group of one stage as if it were new; None where there is but one."""
    pools = table.texts(POOL)
    if len(set(pools.tolist())) < 2:  # noqa: PLR2004 -- one to fit from, one to ask about
        return None

    def fit_rest(rest: Table) -> "StartUpModel":
        blank = Quality(samples=len(rest), split="none")
        return StartUpModel(method="random-effects", quality=blank, stages=_fit_stages(rest))

    return table, hold_out(table, leave_one_out(pools), lambda rest: fit_rest(rest).predict)
