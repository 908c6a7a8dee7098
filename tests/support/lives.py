"""Lives of nodes for tests: tables of the lifetime model, and the public ones."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from ebbtide.core.models.table import Table
from ebbtide.data.shapes import lifetimes

DATA: Final = Path(__file__).resolve().parents[1] / "data"

History = tuple[str, Sequence[float], Sequence[int]]
"""A pool as "name/zone/gpu", hours, and 1 for each that was revoked."""


def read_text(path: str) -> str:
    """Return a file of the public data."""
    return (DATA / path).read_text(encoding="utf-8")


def google() -> Table:
    """Lives of preemptible nodes on Google Cloud."""
    return lifetimes.read_preemptions(read_text("goog-preemption/lifetimes.csv"))


def gpu_servers() -> Table:
    """Lives of transient GPU servers, by hour."""
    return lifetimes.read_hourly(read_text("cm-dare/derived/revocations_hourly.csv"))


def table_of(*histories: History) -> Table:
    """Build a table from the histories of pools."""
    rows = [
        (*f"{name}//".split("/")[:3], life, flag)
        for name, hours, revoked in histories
        for life, flag in zip(hours, revoked, strict=True)
    ]
    pool, zone, gpu, hours, revoked = zip(*rows, strict=True)
    return Table.of(
        pool=pool, zone=[z or "-" for z in zone], gpu=[g or "-" for g in gpu],
        lifetime_h=hours, revoked=revoked,
    )  # fmt: skip


def questions(*pools: str, age: float = 0.0) -> Table:
    """Ask about pools, written as in a history."""
    parts = [f"{pool}//".split("/")[:3] for pool in pools]
    return Table.of(
        pool=[p for p, _, _ in parts],
        zone=[z or "-" for _, z, _ in parts],
        gpu=[g or "-" for _, _, g in parts],
        age_h=[age] * len(parts),
    )


def drawn(
    pool: str, chance: np.random.Generator, *, mean: float, nodes: int, until: float = np.inf
) -> History:
    """Draw lives with one hazard; those still going on at `until` are cut off there."""
    lives = chance.exponential(mean, nodes)
    return pool, np.minimum(lives, until).tolist(), (lives < until).astype(int).tolist()
