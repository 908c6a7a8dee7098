"""What a job is to achieve: least cost or least time, by a deadline, within a budget."""

import re
from datetime import datetime
from typing import Annotated, ClassVar, Final

from pydantic import BeforeValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from ebbtide.api.fields import Moment, Positive, Rule, Schema
from ebbtide.core.values.objective import Minimize, OnBudget

BUDGET: Final = r"^[0-9]{1,9}\.[0-9]{2}$"
_MOMENT: Final = re.compile(
    r"^2[0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$"
)


def check_moment(value: object) -> object:
    """Let through what RFC 3339 calls a moment, and what a YAML reader made of one."""
    if isinstance(value, datetime) or (isinstance(value, str) and _MOMENT.fullmatch(value)):
        return value
    raise PydanticCustomError(
        "moment",
        "must be a moment (years 2000 to 2999) with its time zone, as in 2030-01-31T18:00:00Z",
    )


class ObjectiveSpec(Schema):
    """What the plan is to achieve."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!(has(self.deadline) && has(self.deadlineSeconds))",
            message="deadline and deadlineSeconds exclude each other: give the moment, or the time"
            " from the first start",
            field=".deadline",
            holds=lambda goal: goal.deadline is None or goal.deadline_seconds is None,
        ),
        Rule(
            cel="!has(self.budget) || self.budget.matches('[1-9]')",
            message="budget must be above 0.00: leave it out where there is none",
            field=".budget",
            holds=lambda goal: goal.budget is None or goal.budget.strip("0.") != "",
        ),
    )
    minimize: Minimize = Field(
        default=Minimize.COST,
        description="What is to be small once deadline and budget are kept: Cost or Time.",
    )
    deadline_seconds: Positive | None = Field(
        default=None,
        description="Seconds from the first start by which the work is to be done; waiting for"
        " capacity counts. A goal: the job is not ended when it is missed.",
    )
    deadline: Annotated[Moment, BeforeValidator(check_moment)] | None = Field(
        default=None,
        description="The moment by which the work is to be done, as in 2030-01-31T18:00:00Z.",
        json_schema_extra={"pattern": _MOMENT.pattern, "maxLength": 35},
    )
    budget: Annotated[str, StringConstraints(pattern=BUDGET, max_length=12)] | None = Field(
        default=None,
        description="US dollars that the whole job may cost, with two decimals, as in 120.00. It"
        " limits what is planned.",
    )
    on_budget: OnBudget = Field(
        default=OnBudget.STOP,
        description="What happens when the budget is spent: Stop ends the job, Warn only says so."
        " Not acted on yet: a later version stops the job; until then both only limit the plan.",
    )
