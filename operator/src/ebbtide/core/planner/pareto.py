"""The front of cost and time: for each time the fleet that costs least, for display."""

from collections.abc import Iterator
from datetime import datetime

from ebbtide.core.planner.candidates import list_groups
from ebbtide.core.planner.inputs import Inputs
from ebbtide.core.planner.menu import Menu
from ebbtide.core.planner.outlook import Field, Fleet, Outlook, look_ahead
from ebbtide.core.planner.planning import lay_out, write
from ebbtide.core.planner.scoring import score
from ebbtide.core.planner.spares import Reserve, charge, choose_reserve
from ebbtide.core.planner.wording import describe_fleet, describe_hours
from ebbtide.core.values.plan import Infeasible, Plan


def pareto(inputs: Inputs, now: datetime) -> tuple[Plan, ...]:
    """
    Return plans of which none is both cheaper and earlier than another, the earliest first.

    Deadline and budget are left aside; each plan says how likely it meets the deadline, and has its
    spares as a chosen plan has.
    """
    field = lay_out(charge(inputs), now)
    if isinstance(field, Infeasible):
        return ()
    plans = []
    least = float("inf")
    for told, outlook, reserve in sorted(_look(field), key=lambda one: (one[0].hours, one[0].usd)):
        if told.usd < least * (1 - 1e-9):
            least = told.usd
            plans.append(_write(field, outlook, reserve))
    return tuple(plans)


def _look(field: Field) -> Iterator[tuple[Outlook, Outlook, Reserve]]:
    """Return what is expected of each fleet with its spares, and without; and these."""
    for fleet in _fleets(field):
        outlook = look_ahead(field, fleet)
        reserve = choose_reserve(field, outlook)
        yield reserve.apply(field, outlook), outlook, reserve


def _fleets(field: Field) -> tuple[Fleet, ...]:
    """Return what may be on the front, each once: what runs, and the cheapest at each speed."""
    running = field.running
    found: dict[Fleet, None] = {}
    if running is not None and field.can_have(running):
        found[running] = None
    for group in list_groups(field, is_late=False):
        found |= dict.fromkeys(Menu.of(field, group.offers).list_all())
    return tuple(found)


def _write(field: Field, outlook: Outlook, reserve: Reserve) -> Plan:
    text = f"{describe_fleet(outlook.fleet)} cost least within {describe_hours(outlook.hours)}"
    return write(field, score(field, outlook, label=""), reason=text, reserve=reserve)
