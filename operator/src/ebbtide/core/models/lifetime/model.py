"""How long nodes of a pool live: the fitted model, and what it is asked."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Final, Self

import numpy as np

from ebbtide.core.models.forecast import BEYOND, COVERAGE, Forecast, Json
from ebbtide.core.models.lifetime import prior
from ebbtide.core.models.lifetime.ages import EDGES, Curves, blend
from ebbtide.core.models.lifetime.choosing import METHODS, Choice, Way, count
from ebbtide.core.models.lifetime.families import CAP, find_wall
from ebbtide.core.models.lifetime.hours import spread_over_ages
from ebbtide.core.models.lifetime.lives import (
    AGE,
    GPU,
    HORIZON,
    POOL,
    SECOND,
    START,
    ZONE,
    Lives,
    Pool,
)
from ebbtide.core.models.lifetime.pooling import ANY, FLEET, fall
from ebbtide.core.models.lifetime.renewal import expected_losses
from ebbtide.core.models.quality import Quality
from ebbtide.core.models.survival import Survival
from ebbtide.core.models.table import DataError, Flags, Floats, Indices, Table

TAIL: Final = (1 - COVERAGE) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a model was fitted from, for whoever reads its numbers."""

    lives: int
    revocations: int
    longest_h: float
    refused: int = 0
    lifted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Questions in rows: whose hazards, how old each node is, whether that is beyond the data."""

    curves: Curves
    group: Indices
    age: Floats
    beyond: Flags

    def survival(self, ahead: Floats) -> Floats:
        """Return the chance of living on; `ahead` broadcasts against rows, or rows and columns."""
        wide = ahead if ahead.ndim > 1 else np.broadcast_to(ahead, self.age.shape)[:, None]
        wide = np.broadcast_to(wide, (len(self.age), wide.shape[1]))
        columns = wide.shape[1]
        found = self.curves.survival(
            np.repeat(self.group, columns), np.repeat(self.age, columns), wide.ravel()
        ).reshape(wide.shape)
        return found if ahead.ndim > 1 else found[:, 0]


@dataclass(frozen=True, kw_only=True)
class Lifetimes:
    """
    Survival of nodes by pool, zone, GPU type, age and hour of day.

    A pool that is not known gets what is known of its zone and GPU type, else of either, else of
    the whole fleet.
    """

    method: str
    quality: Quality
    keys: tuple[Pool, ...]
    """The names of the rows of `curves`; "*" stands for any."""
    curves: Curves
    choice: Choice
    laws: dict[str, dict[str, float]]
    """Parameters of the laws of the whole fleet, by name."""
    hours: Floats | None
    """Factors on the hazard by hour of day; None where the hour tells nothing."""
    seen: Seen

    @cached_property
    def _rows(self) -> dict[Pool, int]:
        return {key: row for row, key in enumerate(self.keys)}

    @cached_property
    def _by_name(self) -> dict[str, Pool | None]:
        """The one key of each pool's name; None where a name stands for several."""
        found: dict[str, Pool | None] = {}
        for key in self.keys:
            found[key[0]] = None if key[0] in found else key
        return found

    # ------------------------------------------------------------ questions

    def ask(self, table: Table) -> Asked:
        """Read questions: columns pool, and where known zone, gpu, start_hour, age_h."""
        if not len(table):
            raise DataError("there are no rows: at least one question is needed")
        keys = list(zip(*(table.texts(column) for column in (POOL, ZONE, GPU)), strict=True))
        ages = np.nan_to_num(table.numbers(AGE), nan=0.0)
        return self.about(keys, start=table.numbers(START), age=ages)

    def about(self, keys: Sequence[Pool], *, start: Floats, age: Floats) -> Asked:
        """Ask about nodes by pool, hour of day at their start (NaN: not known) and age."""
        hour = np.full(len(age), -1.0) if self.hours is None else np.nan_to_num(start % 24, nan=-1)
        number: dict[tuple[Pool, float], int] = {}
        questions = zip(keys, np.floor(hour).tolist(), strict=True)
        group = np.array([number.setdefault(each, len(number)) for each in questions], np.intp)
        curves, beyond = self._curves(list(number))
        too_old = age > np.minimum(self.seen.longest_h, curves.walls[group])
        return Asked(curves=curves, group=group, age=age, beyond=beyond[group] | too_old)

    def _curves(self, questions: Sequence[tuple[Pool, float]]) -> tuple[Curves, Flags]:
        found = [self._find(key) for key, _ in questions]
        rates = np.array([self.curves.rates[rows].mean(axis=0) for rows, _ in found])
        if self.hours is not None:
            hour = np.array([hour if hour >= 0 else np.nan for _, hour in questions])
            rates *= spread_over_ages(self.hours, hour + 0.5)
        walls = np.array([self.curves.walls[rows].max() for rows, _ in found])
        return Curves(rates=rates, walls=walls), np.array([beyond for _, beyond in found])

    def _find(self, key: Pool) -> tuple[list[int], bool]:
        """Return the rows that know a pool best, and whether they know too little of it."""
        pool, zone, gpu = key
        named = self._by_name.get(pool)
        for known in (key, named if not (zone and gpu) else None, (ANY, zone, gpu)):
            if known is not None and known in self._rows:
                return [self._rows[known]], False
        parts = [
            self._rows[part] for part in ((ANY, ANY, gpu), (ANY, zone, ANY)) if part in self._rows
        ]
        return parts or [self._rows[FLEET]], True

    def predict(self, table: Table) -> Forecast:
        """
        Return the expected remaining life in hours, and between what nine of ten nodes lie.

        Columns: pool; where known zone, gpu, start_hour, age_h (0 where absent), and horizon_h,
        beyond which life no longer counts.
        """
        asked = self.ask(table)
        horizon = table.numbers(HORIZON)
        ahead = np.where(np.isnan(horizon), np.inf, horizon)
        mean = asked.curves.mean_within(asked.group, asked.age, ahead)
        low = asked.curves.quantile(asked.group, asked.age, TAIL)
        high = asked.curves.quantile(asked.group, asked.age, 1 - TAIL)
        value = np.maximum(mean, SECOND)
        low = np.clip(low, SECOND, value)
        most = np.maximum(np.minimum(ahead, asked.curves.walls[asked.group] - asked.age), value)
        power = np.where(asked.beyond, BEYOND, 1.0)
        return Forecast(
            value=value,
            low=np.maximum(value * (low / value) ** power, np.minimum(SECOND, value)),
            high=np.clip(value * (high / value) ** power, value, most),
            beyond=asked.beyond,
        )

    def survival(self, table: Table, ahead: Floats | float) -> Floats:
        """
        Return the chance that each node lives on for so many hours.

        Columns as for `predict`; `ahead` is one number, one for each row, or of shape (rows, n).
        """
        return self.ask(table).survival(np.asarray(ahead, dtype=np.float64))

    def losses(self, table: Table, ahead: float) -> Floats:
        """
        Return the expected revocations of each row in so many hours, where each loss is replaced.

        A replacement is a new node of the same pool, at once. Without it, it is 1 - survival.
        """
        asked = self.ask(table)
        return expected_losses(asked.curves, asked.group, asked.age, ahead=ahead)

    def laws_of(self, table: Table, *, unit_s: float, until_s: float) -> tuple[Survival, ...]:
        """Return for each row the law of its remaining life, on a grid in seconds."""

        def law(row: int) -> Survival:
            asked = self.ask(table.take(np.array([row], dtype=np.intp)))
            return Survival.of(
                lambda seconds: asked.survival(seconds[None, :] / 3600)[0],
                unit_s=unit_s,
                until_s=until_s,
            )

        return tuple(law(row) for row in range(len(table)))

    def draw(self, table: Table, chance: np.random.Generator) -> Floats:
        """Draw a remaining life for each row, in hours."""
        asked = self.ask(table)
        share = chance.random(len(table))
        return np.maximum(asked.curves.quantile(asked.group, asked.age, share), SECOND)

    # ------------------------------------------------------------ own history

    def learn(self, table: Table) -> "Lifetimes":
        """
        Return a model that also knows the history of some pools.

        Give all that is known of these pools: it takes the place of what was known before, so
        learning the same twice changes nothing. Only revocations belong in it; a worker that
        failed leaves a node that is still alive.
        """
        lives = Lives.read(table)
        found = [self._find((ANY, zone, gpu))[0] for _, zone, gpu in lives.pools]
        kin = np.array([self.curves.rates[rows].mean(axis=0) for rows in found])
        kin_walls = np.array([self.curves.walls[rows].max() for rows in found])
        walls = np.array(
            [
                find_wall(lives.hours[lives.pool == index], otherwise=wall)
                for index, wall in enumerate(kin_walls)
            ]
        )
        own, ways = count(lives), self.choice.ways
        # of kin that all die at a cap, a pool without one learns nothing about what comes after
        torn_down = np.isinf(walls) & np.isfinite(kin_walls)
        kin[np.ix_(torn_down, EDGES >= CAP)] = prior.RATE
        each = np.array([fall(own, kin, way.nodes) for way in ways])
        rates = blend(each, np.array([way.weight for way in ways]))
        kept = [row for row, key in enumerate(self.keys) if key not in set(lives.pools)]
        return replace(
            self,
            keys=(*(self.keys[row] for row in kept), *lives.pools),
            curves=Curves(
                rates=np.concatenate([self.curves.rates[kept], rates]),
                walls=np.concatenate([self.curves.walls[kept], walls]),
            ),
            seen=replace(self.seen, longest_h=max(self.seen.longest_h, float(lives.hours.max()))),
        )

    @classmethod
    def of_prior(cls, *, rate: float = prior.RATE, wall: float = np.inf) -> Self:
        """Return what is believed without any data: one hazard for all pools and ages."""
        return cls(
            method="prior",
            quality=Quality(samples=0, split="none"),
            keys=(FLEET,),
            curves=Curves(rates=np.full((1, len(EDGES)), rate), walls=np.array([wall])),
            choice=Choice(ways=METHODS["nonparametric"][:1]),
            laws={"exponential": {"rate_per_hour": rate}},
            hours=None,
            seen=Seen(lives=0, revocations=0, longest_h=0.0),
        )

    # ------------------------------------------------------------ storing

    def parameters(self) -> Json:
        """Return plain JSON."""
        return {
            "keys": [list(key) for key in self.keys],
            "edges_h": EDGES.tolist(),
            **self.curves.to_json(),
            "laws": self.laws,
            "ways": [asdict(way) for way in self.choice.ways],
            "hour_deaths": self.choice.hour_deaths,
            "hour_factors": None if self.hours is None else self.hours.tolist(),
            "seen": asdict(self.seen),
        }

    @classmethod
    def read(cls, method: str, quality: Quality, stored: Json) -> Self:
        """Build a model from what `parameters` gave."""
        hours = stored["hour_factors"]
        return cls(
            method=method,
            quality=quality,
            keys=tuple((str(p), str(z), str(g)) for p, z, g in stored["keys"]),
            curves=Curves.from_json(stored),
            choice=Choice(
                ways=tuple(Way(**way) for way in stored["ways"]),
                hour_deaths=stored["hour_deaths"],
            ),
            laws=dict(stored["laws"]),
            hours=None if hours is None else np.array(hours, dtype=np.float64),
            seen=Seen(**stored["seen"]),
        )
