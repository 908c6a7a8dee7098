"""Whether a better plan is worth its change."""

from datetime import timedelta
from typing import Final

from ebbtide.core.planner.outlook import Field, cents
from ebbtide.core.planner.scoring import Level, Scored
from ebbtide.core.planner.wording import describe_fleet, describe_hours
from ebbtide.core.values.objective import Minimize

HYSTERESIS: Final = 0.05
"""A change must save this share of what is left to spend or to wait, its own cost paid."""
MOST_CHANGES: Final = 6
"""Within `WINDOW`; more only where the goal would be missed."""
WINDOW: Final = timedelta(hours=1)


def settle(field: Field, best: Scored, running: Scored | None) -> tuple[Scored, str]:
    """
    Return the plan to take, and why it stays the running one; empty where it does not.

    The best one is already charged with its change: what its new nodes need to start, and what the
    fleet waits.
    """
    if running is None:
        return best, ""
    if best.outlook.fleet == running.outlook.fleet:
        return running, "nothing else is better"
    if best.level < running.level:
        return best, ""
    changes = [moment for moment in field.inputs.running.changes if field.now - moment < WINDOW]
    if len(changes) >= MOST_CHANGES:
        return (
            running,
            f"the plan changed {len(changes)} times within an hour, {MOST_CHANGES} is the limit",
        )
    saving = running.value - best.value
    if saving > HYSTERESIS * running.value:
        return best, ""
    return running, _tell(field, best, saving, running)


def _tell(field: Field, best: Scored, saving: float, running: Scored) -> str:
    share = saving / running.value if running.value else 0.0
    what = describe_fleet(best.outlook.fleet)
    if saving <= 0:
        return f"{what} would be no better once the change is paid"
    if running.level is not Level.SURE:
        much = f"{share:.1%} of the excess"
    elif field.inputs.minimize is Minimize.COST:
        much = f"{cents(saving)} USD, {share:.1%} of what is left"
    else:
        much = f"{describe_hours(saving)}, {share:.1%} of what is left"
    return f"{what} would save {much}: less than the {HYSTERESIS:.0%} that a change must"
