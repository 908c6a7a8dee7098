"""The fleets that are looked at: the best for the goal, and what a reader would ask about."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ebbtide.core.planner.menu import Cheapest, Fastest, Menu, Slowest, Wish
from ebbtide.core.planner.outlook import Field, Fleet, look_ahead
from ebbtide.core.planner.risk import HOUR, Offer
from ebbtide.core.planner.scoring import Key, Level, Scored, score
from ebbtide.core.values.objective import Minimize

WIDER: Final = 2.0
"""Starts within this factor are planned with as one; each fleet is then looked at by its own."""
MOST_TYPES: Final = 3
"""GPU types that are each tried alone, to tell why a plan mixes them or leaves them out."""
MOST_STEPS: Final = 8
"""Of size, that a plan is moved by after the solver's answer."""
ROUNDS: Final = 4
"""Times that a budget is cut by what starts cost."""


def find_best(field: Field) -> Scored | None:
    """Return the best fleet for the goal, whatever runs; None where no fleet is legal."""
    found = list(_primary(field))
    if not any(one.level is Level.SURE for one in found):
        found += _look(field, _menu(field, field.offers), (Fastest(), Cheapest()), label="")
        if field.budget is not None:
            found += _within(field, _menu(field, field.offers), label="")
    best = min(found, key=_key, default=None)
    return None if best is None else _resize(field, best)


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


def _primary(field: Field) -> Iterator[Scored]:
    """Look at the goal with all pools, and with those only that start fast."""
    if field.running is not None:
        yield from _answers(field, _menu(field, field.offers), start_s=0.0, label="")
    for start_s in _starts(field.offers) if field.hours is not None else (0.0,):
        fast = tuple(
            offer for offer in field.offers if field.hours is None or offer.start_late_s <= start_s
        )
        yield from _answers(field, _menu(field, fast), start_s=start_s, label="")


def _answers(field: Field, menu: Menu, *, start_s: float, label: str) -> Iterator[Scored]:
    """Look at the best fleets of a menu for the goal, if their start takes so long."""
    if field.inputs.minimize is Minimize.TIME and field.budget is not None:
        yield from _within(field, menu, label=label)
        return
    if field.inputs.minimize is Minimize.TIME:
        yield from _look(field, menu, (Fastest(),), label=label)
        return
    if field.hours is None:
        yield from _look(field, menu, (Cheapest(),), label=label)
        return
    hours = field.hours - start_s / HOUR
    if hours > 0:
        yield from _look(field, menu, (Cheapest(field.work / hours),), label=label)


def _glance(field: Field, menu: Menu, *, label: str) -> Iterator[Scored]:
    """Look at a good fleet of a menu for the goal, else at its fastest; never slow."""
    wish = _quick_wish(field, menu)
    found = [] if wish is None else list(_look(field, menu, (wish,), label=label))
    yield from found or _look(field, menu, (Fastest(),), label=label)


def _quick_wish(field: Field, menu: Menu) -> Wish | None:
    if field.inputs.minimize is Minimize.TIME:
        within = field.budget if field.budget is not None and field.budget > 0 else None
        return None if within is None else Fastest(within / field.work)
    if field.hours is None:
        return Cheapest()
    start_s = 0.0
    if field.running is None:
        start_s = max((offer.start_late_s for offer in menu.offers), default=0.0)
    hours = field.hours - start_s / HOUR
    return Slowest(field.work / hours) if hours > 0 else None


def _resize(field: Field, best: Scored) -> Scored:
    """
    Go on to the next legal size as long as that is better.

    The solver counts the money of the work; what starts cost comes on top, and smaller fleets
    start for less.
    """
    sizes = field.inputs.sizes
    for step in (-1, 1):
        for _ in range(MOST_STEPS):
            place = sizes.index(best.outlook.fleet.size) + step
            if not 0 <= place < len(sizes):
                break
            menu = Menu(
                inputs=field.inputs,
                offers=field.offers,
                sizes=(sizes[place],),
                fronts=field.fronts,
            )
            found = min(_answers(field, menu, start_s=0.0, label=""), key=_key, default=best)
            if not found.key < best.key:
                break
            best = found
    return best


def _key(one: Scored) -> Key:
    return one.key


def _within(field: Field, menu: Menu, *, label: str) -> Iterator[Scored]:
    """Look at the fastest fleet within the budget; what its start costs is taken off first."""
    budget = field.budget or 0.0
    allowed = budget
    for _ in range(ROUNDS):
        if not allowed > 0:
            return
        found = list(_look(field, menu, (Fastest(allowed / field.work),), label=label))
        yield from found
        if not found or found[0].outlook.usd_late <= budget:
            return
        allowed -= found[0].outlook.usd_late - budget


def _look(field: Field, menu: Menu, wishes: Sequence[Wish], *, label: str) -> Iterator[Scored]:
    for wish in wishes:
        fleet = menu.choose(wish)
        if fleet is not None:
            yield score(field, look_ahead(field, fleet), label=label)


def _menu(field: Field, offers: tuple[Offer, ...]) -> Menu:
    return Menu(inputs=field.inputs, offers=offers, sizes=field.inputs.sizes, fronts=field.fronts)


def _starts(offers: Sequence[Offer]) -> tuple[float, ...]:
    """Return starts to plan with, rising: the slowest of each group of pools."""
    found: list[float] = []
    least = 0.0
    for start in sorted({offer.start_late_s for offer in offers}):
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
