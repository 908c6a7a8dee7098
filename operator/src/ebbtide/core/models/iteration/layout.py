"""Placements: how many GPUs a job uses on each of its nodes, written `1-1-2-4`."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final, Self

import numpy as np

from ebbtide.core.models.forecast import Json
from ebbtide.core.models.table import Column, DataError, Flags, Floats, Indices, Table

PLACEMENT: Final = Column(name="placement", unit="text")
MOST_GPUS: Final = 64
"""More GPUs on one node are taken for a placement written without dashes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What a model sees of placements; arrays of equal length."""

    nodes: Floats
    gpus: Floats
    """GPUs of all nodes together."""
    most: Floats
    """GPUs on the node that has most of them."""
    least: Floats

    def __len__(self) -> int:
        return len(self.nodes)

    @classmethod
    def of(cls, placements: Sequence[tuple[int, ...]]) -> Self:
        """Describe placements given as GPUs per node."""
        return cls(
            nodes=np.array([len(counts) for counts in placements], dtype=np.float64),
            gpus=np.array([sum(counts) for counts in placements], dtype=np.float64),
            most=np.array([max(counts) for counts in placements], dtype=np.float64),
            least=np.array([min(counts) for counts in placements], dtype=np.float64),
        )

    @classmethod
    def single(cls, rows: int) -> Self:
        """One GPU, so many times."""
        ones = np.ones(rows)
        return cls(nodes=ones, gpus=ones, most=ones, least=ones)

    @property
    def spans(self) -> Flags:
        """Whether there is more than one node."""
        found: Flags = self.nodes > 1
        return found

    @property
    def alone(self) -> Flags:
        """Whether there is one GPU: nothing to communicate."""
        found: Flags = self.gpus == 1
        return found

    def take(self, chosen: Flags | Indices) -> "Layout":
        """Return the rows of a mask or of indices."""
        return Layout(
            nodes=self.nodes[chosen],
            gpus=self.gpus[chosen],
            most=self.most[chosen],
            least=self.least[chosen],
        )

    def within(self, limits: "Limits") -> "Layout":
        """
        Move each to the nearest that was measured.

        Nodes are left out first and the others keep their GPUs: 16 nodes of one GPU become four
        of one, not four of four.
        """
        nodes = np.minimum(self.nodes, limits.nodes)
        most = np.minimum(self.most, limits.most)
        gpus = np.minimum(self.gpus * nodes / self.nodes, limits.gpus)
        return Layout(
            nodes=nodes,
            gpus=np.clip(gpus, nodes, nodes * most),
            most=most,
            least=np.minimum(self.least, most),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What was measured: the largest, and whether there was one GPU, one node, several nodes."""

    nodes: float
    gpus: float
    most: float
    alone: bool
    local: bool
    spans: bool

    @classmethod
    def of(cls, layout: Layout) -> Self:
        """Return the limits of a layout."""
        return cls(
            nodes=float(layout.nodes.max()),
            gpus=float(layout.gpus.max()),
            most=float(layout.most.max()),
            alone=bool(layout.alone.any()),
            local=bool((~layout.alone & ~layout.spans).any()),
            spans=bool(layout.spans.any()),
        )

    def exclude(self, layout: Layout) -> Flags:
        """Tell which lie beyond."""
        outside = (
            (layout.nodes > self.nodes) | (layout.gpus > self.gpus) | (layout.most > self.most)
        )
        if not self.alone:
            outside |= layout.alone
        if not self.local:
            outside |= ~layout.alone & ~layout.spans
        if not self.spans:
            outside |= layout.spans
        found: Flags = outside
        return found

    def to_json(self) -> Json:
        """Return plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Json) -> Self:
        """Read what `to_json` wrote."""
        return cls(
            nodes=float(stored["nodes"]),
            gpus=float(stored["gpus"]),
            most=float(stored["most"]),
            alone=bool(stored["alone"]),
            local=bool(stored["local"]),
            spans=bool(stored["spans"]),
        )


def read_placements(table: Table) -> list[tuple[int, ...]]:
    """Return GPUs per node of each row, in rising order: nodes of one job have no order."""
    known: dict[str, tuple[int, ...]] = {}
    found = []
    for row, text in zip(table.rows, table.texts(PLACEMENT), strict=True):
        if text not in known:
            known[text] = _parse(text, row=row)
        found.append(known[text])
    return found


def write_placement(counts: Sequence[int]) -> str:
    """Return GPUs per node as text, in rising order."""
    return "-".join(str(count) for count in sorted(counts))


def _parse(text: str, *, row: object) -> tuple[int, ...]:
    place = f"column placement, row {row}: {text!r}"
    parts = text.split("-")
    if not all(part.isascii() and part.isdigit() and int(part) for part in parts):
        raise DataError(f"{place} is not GPUs per node as in 1-1-2-4, each a whole number above 0")
    counts = tuple(sorted(int(part) for part in parts))
    if counts[-1] > MOST_GPUS:
        raise DataError(
            f"{place} says {counts[-1]} GPUs on one node, at most {MOST_GPUS} are believed:"
            " write GPUs per node with dashes, as in 1-1-2-4"
        )
    return counts
