"""Whether a better plan is worth its change."""

from datetime import timedelta
from typing import Final

from ebbtide.core.planner.outlook import Field, cents
from ebbtide.core.planner.scoring import Level, Scored
from ebbtide.core.planner.wording import describe_fleet, describe_hours
from ebbtide.core.values.objective import Minimize

HYSTERESIS: Final = 0.05
"""A change must save this share of what is left to spend or to wait, its own cost paid."""
WORTH: Final = 5.0
"""So much more, as a share of the cost, may be spent for certainty to keep the deadline: each of a
hundred cases that are won may cost five in a hundred. Spot for a third of the price is thus left at
once where it keeps the deadline no more than half of the time, and not at 89 instead of 90 %."""
AS_FAST: Final = 0.98
"""Of the rate of the fastest on-demand fleet: who is so fast uses up no slack while it trains."""
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
    dear = _tell_dear(field, best, running)
    if dear or best.level < running.level:
        return (running, dear) if dear else (best, "")
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


def _tell_dear(field: Field, best: Scored, running: Scored) -> str:
    """
    Say that a fleet costs more than its certainty is worth; empty where it does not.

    What runs now, and has all its nodes, keeps the goal as expected, and on-demand can still step
    in later.
    """
    if running.level is not Level.LIKELY or not field.hours:
        return ""
    if not (field.inputs.running.is_there and _is_guarded(field, running)):
        return ""
    extra = best.outlook.usd_late / running.outlook.usd_late - 1
    chances = [one.outlook.probability(field.hours) for one in (running, best)]
    if extra <= HYSTERESIS + WORTH * (chances[1] - chances[0]):
        return ""
    what = describe_fleet(best.outlook.fleet)
    return f"{what} would keep it {chances[1]:.0%} of the time, for {extra:.0%} more"


def _is_guarded(field: Field, running: Scored) -> bool:
    """Tell whether on-demand can keep the deadline though the job goes on as it does for a tick."""
    guard = field.inputs.guard
    if guard is None:
        return False
    is_as_fast = running.outlook.rate >= AS_FAST * guard.samples_per_hour
    return guard.may_start or (is_as_fast and guard.slack_s >= guard.changeover_s)


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
