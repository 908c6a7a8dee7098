"""What makes us unhealthy, or not ready yet, in words for whoever reads the probe's answer."""

from collections.abc import Sequence
from typing import Final

from ebbtide.cluster.watch import Watch

WATCH_LIMIT: Final = 150.0
"""Seconds: a watch that heard nothing for so long makes us unhealthy."""


def find_silent(watches: Sequence[Watch]) -> str:
    """Name the watches that make no progress; "" for none."""
    silent = [watch.path for watch in watches if watch.age > WATCH_LIMIT]
    return f"no news for {WATCH_LIMIT:.0f} s from {', '.join(silent)}" if silent else ""


def find_unread(watches: Sequence[Watch]) -> str:
    """Name what has not been listed yet; "" for nothing."""
    unread = [watch.path for watch in watches if not watch.synced.is_set()]
    return f"not listed yet: {', '.join(unread)}" if unread else ""
