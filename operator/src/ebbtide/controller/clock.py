"""The one place of the operator that reads the clock."""

from datetime import UTC, datetime


def now() -> datetime:
    """The moment, in UTC."""
    return datetime.now(tz=UTC)
