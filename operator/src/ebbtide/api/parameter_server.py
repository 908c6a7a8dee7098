"""How many parameter servers a job has, and what each of them asks for."""

from typing import Annotated, ClassVar, Final

from pydantic import Field

from ebbtide.api.fields import AUTO, Rule, Schema, auto_or_number, auto_rule
from ebbtide.api.template import GPU, Quantity
from ebbtide.core.values.job import MAX_SERVERS

MAX_STALENESS: Final = 10**6
_MOST_RESOURCES: Final = 16

Quantities = Annotated[dict[str, Quantity], Field(max_length=_MOST_RESOURCES)]


class ServerResources(Schema):
    """Requests and limits of one server."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=f"(!has(self.limits) || !('{GPU}' in self.limits)) &&"
            f" (!has(self.requests) || !('{GPU}' in self.requests))",
            message=f"a parameter server computes on the CPU: {GPU} has to be removed",
            holds=lambda resources: GPU not in {*resources.limits, *resources.requests},
        ),
    )
    requests: Quantities = Field(default_factory=dict, description="What a node must have left.")
    limits: Quantities = Field(default_factory=dict, description="What a server may use at most.")


class ParameterServer(Schema):
    """The parameter servers of a job."""

    rules: ClassVar[tuple[Rule, ...]] = (auto_rule("replicas", MAX_SERVERS),)
    replicas: Annotated[int | str, auto_or_number(MAX_SERVERS)] = Field(
        default=AUTO,
        json_schema_extra={"x-kubernetes-int-or-string": True},
        description="How many servers hold the parameters, each a part of them. Auto: as many as"
        " the plan finds useful; 1 without a plan, in planMode Manual. A change while the job"
        " trains moves the parts from server to server.",
    )
    max_staleness: Annotated[int, Field(strict=True, ge=0, le=MAX_STALENESS)] | None = Field(
        default=None,
        description="How many pushes of others a gradient may be behind when it is applied: the"
        " quick wait for the slow. Absent: any number, nobody waits.",
    )
    resources: ServerResources | None = Field(
        default=None,
        description="What one server asks for. Absent: what the first container of the template"
        " does, without GPUs. A change counts for servers made from then on.",
    )
