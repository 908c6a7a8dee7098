"""
How a pool's past grows: one look at its nodes and pods is folded into what is remembered.

Level-triggered: the past after a look depends on the past before and on what is there, not on what
changed, and a second look at the same changes nothing. A node is followed from the first look that
finds a pod of ours on it. If it goes while it is in use, the provider took it; if it was idle
before, whoever brought it took it back, and all that is known is that it lived until then.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import blake2b

from ebbtide.core.lifecycle.signs import is_going_away
from ebbtide.core.values.observed import Node, Pod
from ebbtide.core.values.past import (
    LIVES_KEPT,
    MOST_FOLLOWED,
    MOST_LIVES,
    MOST_SPELLS,
    SPELLS_KEPT,
    Followed,
    Life,
    Past,
    Spell,
)
from ebbtide.core.values.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolView:
    """What one look shows of a pool."""

    pods: tuple[Pod, ...]  # workers of all jobs that were sent there
    nodes: Mapping[str, Node] | None  # by name, others' among them; None: they cannot be read
    is_continuous: bool = True  # somebody has looked all the time since the past was written

    @property
    def in_use(self) -> dict[str, Pod]:
        """The pods that are on nodes and have not ended, one for each node."""
        return {pod.node: pod for pod in self.pods if pod.node and not pod.ended}

    @property
    def waits(self) -> list[datetime]:
        """Since when pods wait for a node, the longest wait first."""
        since = (p.unschedulable_since for p in self.pods if not p.node and not p.ended)
        return sorted(moment for moment in since if moment is not None)


def remember(past: Past, view: PoolView, *, now: datetime, settings: Settings) -> Past:
    """Return the past with what this look shows; the same object where it shows nothing new."""
    after = _follow(past, view, now=now, settings=settings)
    after = _count_tries(after, view, now=now, wait=settings.capacity_wait)
    return past if after == past else after


def next_look(view: PoolView, past: Past, *, now: datetime, settings: Settings) -> timedelta | None:
    """Return how soon something is to be remembered though nothing happens; None: nothing is."""
    moments = [since + settings.capacity_wait for since in view.waits]
    for one in past.followed:
        node = (view.nodes or {}).get(one.node)
        if node is not None and not node.ready:
            moments.append(node.ready_changed + settings.node_lost)
    return min((moment - now for moment in moments if moment > now), default=None)


# ---------------------------------------------------------------- lives


def _follow(past: Past, view: PoolView, *, now: datetime, settings: Settings) -> Past:
    if view.nodes is None:
        return replace(past, followed=())
    in_use, kept, ended = view.in_use, [], []
    for one in past.followed:
        node = view.nodes.get(one.node)
        lost = _lost_at(one, node, now=now, settings=settings)
        if lost is None:
            kept.append(_watch(one, node, is_used=one.node in in_use, now=now))
        elif one.idle_since is not None:
            ended.append(one.life(now))
        elif view.is_continuous or one.node in in_use:
            lasted = max(lost - one.since, timedelta(0))
            ended.append(Life(since=one.since, lasted=lasted, revoked=True))
        # else nobody knows when it went, nor whether it was needed still
    known = {one.node for one in kept}
    new = [
        Followed(node=name, mark=_mark(node), since=node.ready_changed)
        for name in in_use
        if name not in known and (node := view.nodes.get(name)) is not None and node.ready
    ]
    new.sort(key=lambda one: (one.since, one.node), reverse=True)
    kept += new[: max(MOST_FOLLOWED - len(kept), 0)]
    followed = tuple(sorted(kept, key=lambda one: one.node))
    return replace(past, followed=followed, lives=_add(past.lives, ended))


def _lost_at(
    one: Followed, node: Node | None, *, now: datetime, settings: Settings
) -> datetime | None:
    """Return when a node was lost, by the rules by which its pods are (`signs`); None: it lives."""
    if node is None or _mark(node) != one.mark:
        return now
    if not node.ready and now - node.ready_changed >= settings.node_lost:
        return node.ready_changed
    return None


def _watch(one: Followed, node: Node | None, *, is_used: bool, now: datetime) -> Followed:
    """Note whether a node is in use; pods that leave one that is going do so because it goes."""
    if is_used:
        return replace(one, idle_since=None)
    if one.idle_since is None and not is_going_away(node):
        return replace(one, idle_since=now)
    return one


def _mark(node: Node) -> str:
    return blake2b(f"{node.uid}/{node.boot_id}".encode(), digest_size=8).hexdigest()


def _add(lives: tuple[Life, ...], ended: list[Life]) -> tuple[Life, ...]:
    """Add lives that are over. What is too old goes only then: time alone changes nothing."""
    if not ended:
        return lives
    found = sorted((*lives, *ended), key=lambda life: (life.ended, life.since))
    newest = found[-1].ended
    return tuple(life for life in found if life.ended >= newest - LIVES_KEPT)[-MOST_LIVES:]


# ---------------------------------------------------------------- availability


def _count_tries(past: Past, view: PoolView, *, now: datetime, wait: timedelta) -> Past:
    overdue = [since for since in view.waits if since + wait <= now]
    if overdue:
        return _fail(past, overdue[0])
    past = _succeed(past, view)
    if past.failed_tries and past.failed_at is None:
        return replace(past, failed_at=now)
    return past


def _fail(past: Past, since: datetime) -> Past:
    """Take that somebody has waited in vain since a moment."""
    spell = past.spell
    if spell is None or spell.available:
        begun = since if spell is None else max(since, spell.since)
        spells = _append(past.spells, Spell(available=False, since=begun))
        return replace(past, spells=spells, failed_tries=1, failed_at=None)
    if past.failed_at is None:
        return past
    is_new = since >= past.failed_at  # who waited at the same time tells the same
    return replace(past, failed_tries=past.failed_tries + is_new, failed_at=None)


def _succeed(past: Past, view: PoolView) -> Past:
    """Take that a node has come since the pool ran dry, if one has."""
    spell = past.spell
    if spell is not None and spell.available:
        return past
    came = [moment for moment in _arrivals(past, view) if spell is None or moment > spell.since]
    if not came:
        return past
    spells = _append(past.spells, Spell(available=True, since=min(came)))
    return replace(past, spells=spells, failed_tries=0, failed_at=None)


def _arrivals(past: Past, view: PoolView) -> Iterator[datetime]:
    """Tell when the nodes in use became Ready; where they cannot be read, when pods got them."""
    in_use = view.in_use
    if view.nodes is None:
        yield from (pod.bound_since for pod in in_use.values() if pod.bound_since is not None)
    yield from (one.since for one in past.followed if one.node in in_use)


def _append(spells: tuple[Spell, ...], new: Spell) -> tuple[Spell, ...]:
    """Add a spell, and let go of those that were over long before it began."""
    found = (*spells, new)[-MOST_SPELLS:]
    later = (*(spell.since for spell in found[1:]), new.since)
    oldest = new.since - SPELLS_KEPT
    return tuple(s for s, end in zip(found, later, strict=True) if end >= oldest)
