"""Moments, as the Kubernetes API writes them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import TypeAlias

Clock: TypeAlias = Callable[[], dt.datetime]


def utc_now() -> dt.datetime:
    """Return the time of the machine."""
    return dt.datetime.now(dt.UTC)


def to_seconds(moment: dt.datetime) -> str:
    """Write a metav1.Time, which knows whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def to_micros(moment: dt.datetime) -> str:
    """Write a metav1.MicroTime."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse(text: str) -> dt.datetime:
    """Read a metav1.Time."""
    return dt.datetime.fromisoformat(text)
