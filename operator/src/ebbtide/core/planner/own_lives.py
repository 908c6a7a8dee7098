"""
What a pool's own nodes say of how long its next one lives, beside what is known without them.

The lifetime model draws the pool's own lives to those of its kin (`Lifetimes.learn`); here is only
which lives, and how good the answer is on lives that it did not see.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from ebbtide.core.models.lifetime.lives import LONGEST, SECOND
from ebbtide.core.models.lifetime.model import Lifetimes
from ebbtide.core.models.lifetime.scoring import DAY, Steps, brier, grid_to
from ebbtide.core.models.table import ABSENT, Flags, Floats, Table
from ebbtide.core.values.past import Life, LifeTold, Past
from ebbtide.core.values.pool import Pool

HOUR: Final = timedelta(hours=1)
AGE_STEP: Final = timedelta(minutes=10)
AGE_PARTS: Final = 8
"""Older ages are known to a part of themselves."""
LEAST_SCORED: Final = 10
"""With fewer lives, half of them say nothing about the other half."""


def select(past: Past, *, now: datetime, start: timedelta) -> tuple[Life, ...]:
    """
    Return the lives to learn from; `start` as for `Past.believed`.

    Ages of nodes that live are rounded down, by an eighth at most: who asks again and again need
    not learn anew each time.
    """
    found = past.believed(now, start)
    return tuple(
        life if life.revoked else replace(life, lasted=_rounded_down(life.lasted)) for life in found
    )


def _rounded_down(age: timedelta) -> timedelta:
    step = AGE_STEP
    while age >= step * (2 * AGE_PARTS):
        step *= 2
    return age - age % step


def learn(model: Lifetimes, pool: Pool, lives: Sequence[Life]) -> Lifetimes:
    """Return a model that knows lives of nodes of the pool."""
    if not lives:
        return model
    number = len(lives)
    hours, revoked = _arrays(lives)
    return model.learn(
        Table.of(
            pool=[pool.name] * number,
            zone=[pool.zone or ABSENT] * number,
            gpu=[pool.gpu_type or ABSENT] * number,
            lifetime_h=hours.tolist(),
            revoked=revoked.astype(int).tolist(),
        )
    )


def ask(pool: Pool, now: datetime) -> Table:
    """Return the question about a node of a pool that becomes Ready now."""
    return Table.of(
        pool=[pool.name],
        zone=[pool.zone or ABSENT],
        gpu=[pool.gpu_type or ABSENT],
        start_hour=[now.hour + now.minute / 60],
    )


def tell(
    model: Lifetimes, pool: Pool, past: Past, *, now: datetime, start: timedelta
) -> LifeTold | None:
    """
    Say what is expected of a new node, from lives that are over; None where there is none.

    Running nodes are left out: their ages grow, and a status is not written for that.
    """
    lives = Past(lives=past.lives).believed(now, start)
    if not lives:
        return None
    asked = ask(pool, now)
    fitted = learn(model, pool, lives)
    question = fitted.ask(asked)
    alive = fitted.survival(asked, np.array([[1.0, DAY]]))[0]
    median = question.curves.quantile(question.group, question.age, 0.5)[0]
    return LifeTold(
        family=fitted.method,
        parameters={
            "meanHours": _rounded(fitted.predict(asked).value[0]),
            "medianHours": _rounded(median),
            "aliveAfter1h": _rounded(alive[0]),
            "aliveAfter24h": _rounded(alive[1]),
        },
        samples=len(lives),
        brier=_score(model, pool, lives),
    )


def _score(model: Lifetimes, pool: Pool, lives: Sequence[Life]) -> float | None:
    """Return the integrated Brier score over a day of every other life by the rest, both ways."""
    if len(lives) < LEAST_SCORED or not any(life.revoked for life in lives):
        return None
    in_time = sorted(lives, key=lambda life: (life.lasted, life.since))
    halves = in_time[::2], in_time[1::2]
    scores = []
    for known, unseen in (halves, halves[::-1]):
        hours, revoked = _arrays(unseen)
        grid = grid_to(DAY)
        fitted = learn(model, pool, known)
        survival = fitted.survival(ask(pool, unseen[0].since), grid[None, :])
        wide = np.repeat(survival, len(unseen), axis=0)
        seen = Steps.of(hours, ~revoked)
        scores.append(brier(wide, hours, revoked, seen=seen, grid=grid) * len(unseen))
    return _rounded(min(sum(scores) / len(lives), 1.0))


def _arrays(lives: Sequence[Life]) -> tuple[Floats, Flags]:
    hours = np.array([life.lasted / HOUR for life in lives])
    return np.clip(hours, SECOND, LONGEST), np.array([life.revoked for life in lives])


def _rounded(value: float) -> float:
    return round(float(value), 4)
