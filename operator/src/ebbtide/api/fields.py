"""What all models share: strictness, camelCase names, rules and the common bounded types."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Final

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainValidator,
    StringConstraints,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError
from typing_extensions import override

AUTO: Final = "Auto"
DECIMAL: Final = r"^[0-9]{1,12}(\.[0-9]{1,6})?$"
OPEN_MARK: Final = "x-ebbtide-open"
LARGEST: Final = 10**12
"""Far beyond any real count, and exact in every JSON reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One thing that fields must fulfil together, spelt for the API server and for us."""

    cel: str
    message: str  # says what would be right; the API server shows it as it is
    field: str = ""  # the field to blame, from the model the rule stands on: `.path`
    holds: Callable[[Any], bool] | None = None  # None: needs the old object, so CEL alone tells
    reason: str = "FieldValueInvalid"

    def as_validation(self) -> dict[str, str]:
        """Return the entry of `x-kubernetes-validations`."""
        entry = {"rule": self.cel, "message": self.message, "reason": self.reason}
        return {**entry, "fieldPath": self.field} if self.field else entry


class Schema(BaseModel):
    """A part of a kind. An unknown field is an error, never silently dropped."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, frozen=True)
    rules: ClassVar[tuple[Rule, ...]] = ()

    @classmethod
    @override
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> JsonSchemaValue:
        """Add the rules and whether further fields are kept, in words that `render` knows."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        if cls.rules:
            schema["x-kubernetes-validations"] = [rule.as_validation() for rule in cls.rules]
        if cls.model_config.get("extra") == "allow":
            schema[OPEN_MARK] = True
        return schema


class Open(Schema):
    """A part whose further fields belong to Kubernetes: they are kept and not looked at."""

    model_config = ConfigDict(extra="allow", alias_generator=to_camel, frozen=True)


Count = Annotated[int, Field(strict=True, ge=0, le=LARGEST)]
Positive = Annotated[int, Field(strict=True, ge=1, le=LARGEST)]
Rate = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Ratio = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Amount = Annotated[float, Field(gt=0, le=1e18, allow_inf_nan=False)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Moment = AwareDatetime
Text = Annotated[str, StringConstraints(max_length=32768)]
Short = Annotated[str, StringConstraints(max_length=128)]
Name = Annotated[str, StringConstraints(max_length=253)]
ObjectName = Annotated[
    str, StringConstraints(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
]
Label = Annotated[str, StringConstraints(min_length=1, max_length=63)]
LabelValue = Annotated[str, StringConstraints(max_length=63)]
Labels = Annotated[dict[str, LabelValue], Field(min_length=1, max_length=64)]
Money = Annotated[str, StringConstraints(pattern=DECIMAL, max_length=20)]


def as_decimal(money: str) -> Decimal:
    """Return the number in a checked money text."""
    return Decimal(money)


def auto_or_number(most: int, *, least: int = 1) -> PlainValidator:
    """Return the check of a field that is `Auto` or a whole number from `least` on."""

    def check(value: object) -> int | str:
        if value == AUTO:
            return AUTO
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        text = f"must be {AUTO} or a number from {least} to {most}"
        raise PydanticCustomError("auto_or_number", text)

    return PlainValidator(check, json_schema_input_type=Any)


def auto_rule(field: str, most: int, *, least: int = 1) -> Rule:
    """Return the rule that says the same to the API server; for us, the field checks itself."""
    value = f"self.{field}"
    return Rule(
        cel=f"type({value}) == int ? ({value} >= {least} && {value} <= {most})"
        f" : {value} == '{AUTO}'",
        message=f"{field} must be {AUTO} or a number from {least} to {most}",
        field=f".{field}",
    )


def section(model: type[Schema], description: str) -> Any:  # noqa: ANN401 -- a pydantic default, typed by its annotation
    """
    Return a field that may be left out, which gives all its parts their defaults.

    The default is spelt out in full: the API server tests the rules on it as it stands.
    """
    default = model().model_dump(mode="json", by_alias=True, exclude_none=True)
    return Field(
        default_factory=model, description=description, json_schema_extra={"default": default}
    )
