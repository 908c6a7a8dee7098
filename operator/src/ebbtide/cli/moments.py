"""Moments that users write on a command line."""

from datetime import UTC, datetime
from typing import Final

import click

YEARS: Final = (2000, 2999)
"""As in a manifest; what begins or ends long before or after stays inside the calendar."""


def read_moment(text: str, *, option: str, example: str) -> datetime:
    """Read a moment with its time zone; raises BadParameter."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        what = f"{text!r} is no moment like {example}"
        raise click.BadParameter(what, param_hint=option) from error
    if moment.tzinfo is None:
        what = f"{text!r} has no time zone: end it with Z or an offset like +02:00"
        raise click.BadParameter(what, param_hint=option)
    first, last = YEARS
    if not first <= moment.year <= last:
        what = f"{text!r} is not of the years {first} to {last}"
        raise click.BadParameter(what, param_hint=option)
    return moment.astimezone(UTC)
