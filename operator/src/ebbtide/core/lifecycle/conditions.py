"""Conditions: nine that are always there, two that are there only while True, and the state."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from ebbtide.core.values import reasons
from ebbtide.core.values.decision import Event
from ebbtide.core.values.status import Condition, JobStatus

MESSAGE_LIMIT = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What one condition should say now."""

    status: str
    reason: str
    message: str = ""


def yes(reason: str, message: str = "") -> Claim:
    """Claim that a condition is True."""
    return Claim(status="True", reason=reason, message=message)


def no(reason: str, message: str = "") -> Claim:
    """Claim that a condition is False."""
    return Claim(status="False", reason=reason, message=message)


def initial_claims() -> dict[str, Claim]:
    """What every condition says before anything is known."""
    return {
        kind: Claim(status="Unknown", reason=reasons.NOT_STARTED)
        if kind in reasons.UNTIL_KNOWN
        else no(reasons.NOT_STARTED)
        for kind in reasons.LASTING
    }


def update(
    before: tuple[Condition, ...], claims: Mapping[str, Claim], *, generation: int, now: datetime
) -> tuple[Condition, ...]:
    """
    Return the conditions after the claims; what is not claimed stays, if it is a lasting one.

    `lastTransitionTime` moves only when the status does.
    """
    old = {condition.type: condition for condition in before}
    defaults = initial_claims()
    after: list[Condition] = []
    for kind in (*reasons.LASTING, reasons.RECONCILING, reasons.STALLED):
        claim, previous = claims.get(kind), old.get(kind)
        if claim is None and kind not in reasons.LASTING:
            continue
        if claim is None and previous is not None:
            after.append(previous)
            continue
        claim = claim or defaults[kind]
        same = previous is not None and previous.status == claim.status
        after.append(
            Condition(
                type=kind,
                status=claim.status,
                reason=claim.reason,
                message=claim.message[:MESSAGE_LIMIT],
                observed_generation=generation,
                last_transition=previous.last_transition if previous and same else now,
            )
        )
    return tuple(after)


def derive_state(status: JobStatus, *, suspend: bool, has_pods: bool) -> str:
    """Return the text of the State column: the first that holds. Nobody decides by it."""
    replacing = status.is_true(reasons.REPLACING)
    told = status.condition(reasons.RUNNING)
    finishing = told is not None and told.reason == reasons.FINISHED
    running = status.is_true(reasons.RUNNING) or finishing
    rules = (
        ("Failed", status.is_true(reasons.FAILED)),
        ("Complete", status.is_true(reasons.COMPLETE)),
        ("Suspended", status.is_true(reasons.SUSPENDED)),
        ("Suspending", suspend),
        ("Recovering", replacing or (status.start is not None and not running)),
        ("Running", running),
        ("Starting", has_pods),
    )
    return next((state for state, holds in rules if holds), "Pending")


def tell_changes(before: JobStatus, after: JobStatus) -> tuple[Event, ...]:
    """Return the events for conditions that turned."""
    events: list[Event] = []
    stalled = after.condition(reasons.STALLED)
    is_hopeless = stalled is not None and stalled.reason == reasons.GOAL_INFEASIBLE
    for condition in after.conditions:
        old = before.condition(condition.type)
        if old is not None and (old.status, old.reason) == (condition.status, condition.reason):
            continue
        if condition.type == reasons.GOAL_AT_RISK and is_hopeless:
            continue  # GoalInfeasible says more
        event = _event(old, condition)
        if event is not None:
            events.append(event)
    return tuple(events)


def _event(old: Condition | None, new: Condition) -> Event | None:  # noqa: PLR0911 -- one return for each rule, the first that matches
    turned_true = new.status == "True" and (old is None or old.status != "True")
    if new.type == reasons.STALLED:
        return Event(reason=new.reason, message=new.message, warning=True)
    if new.type == reasons.FAILED and turned_true:
        return Event(reason=new.reason, message=new.message, warning=True)
    if new.type == reasons.COMPLETE and turned_true:
        return Event(reason=reasons.COMPLETED, message=new.message)
    if new.type == reasons.RUNNING and turned_true:
        return Event(reason=reasons.RUNNING_EVENT, message=new.message)
    if new.type == reasons.RUNNING and new.reason == reasons.NO_CAPACITY:
        return Event(reason=new.reason, message=new.message, warning=True)
    if new.type == reasons.SUSPENDED and turned_true:
        return Event(reason=reasons.SUSPENDED, message=new.message)
    if new.type == reasons.SUSPENDED and old is not None and new.reason == reasons.RESUMED:
        return Event(reason=reasons.RESUMED, message=new.message)
    if new.type == reasons.GOAL_AT_RISK:
        return _tell_goal(old, new)
    failing = new.type == reasons.CHECKPOINTS_HEALTHY and new.status == "False"
    if failing and old is not None and old.status != "False":
        return Event(reason=reasons.CHECKPOINT_FAILED, message=new.message, warning=True)
    return None


def _tell_goal(old: Condition | None, new: Condition) -> Event | None:
    """Tell that the goal is in danger, or is not any more; by what it is may change unsaid."""
    was_true, is_true = old is not None and old.status == "True", new.status == "True"
    if was_true is is_true:
        return None
    reason = reasons.GOAL_AT_RISK if is_true else new.reason
    return Event(reason=reason, message=new.message, warning=is_true)
