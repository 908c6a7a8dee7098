"""What a job is to achieve: least cost or least time, by a deadline, within a budget."""

import enum
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal


class Minimize(enum.StrEnum):
    """What is to be small, once deadline and budget are kept."""

    COST = "Cost"
    TIME = "Time"


class OnBudget(enum.StrEnum):
    """What happens when the budget is spent."""

    STOP = "Stop"
    WARN = "Warn"


class PlanMode(enum.StrEnum):
    """Who chooses size and place."""

    AUTO = "Auto"
    DRY_RUN = "DryRun"  # the plan goes into the status, nothing runs
    MANUAL = "Manual"  # elasticPolicy.replicas rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """The goal of one job."""

    minimize: Minimize = Minimize.COST
    deadline: datetime | None = None  # the moment itself; at most one of the two is set
    deadline_after: timedelta | None = None  # ... or counted from the first start
    budget_usd: Decimal | None = None
    on_budget: OnBudget = OnBudget.STOP

    def due(self, first_start: datetime) -> datetime | None:
        """Return the moment by which the work is to be done; None where there is no deadline."""
        if self.deadline_after is not None:
            return first_start + self.deadline_after
        return self.deadline
