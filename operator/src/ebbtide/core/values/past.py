"""
What is remembered of a pool: when it gave nodes, and how long nodes lived there.

A past is bounded in number and in time, so that it fits into the status of a `CapacityPool`. What
follows from it (how long a pool is left out, which lives say something about the next node) is
computed from it and the time, and stored nowhere.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

MOST_SPELLS: Final = 200
MOST_LIVES: Final = 200
MOST_FOLLOWED: Final = 256
"""Nodes of a pool whose lives are followed at once; more of one pool would tell little more."""
SPELLS_KEPT: Final = timedelta(days=30)
"""As the deadline policy forgets: half of it in 20 days."""
LIVES_KEPT: Final = timedelta(days=7)

FIRST_REST: Final = 2
"""
In waits for capacity: so long is a pool left out that gave no node, and twice as long each time.

More than one, or the first of three pools would be tried again before the third one was.
"""
LONGEST_REST: Final = 64

QUICK_STARTS: Final = 2.0
"""In start-ups: who lives for less has given less work than its start took."""
QUICK_LOSSES: Final = 3
"""So many in a row are a bad phase."""
PHASE: Final = 20.0
"""In start-ups, an hour where they take three minutes: how long three losses are remembered."""
LONGEST_PHASE: Final = 24
"""Of those: a day, then."""
TOGETHER: Final = 1 / 3
"""In start-ups, a minute then: nodes that went this close went for one reason, as one loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """From when on nodes could be had, or not; until the next spell."""

    available: bool
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """The life of a node, from Ready on, as far as it was seen."""

    since: datetime
    lasted: timedelta
    revoked: bool  # by the provider; else it was alive when it was last of use to us

    @property
    def ended(self) -> datetime:
        """When it was over, or last seen."""
        return self.since + self.lasted


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """A node that carries pods of ours, or did until it was not needed any more."""

    node: str
    mark: str  # of the object and the boot: another one under this name is another node
    since: datetime  # Ready
    idle_since: datetime | None = None  # without a pod of ours; what comes then is no loss of ours

    def life(self, now: datetime) -> Life:
        """Return its life as far as it is known now."""
        end = self.idle_since or now
        return Life(since=self.since, lasted=max(end - self.since, timedelta(0)), revoked=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """One pool's."""

    spells: tuple[Spell, ...] = ()  # by time; the last one holds
    failed_tries: int = 0  # in a row: waits for a node that ended without one
    failed_at: datetime | None = None  # the end of the last one; None: somebody waits still
    lives: tuple[Life, ...] = ()  # that are over, by their end
    followed: tuple[Followed, ...] = ()  # by name

    @property
    def spell(self) -> Spell | None:
        """The present spell; None: nobody has asked for a node yet."""
        return self.spells[-1] if self.spells else None

    @property
    def last_revocation(self) -> datetime | None:
        """When the provider last took a node."""
        return max((life.ended for life in self.lives if life.revoked), default=None)

    def left_out_until(self, wait: timedelta) -> datetime | None:
        """
        Return until when no node should be asked for; None: it gave some, or somebody asks now.

        `wait` is how long a worker waits for a node before that counts as a failed try.
        """
        if not self.failed_tries or self.failed_at is None:
            return None
        times: int = min(FIRST_REST * 2 ** min(self.failed_tries - 1, 30), LONGEST_REST)
        return self.failed_at + wait * times

    def dry_since(self, now: datetime, wait: timedelta) -> datetime | None:
        """Return since when there has been no node: while somebody waits, or it is left out."""
        spell = self.spell
        if spell is None or spell.available:
            return None
        until = self.left_out_until(wait)
        return None if until is not None and now >= until else spell.since

    def bad_until(self, now: datetime, start: timedelta) -> datetime | None:
        """Return until when quick losses in a row are held against the pool; None: they are not."""
        quick = (life for life in self.lives if life.revoked and _is_quick(life, start))
        if sum(1 for _ in quick) < QUICK_LOSSES:  # so it is nearly always, and this is quick
            return None
        rows = list(_rows(self._known(now), start))
        if not rows or rows[-1].is_broken or rows[-1].number < QUICK_LOSSES:
            return None
        until = rows[-1].until(start)
        return until if now < until else None

    def believed(self, now: datetime, start: timedelta) -> tuple[Life, ...]:
        """
        Return the lives that tell how long the next node will live, the running ones included.

        A bad phase is one event however many nodes went in it: once it is over, one loss of it
        counts. So the pool is tried again, and with one more quick loss the phase goes on, for
        twice as long.
        """
        known, is_bad = self._known(now), self.bad_until(now, start) is not None
        rows = [row for row in _rows(known, start) if row.number >= QUICK_LOSSES]
        kept = list(known)
        for row in rows[:-1] if is_bad else rows:
            for life in row.lives[:-1]:
                kept.remove(life)
        return tuple(kept)

    def _known(self, now: datetime) -> tuple[Life, ...]:
        """Lives that are not too old, by their end; those of nodes that still live at the end."""
        ended = [life for life in self.lives if now - LIVES_KEPT <= life.ended]
        return (*ended, *(node.life(now) for node in self.followed))


@dataclass(slots=True)
class _Row:
    """Quick losses without a node in between that was worth its start."""

    lives: list[Life]
    number: int = 1  # those that went together count once
    is_broken: bool = False

    def until(self, start: timedelta) -> datetime:
        """Return until when it speaks against a pool."""
        times: int = min(2 ** min(max(self.number - QUICK_LOSSES, 0), 30), LONGEST_PHASE)
        return self.lives[-1].ended + start * PHASE * times


def _is_quick(life: Life, start: timedelta) -> bool:
    return life.lasted < start * QUICK_STARTS


def _rows(lives: Iterable[Life], start: timedelta) -> Iterator[_Row]:
    """Find the rows of quick losses, by time."""
    row: _Row | None = None
    for life in sorted(lives, key=lambda life: (life.ended, life.since)):
        is_quick = _is_quick(life, start)
        if row is not None and not is_quick and life.since >= row.lives[0].since:
            row.is_broken = True
            yield row
            row = None
        elif life.revoked and is_quick:
            if row is None:
                row = _Row(lives=[life])
                continue
            row.number += life.ended - row.lives[-1].ended > start * TOGETHER
            row.lives.append(life)
    if row is not None:
        yield row


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeTold:
    """What is expected of a new node's life, for whoever reads the status."""

    family: str
    parameters: Mapping[str, float]  # by name; times in hours
    samples: int  # own lives
    brier: float | None  # integrated, on lives that the fit did not see; None: too few


def join(pasts: Iterable[Past]) -> tuple[Spell, ...]:
    """Return when at least one of several pools gave nodes, as far as anything is known."""
    changes: dict[datetime, dict[int, bool]] = {}
    for number, past in enumerate(pasts):
        for spell in past.spells:
            changes.setdefault(spell.since, {})[number] = spell.available
    now: dict[int, bool] = {}
    found: list[Spell] = []
    for since in sorted(changes):
        now |= changes[since]
        available = any(now.values())
        if not found or found[-1].available is not available:
            found.append(Spell(available=available, since=since))
    return tuple(found)
