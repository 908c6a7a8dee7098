"""Moments that users write on a command line."""

from datetime import UTC, datetime

import click


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
    return moment.astimezone(UTC)
