"""How moments, money and rates are spelt where they are stored."""

import math
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

CENT: Final = Decimal("0.01")
MICRO: Final = Decimal("0.000001")

Json = dict[str, Any]


def render_time(moment: datetime) -> str:
    """Return a moment as RFC 3339 in UTC, with its fraction of a second if it has one."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def render_second(moment: datetime) -> str:
    """Return a moment cut to a whole second."""
    return render_time(moment.replace(microsecond=0))


def render_usd(amount: Decimal, step: Decimal = CENT) -> str:
    """Return money as a decimal text."""
    return format(amount.quantize(step, rounding=ROUND_HALF_UP), "f")


def render_rate(value: float) -> float:
    """Return a rate that JSON has a word for."""
    return value if math.isfinite(value) and value > 0 else 0.0


def slim(fields: Json) -> Json:
    """Leave out what says nothing: None and empty texts, lists and maps."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}
