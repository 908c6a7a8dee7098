"""Plans in words: what was chosen, for how much and by when, and why others lost."""

from collections.abc import Iterable
from typing import Final

from ebbtide.core.planner.outlook import Field, Fleet, Outlook, cents
from ebbtide.core.planner.risk import Offer
from ebbtide.core.planner.scoring import Level, Scored
from ebbtide.core.values.objective import Minimize

UNSURE: Final = 1.05
"""A time that may be longer than what is planned with by more than this rests on a guess."""
NEARLY_ALWAYS: Final = 0.995
"""Nodes that can be had for a larger share of the time are not worth a word."""
GUESS: Final = " while the speed is a guess, which measuring will end"


def describe_fleet(fleet: Fleet) -> str:
    """Name the workers of each pool, and servers."""
    parts = [f"{count} on {name}" for name, count in fleet.workers]
    text = f"{fleet.size} worker{'s' if fleet.size > 1 else ''} ({', '.join(parts)})"
    if fleet.servers:
        text += f" with {fleet.servers} server{'s' if fleet.servers > 1 else ''}"
    return text


def describe_hours(hours: float) -> str:
    """Write a duration as people do."""
    minutes = round(hours * 60)
    if minutes < 1:
        return f"{hours * 3600:.0f} s"
    if minutes < 60:  # noqa: PLR2004 -- minutes of an hour
        return f"{minutes} min"
    whole, rest = divmod(minutes, 60)
    return f"{whole} h {rest} min" if rest else f"{whole} h"


def give_reason(field: Field, chosen: Scored, others: tuple[Scored, ...], *, kept: str) -> str:
    """Say in one sentence what was chosen, what is expected, and why not the next best."""
    outlook = chosen.outlook
    verb = "keep" if kept else "run"
    text = (
        f"{verb} {describe_fleet(outlook.fleet)}: {cents(outlook.usd)} USD more"
        f" in {describe_hours(outlook.hours)}"
    )
    text += _aim(field, chosen, kept=kept) + _tell_rare(field, outlook.fleet)
    if kept:
        return f"{text}; {kept}"
    if others:
        text += f"; the next best, {others[0].label}, {tell_why(field, others[0], chosen)}"
    return text


def tell_why(field: Field, other: Scored, chosen: Scored) -> str:
    """Say in numbers why a fleet lost."""
    outlook, best = other.outlook, chosen.outlook
    if other.level > chosen.level or other.level is Level.MISSED:
        return _tell_risk(field, outlook, other.level)
    if chosen.level is Level.LIKELY and field.hours is not None:
        chances = [f"{one.probability(field.hours):.0%}" for one in (outlook, best)]
        if chances[0] != chances[1]:
            return f"meets the deadline with {chances[0]}, not {chances[1]}"
    usd, hours = outlook.usd - best.usd, outlook.hours - best.hours
    money = f"costs {cents(abs(usd))} USD {'more' if usd >= 0 else 'less'}"
    time = f"takes {describe_hours(abs(hours))} {'longer' if hours >= 0 else 'less'}"
    if field.inputs.minimize is Minimize.COST:
        late = outlook.usd_late - best.usd_late
        doubt = f", but {cents(late)} USD more in bad cases" if usd < 0 < late else ""
        return f"{money}{doubt} and {time}"
    late = outlook.hours_late - best.hours_late
    doubt = f", but {describe_hours(late)} longer in bad cases" if hours < 0 < late else ""
    return f"{time}{doubt} and {money}"


def describe_supply(offers: Iterable[Offer]) -> tuple[str, ...]:
    """Say of pools that run dry at times how much of the time they are counted on."""
    return tuple(
        f"pool {offer.name}: it gives nodes for {describe_hours(offer.state.supply.up_h)} in the"
        f" mean, then none for {describe_hours(offer.state.supply.down_h)}, as it did before; it is"
        f" counted on for {offer.availability:.0%} of the time"
        for offer in offers
        if offer.availability < NEARLY_ALWAYS
    )


def _tell_rare(field: Field, fleet: Fleet) -> str:
    used = (field.by_name[name] for name, _ in fleet.workers)
    rare = [
        f"{offer.name} is counted on for {offer.availability:.0%} of the time"
        for offer in used
        if offer.availability < NEARLY_ALWAYS
    ]
    return f", where {' and '.join(rare)}" if rare else ""


def _aim(field: Field, chosen: Scored, *, kept: str) -> str:
    parts = []
    if field.hours is not None:
        chance = chosen.outlook.probability(field.hours)
        guess = GUESS if chosen.outlook.hours_high > UNSURE * chosen.outlook.hours_late else ""
        until = describe_hours(field.hours)
        parts.append(f"the deadline in {until} is met with {chance:.0%}{guess}")
    if field.budget is not None:
        parts.append(f"the budget leaves {cents(field.budget)} USD")
    if chosen.level is Level.LIKELY and not kept:
        parts.append("and no fleet makes that safer")
    return f", {', '.join(parts)}" if parts else ""


def _tell_risk(field: Field, outlook: Outlook, level: Level) -> str:
    late = level is Level.LIKELY
    hours = outlook.hours_late if late else outlook.hours
    usd = outlook.usd_late if late else outlook.usd
    how = "in bad cases " if late else ""
    if field.hours is not None and hours > field.hours:
        over = describe_hours(hours - field.hours)
        return f"{how}ends {over} after the deadline"
    budget = field.budget or 0.0
    return f"{how}costs {cents(usd)} USD, {cents(usd - budget)} USD above what the budget leaves"
