"""
The flat spaces that the parameters make up, divided over servers by bytes. Pure arithmetic.

A space is a row of equal blocks: the dense parameters laid end to end, cut without regard to where
a tensor ends; the rows of one embedding table; what workers carry beside gradients, in one block.
Server i of k owns a contiguous part of each space. Parts cover a space exactly and differ by at
most one block, and who owns what follows from the number of blocks and the list of servers alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Part:
    """Blocks `start` ... `stop - 1` of a space."""

    space: str
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def overlap(self, other: "Part") -> "Part | None":
        """Return the blocks that both have, or None."""
        start, stop = max(self.start, other.start), min(self.stop, other.stop)
        if self.space != other.space or start >= stop:
            return None
        return Part(space=self.space, start=start, stop=stop)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Blocks that go to `target`; from nobody (None) where the owner is lost."""

    part: Part
    source: str | None
    target: str


def bounds(blocks: int, *, servers: int, place: int) -> tuple[int, int]:
    """Return the first block of a place's part and the one after its last."""
    return -(-place * blocks // servers), -(-(place + 1) * blocks // servers)


def parts_of(spaces: Mapping[str, int], *, servers: int, place: int) -> tuple[Part, ...]:
    """Return the non-empty parts of the server at a place; `spaces` gives the blocks by name."""
    found = []
    for space, blocks in spaces.items():
        start, stop = bounds(blocks, servers=servers, place=place)
        if start < stop:
            found.append(Part(space=space, start=start, stop=stop))
    return tuple(found)


def ownership(spaces: Mapping[str, int], servers: Sequence[str]) -> dict[str, tuple[Part, ...]]:
    """Return each server's parts."""
    return {
        server: parts_of(spaces, servers=len(servers), place=place)
        for place, server in enumerate(servers)
    }


def plan_moves(
    spaces: Mapping[str, int], *, held: Mapping[str, Sequence[Part]], servers: Sequence[str]
) -> tuple[Move, ...]:
    """
    Return how `servers` come to their parts: every block of every space exactly once.

    `held` says what each living server has now. Blocks that stay where they are come as moves from
    a server to itself; those that nobody holds come from nobody. Where two hold a block, the target
    itself is preferred, then the first.
    """
    moves: list[Move] = []
    for target, parts in ownership(spaces, servers).items():
        for part in parts:
            moves.extend(_fill(part, held=held, target=target))
    return tuple(moves)


def _fill(part: Part, *, held: Mapping[str, Sequence[Part]], target: str) -> list[Move]:
    moves: list[Move] = []
    missing = [part]
    for source in sorted(held, key=lambda name: name != target):
        for other in held[source]:
            rest: list[Part] = []
            for gap in missing:
                found = gap.overlap(other)
                if found is None:
                    rest.append(gap)
                    continue
                moves.append(Move(part=found, source=source, target=target))
                rest.extend(_without(gap, found))
            missing = rest
    moves.extend(Move(part=gap, source=None, target=target) for gap in missing)
    return sorted(moves, key=lambda move: move.part)


def _without(part: Part, hole: Part) -> list[Part]:
    sides = ((part.start, hole.start), (hole.stop, part.stop))
    return [Part(space=part.space, start=a, stop=b) for a, b in sides if a < b]
