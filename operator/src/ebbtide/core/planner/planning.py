"""
plan(inputs, now): what to run, what is expected of it, and what it was chosen over.

Look at the pools (`risk`), propose fleets for the goal (`candidates`, `menu`), foresee each
(`outlook`), take the best (`scoring`) unless the change does not pay (`stability`), and say why
(`wording`); or say why there is none (`refusal`).
"""

from datetime import datetime
from typing import Final

from ebbtide.core.planner.candidates import find_best, list_others
from ebbtide.core.planner.inputs import Inputs
from ebbtide.core.planner.outlook import (
    Field,
    interval_of,
    look_ahead,
    predict,
    share_out,
)
from ebbtide.core.planner.refusal import find_fault, find_shortage, refuse
from ebbtide.core.planner.risk import make_offers
from ebbtide.core.planner.scoring import Level, Scored, score
from ebbtide.core.planner.spares import Reserve, charge, choose_reserve
from ebbtide.core.planner.stability import settle
from ebbtide.core.planner.wording import describe_supply, give_reason, tell_why
from ebbtide.core.values.plan import Alternative, Infeasible, Plan

MOST_ALTERNATIVES: Final = 5
NO_RESERVE: Final = Reserve()


def plan(inputs: Inputs, now: datetime) -> Plan | Infeasible:
    """Return the best plan for the goal, or why there is none and the nearest that can be met."""
    field = lay_out(charge(inputs), now)
    if isinstance(field, Infeasible):
        return field
    best = find_best(field)
    running = _look_at_running(field)
    if running is not None and (best is None or running.key < best.key):
        best = running
    if best is None or best.level is Level.MISSED:
        return refuse(field)
    chosen, kept = settle(field, best, running)
    others = _compare(field, chosen, kept=kept)
    reason = give_reason(field, chosen, others, kept=kept)
    reserve = choose_reserve(field, chosen.outlook)
    return write(field, chosen, reason=reason, others=others, reserve=reserve)


def _compare(field: Field, chosen: Scored, *, kept: str) -> tuple[Scored, ...]:
    """List the runners-up; of a plan that is kept they are told, and count for nothing."""
    if kept and not field.inputs.tells_losers:
        return ()
    return list_others(field, chosen.outlook.fleet)[:MOST_ALTERNATIVES]


def lay_out(inputs: Inputs, now: datetime) -> Field | Infeasible:
    """Check the question and turn pools into offers."""
    fault = find_fault(inputs)
    if fault:
        return Infeasible(reason=fault)
    offers, notes = make_offers(inputs)
    field = Field(inputs=inputs, now=now, offers=offers, notes=notes)
    shortage = find_shortage(field)
    return Infeasible(reason=shortage) if shortage else field


def _look_at_running(field: Field) -> Scored | None:
    """Judge what runs now; None where nothing does, or where it cannot go on."""
    fleet = field.running
    if fleet is None or not field.can_have(fleet):
        return None
    return score(field, look_ahead(field, fleet), label="what runs now")


def write(
    field: Field,
    chosen: Scored,
    *,
    reason: str,
    others: tuple[Scored, ...] = (),
    reserve: Reserve = NO_RESERVE,
) -> Plan:
    """Return a fleet as a plan."""
    fleet = chosen.outlook.fleet
    told, noted = (reserve.why, "") if reserve.spares else ("", reserve.why)
    return Plan(
        shares=share_out(field, fleet),
        servers=fleet.servers,
        spares=reserve.spares,
        spare_pool=reserve.pool,
        on_demand_floor=field.inputs.on_demand_floor,
        checkpoint_interval=interval_of(field, fleet),
        predicted=predict(field, reserve.apply(field, chosen.outlook)),
        reason=f"{reason}; {told}" if told else reason,
        alternatives=tuple(
            Alternative(
                shares=share_out(field, other.outlook.fleet),
                servers=other.outlook.fleet.servers,
                predicted=predict(field, other.outlook),
                why=f"{other.label}: {tell_why(field, other, chosen)}",
            )
            for other in others
        ),
        assumptions=(
            *field.inputs.speed.notes,
            *describe_supply(field.offers),
            *field.notes,
            *((noted,) if noted else ()),
        ),
        made_at=field.now,
    )
