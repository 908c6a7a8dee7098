"""Fitting lifetimes, and how well they foretell lives that were held out."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ebbtide.core.models.lifetime import scoring
from ebbtide.core.models.lifetime.ages import Curves, rounded
from ebbtide.core.models.lifetime.choosing import METHODS, choose, fit_ways
from ebbtide.core.models.lifetime.families import find_wall
from ebbtide.core.models.lifetime.hours import ByHour
from ebbtide.core.models.lifetime.lives import LIFE, POOL, Lives, Pool
from ebbtide.core.models.lifetime.model import TAIL, Asked, Lifetimes, Seen
from ebbtide.core.models.lifetime.pooling import ANY, FLEET, Levels
from ebbtide.core.models.quality import Quality, Scores, Split
from ebbtide.core.models.table import Column, Flags, Floats, Indices, Table, Texts

FOLDS: Final = 5
MOST_WEIGHED: Final = 20_000
"""Of more lives an even part says how to fit and how wrong that is; hazards come from all."""
LEAST_HELD: Final = 20
"""With fewer lives nothing is held out: the errors are not known."""


def fit(table: Table, *, method: str) -> Lifetimes:
    """Fit lifetimes and score them on lives held out, every pool in every part."""
    lives = Lives.read(table)
    some = _thin(lives)
    fold = some.deal(FOLDS)
    splits = ((np.flatnonzero(fold != n), np.flatnonzero(fold == n)) for n in range(FOLDS))
    names = np.array([some.pools[index][0] for index in some.pool], dtype=object)
    quality = Quality(samples=len(lives), split="none")
    if len(lives) >= LEAST_HELD:
        quality = _score(some, splits, method=method, groups=names, split="random")
        quality = replace(quality, samples=len(lives))
    return fit_lives(lives, method=method, quality=quality)


def _thin(lives: Lives) -> Lives:
    """Take an even part of very many lives: what is told from 20,000 no more of them change."""
    if len(lives) <= MOST_WEIGHED:
        return lives
    return lives.take(np.linspace(0, len(lives) - 1, MOST_WEIGHED).astype(np.intp))


def judge(table: Table, splits: Iterable[Split], *, method: str, group: str, split: str) -> Quality:
    """Score lifetimes under splits of the rows of a table."""
    known = table.numbers(LIFE) >= 0
    kept = table.take(known)
    place = np.cumsum(known) - 1
    moved = ((place[one[known[one]]], place[two[known[two]]]) for one, two in splits)
    splits = ((one, two) for one, two in moved if len(one) and len(two))
    groups = kept.texts(Column(name=group, unit="text")) if group else kept.texts(POOL)
    return _score(Lives.read(kept), splits, method=method, groups=groups, split=split)


def fit_lives(lives: Lives, *, method: str, quality: Quality | None = None) -> Lifetimes:
    """Fit lifetimes without holding anything out."""
    choice = choose(_thin(lives), METHODS[method])
    found = fit_ways(lives, choice.ways)
    rates = found.rates
    levels = Levels.of(lives.pools)
    hours = None
    if choice.hour_deaths is not None:
        hours = rounded(ByHour.of(lives, rates[-len(lives.pools) :]).factors(choice.hour_deaths))
    return Lifetimes(
        method=method,
        quality=quality or Quality(samples=len(lives), split="none"),
        keys=levels.keys,
        curves=Curves(rates=rounded(rates), walls=_walls(lives, levels)),
        choice=choice,
        laws={
            law.name: {
                name: float(rounded(np.array(value))) for name, value in law.parameters.items()
            }
            for law in found.laws
        },
        hours=hours,
        seen=Seen(
            lives=len(lives),
            revocations=int(lives.revoked.sum()),
            longest_h=float(lives.hours.max()),
            refused=lives.refused,
            lifted=lives.lifted,
        ),
    )


def _walls(lives: Lives, levels: Levels) -> Floats:
    whole = find_wall(lives.hours)
    members: dict[Pool, list[int]] = {}
    for index, (pool, zone, gpu) in enumerate(lives.pools):
        kin = (FLEET, (ANY, ANY, gpu), (ANY, zone, ANY), (ANY, zone, gpu), (pool, zone, gpu))
        for key in dict.fromkeys(kin):
            members.setdefault(key, []).append(index)
    order = np.argsort(lives.pool, kind="stable")
    ends = np.searchsorted(lives.pool[order], np.arange(1, len(lives.pools)))
    hours = np.split(lives.hours[order], ends)
    return np.array(
        [
            find_wall(np.concatenate([hours[index] for index in members[key]]), otherwise=whole)
            for key in levels.keys
        ]
    )


# ---------------------------------------------------------------- held out


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """Lives that a fit had not seen, and what it foretold of them."""

    rows: Indices
    survival: Floats
    inside: Flags


def _score(
    lives: Lives, splits: Iterable[Split], *, method: str, groups: Texts, split: str
) -> Quality:
    grid = scoring.grid_to(min(scoring.DAY, float(lives.hours.max())))
    held = list(_hold_out(lives, splits, method=method, grid=grid))
    rows = np.concatenate([each.rows for each in held])
    survival = np.concatenate([each.survival for each in held])
    inside = np.concatenate([each.inside for each in held])
    hours, revoked, names = lives.hours[rows], lives.revoked[rows], groups[rows]
    seen = scoring.Steps.of(lives.hours, ~lives.revoked)

    def scores(chosen: Flags) -> Scores:
        mine = (survival[chosen], hours[chosen], revoked[chosen])
        return Scores(
            ks=scoring.distance(*mine, grid=grid),
            integrated_brier=scoring.brier(*mine, seen=seen, grid=grid),
            samples=int(chosen.sum()),
        )

    weight = revoked / np.maximum(seen.at(hours, before=True), scoring.LEAST_SEEN)
    return Quality(
        samples=len(lives),
        split=split,
        errors=scores(np.ones(len(rows), dtype=np.bool_)),
        by_group={str(name): scores(names == name) for name in sorted(set(names.tolist()))},
        coverage=float(weight @ inside / weight.sum()) if weight.any() else None,
    )


def _hold_out(
    lives: Lives, splits: Iterable[Split], *, method: str, grid: Floats
) -> Iterator[_Held]:
    for known, held in splits:
        model = fit_lives(lives.take(known), method=method)
        rest = lives.take(held)
        asked = ask_of(model, rest)
        low, high = (
            asked.curves.quantile(asked.group, asked.age, share) for share in (TAIL, 1 - TAIL)
        )
        yield _Held(
            rows=held,
            survival=asked.survival(grid[None, :]),
            inside=(low <= rest.hours) & (rest.hours <= high),
        )


def ask_of(model: Lifetimes, lives: Lives) -> Asked:
    """Ask a model about lives from their start."""
    keys = [lives.pools[index] for index in lives.pool]
    return model.about(keys, start=lives.start, age=np.zeros(len(lives)))
