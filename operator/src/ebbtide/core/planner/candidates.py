"""The fleets that are looked at: the best for the goal, and what a reader would ask about."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from ebbtide.core.planner.menu import Menu
from ebbtide.core.planner.neighbours import list_neighbours, list_with_other_servers
from ebbtide.core.planner.outlook import Field, Fleet, look_ahead
from ebbtide.core.planner.risk import HOUR, Offer
from ebbtide.core.planner.scoring import Key, Level, Scored, margin_of, score
from ebbtide.core.planner.wishes import Cheapest, Fastest, Nearest, Slowest, Wish
from ebbtide.core.values.objective import Minimize

WIDER: Final = 2.0
"""Starts within this factor are planned with as one where there are many; each fleet is then looked
at by its own."""
MOST_STARTS: Final = 3
"""That are each planned with."""
MOST_TYPES: Final = 3
"""GPU types that are each tried alone, to tell why a plan mixes them or leaves them out."""
MOST_STEPS: Final = 8
"""That a fleet is taken on from what the menus propose."""

FullKey: TypeAlias = tuple[Key, float, float]


def find_best(field: Field) -> Scored | None:
    """Return the best fleet for the goal, whatever runs; None where no fleet is legal."""
    found = list(_propose(field))
    if not any(one.level is Level.SURE for one in found):
        found += _propose_unsure(field)
    best = min(found, key=_key, default=None)
    return None if best is None else _improve(field, best)


def find_nearest(field: Field) -> Scored | None:
    """Return the fleet that is expected to be the earliest, or the cheapest, within the limits."""
    is_cost = field.inputs.minimize is Minimize.COST
    found = (one for one in _propose_expected(field) if one.level is not Level.MISSED)
    return min(
        found,
        key=lambda one: one.outlook.usd if is_cost else one.outlook.hours,
        default=None,
    )


def list_others(field: Field, chosen: Fleet) -> tuple[Scored, ...]:
    """Return other fleets, each the best of its kind and none twice, the best first."""
    seen = {chosen}
    found: list[Scored] = []
    for view in _views(field, chosen):
        menu = Menu(
            inputs=view.field.inputs, offers=view.offers, sizes=view.sizes, fronts=field.fronts
        )
        scored = list(_glance(view.field, menu, label=view.label))
        for one in sorted(scored, key=_key)[:1]:
            if one.outlook.fleet not in seen:
                seen.add(one.outlook.fleet)
                found.append(score(field, one.outlook, label=view.label))
    return tuple(sorted(found, key=_key))


# ------------------------------------------------------------------------- the goal


@dataclass(frozen=True, slots=True)
class Group:
    """Pools that start within some time."""

    offers: tuple[Offer, ...]
    start_h: float

    def wishes(self, field: Field) -> tuple[Wish, ...]:
        """Return what the goal wants of them: with their start, and for what runs without one."""
        starts = (self.start_h,) if field.running is None else (self.start_h, 0.0)
        found = (self._wish(field, start_h) for start_h in dict.fromkeys(starts))
        return tuple(wish for wish in found if wish is not None)

    def _wish(self, field: Field, start_h: float) -> Wish | None:
        idle = start_h / field.work
        if field.inputs.minimize is Minimize.TIME:
            within = _usd_per_sample(field)
            return Fastest() if within is None else Fastest(within, idle)
        if field.hours is None:
            return Cheapest(0.0, idle)
        hours = field.hours - start_h
        return Cheapest(field.work / hours, idle) if hours > 0 else None


def _propose(field: Field) -> Iterator[Scored]:
    """
    Look at the best fleets for the goal in the bad case: of all pools, of those that start fast.

    Nothing is left out: the best fleet starts with its slowest pool, and is the best of those that
    start no later.
    """
    for group in list_groups(field, is_late=True):
        menu = Menu.of(field, group.offers)
        found = list(_look(field, menu, group.wishes(field), label=""))
        yield from found
        if all(one.level is not Level.SURE for one in found):
            yield from _look(field, menu, _keep_margins(field, group, found), label="")


def _keep_margins(field: Field, group: Group, found: Sequence[Scored]) -> Iterator[Wish]:
    """Wish for what ends as much sooner as the margins of some fleets ask for."""
    margins = {margin_of(field, one.outlook) for one in found}
    for margin in sorted(margins - {0.0}):
        hours = (field.hours or 0.0) - group.start_h - margin
        if hours > 0:
            yield Cheapest(field.work / hours, group.start_h / field.work)


def _propose_unsure(field: Field) -> Iterator[Scored]:
    """Look at what comes near the goal in the bad case, and at what meets it as expected."""
    for group in list_groups(field, is_late=True):
        wishes = (*_nearest(field, group), Fastest(), Cheapest(0.0, group.start_h / field.work))
        yield from _look(field, Menu.of(field, group.offers), wishes, label="")
    yield from _propose_expected(field)


def _propose_expected(field: Field) -> Iterator[Scored]:
    for group in list_groups(field, is_late=False):
        wishes = (*_nearest(field, group), *group.wishes(field))
        yield from _look(field, Menu.of(field, group.offers), wishes, label="")


def _nearest(field: Field, group: Group) -> tuple[Wish, ...]:
    within = _usd_per_sample(field)
    if field.hours is None or field.hours <= 0 or within is None:
        return ()
    return (Nearest(field.hours / field.work, within, group.start_h / field.work),)


def _usd_per_sample(field: Field) -> float | None:
    return None if field.budget is None else max(field.budget, 0.0) / field.work


def list_groups(field: Field, *, is_late: bool) -> Iterator[Group]:
    """Return pools by when they start, and as they are in the bad case or as expected."""
    for late_s in _starts(field.offers):
        offers = tuple(offer for offer in field.offers if offer.start_late_s <= late_s)
        if is_late:
            yield Group(offers, late_s / HOUR)
        else:
            expected = tuple(replace(offer, late_rate=offer.rate) for offer in offers)
            yield Group(expected, max(offer.start_s for offer in offers) / HOUR)


def _glance(field: Field, menu: Menu, *, label: str) -> Iterator[Scored]:
    """Look at a good fleet of a menu for the goal, else at its fastest; never slow."""
    wish = _quick_wish(field, menu)
    found = [] if wish is None else list(_look(field, menu, (wish,), label=label))
    yield from found or _look(field, menu, (Fastest(),), label=label)


def _quick_wish(field: Field, menu: Menu) -> Wish | None:
    if field.inputs.minimize is Minimize.TIME:
        within = _usd_per_sample(field)
        return None if not within else Fastest(within)
    if field.hours is None:
        return Cheapest()
    start_s = 0.0
    if field.running is None:
        start_s = max((offer.start_late_s for offer in menu.offers), default=0.0)
    hours = field.hours - start_s / HOUR
    return Slowest(field.work / hours) if hours > 0 else None


def _improve(field: Field, best: Scored) -> Scored:
    """
    Go on from fleet to like fleet as long as that is better.

    The menus count with one start for many pools, and with the bad case or with what is expected;
    what a change of the running fleet costs, what a goal asks that is met as expected only, and
    which of two equal numbers of servers is expected to do more, is seen in each fleet alone.
    """
    is_exact = best.level is Level.SURE and field.running is None and not _has_many_starts(field)
    list_near = list_with_other_servers if is_exact else list_neighbours
    running = field.running
    fleets = [best.outlook.fleet]
    if running is not None and field.can_have(running):
        fleets.append(running)
    for _ in range(MOST_STEPS):
        near = dict.fromkeys(one for fleet in fleets for one in list_near(field, fleet))
        found = min(
            (score(field, look_ahead(field, fleet), label=best.label) for fleet in near),
            key=_key,
            default=best,
        )
        if not _key(found) < _key(best):
            break
        best = found
        fleets = [best.outlook.fleet]
    return best


def _key(one: Scored) -> FullKey:
    """Say what the better fleet has small: where bad cases are equal, what is expected."""
    return one.key, one.outlook.usd * one.outlook.hours, one.outlook.hours


def _look(field: Field, menu: Menu, wishes: Iterable[Wish], *, label: str) -> Iterator[Scored]:
    for wish in wishes:
        fleet = menu.choose(wish)
        if fleet is not None:
            yield score(field, look_ahead(field, fleet), label=label)


def _has_many_starts(field: Field) -> bool:
    return len({offer.start_late_s for offer in field.offers}) > MOST_STARTS


def _starts(offers: Sequence[Offer]) -> tuple[float, ...]:
    """Return starts to plan with, rising: the slowest of each group of pools."""
    starts = sorted({offer.start_late_s for offer in offers})
    if len(starts) <= MOST_STARTS:
        return tuple(starts)
    found: list[float] = []
    least = 0.0
    for start in starts:
        if found and start <= least * WIDER:
            found[-1] = start
        else:
            found.append(start)
            least = start
    return tuple(found)


# ------------------------------------------------------------------------- other views


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """A part of what can be had, that a reader may wonder about."""

    label: str
    field: Field
    offers: tuple[Offer, ...]
    sizes: tuple[int, ...]


def _views(field: Field, chosen: Fleet) -> Iterator[_View]:
    sizes, offers = field.inputs.sizes, field.offers
    spot = tuple(offer for offer in offers if offer.is_spot)
    demand = tuple(offer for offer in offers if not offer.is_spot)
    used = [field.by_name[name] for name, _ in chosen.workers]
    if spot and not field.inputs.on_demand_floor and not all(one.is_spot for one in used):
        yield _View(label="all spot", field=field, offers=spot, sizes=sizes)
    if demand and any(one.is_spot for one in used):
        yield _View(label="all on demand", field=field, offers=demand, sizes=sizes)
    place = sizes.index(chosen.size) if chosen.size in sizes else 0
    for near in (place - 1, place + 1):
        if 0 <= near < len(sizes):
            text = f"{sizes[near]} worker{'s' if sizes[near] > 1 else ''}"
            yield _View(label=text, field=field, offers=offers, sizes=(sizes[near],))
    own = {one.gpu for one in used}
    types = [gpu for gpu in dict.fromkeys(offer.gpu for offer in offers) if {gpu} != own]
    for gpu in types[:MOST_TYPES]:
        only = tuple(offer for offer in offers if offer.gpu == gpu)
        yield _View(label=f"only {gpu}", field=field, offers=only, sizes=sizes)
    low, high = field.inputs.servers
    for count in (chosen.servers - 1, chosen.servers + 1) if field.inputs.uses_servers else ():
        if low <= count <= high:
            text = f"{count} server{'s' if count > 1 else ''}"
            yield _View(label=text, field=_with_servers(field, count), offers=offers, sizes=sizes)


def _with_servers(field: Field, count: int) -> Field:
    inputs = replace(field.inputs, servers=(count, count))
    return replace(field, inputs=inputs)
