"""
Where the state of a new map comes from: decided by the lead from what everybody says. Pure.

What living servers hold stays. For blocks that went with a server the newest parameters are those
that a worker took last, and the optimizer's states those of the newest checkpoint (or as at the
start, when there is none). Only when nobody holds newer parameters than the checkpoint everything
goes back to that, so the parts of a state always belong together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ebbtide.runtime.paramserver.layout import Layout
from ebbtide.runtime.paramserver.messages import Holding, Standing
from ebbtide.runtime.paramserver.spaces import Move, ownership, plan_moves


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a connected worker process holds."""

    client: str
    held: Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """How a new map comes to its state."""

    origin: str  # memory, workers, checkpoint or initial
    standing: Standing
    times: tuple[int, ...]
    base: int = 0  # the map whose holdings are read
    client: str = ""  # who gives what no server has
    moves: tuple[Move, ...] = ()

    @property
    def num_lost(self) -> int:
        """How many blocks no server has."""
        return sum(len(move.part) for move in self.moves if move.source is None)


def find_base(holdings: Mapping[str, Sequence[Holding]]) -> Holding | None:
    """Return the newest state that was open anywhere; None when no server has one."""
    known = [each for held in holdings.values() for each in held if each.is_open]
    return max(known, key=lambda each: (each.standing.lineage, each.map, each.standing.version),
               default=None)  # fmt: skip


def holders(
    layout: Layout, base: Holding, holdings: Mapping[str, Sequence[Holding]]
) -> Mapping[str, Sequence[Holding]]:
    """Return who has a part of that state, opened already or about to."""
    del layout
    same = {
        name: [h for h in held if h.map == base.map and h.standing.lineage == base.standing.lineage]
        for name, held in holdings.items()
    }
    return {name: held for name, held in same.items() if held and name in base.servers}


def decide(
    layout: Layout,
    *,
    holdings: Mapping[str, Sequence[Holding]],
    claims: Sequence[Claim],
    servers: Sequence[str],
    checkpoint: int,
) -> Restore | None:
    """
    Decide; None when some worker has to come first. `checkpoint` is its newest step, -1 = none.

    Whoever holds a state from before a return to a checkpoint (a smaller lineage) holds nothing.
    """
    base = find_base(holdings)
    newest = max(claims, key=lambda claim: claim.held.age, default=None)
    if base is not None:
        found = _from_servers(layout, base, holdings=holdings, servers=servers)
        if not found.num_lost:
            return found
        helper = _newest_of(claims, lineage=base.standing.lineage)
        if helper is not None:
            return Restore(
                origin="workers",
                standing=found.standing,
                times=found.times,
                base=found.base,
                client=helper.client,
                moves=found.moves,
            )
    elif newest is not None and newest.held.version >= 0 and newest.held.step >= checkpoint:
        return Restore(
            origin="workers",
            standing=newest.held,
            times=(newest.held.step,) * len(layout.entries),
            client=newest.client,
            moves=plan_moves(layout.spaces, held={}, servers=servers),
        )
    if checkpoint >= 0:
        return Restore(origin="checkpoint", standing=Standing(), times=())
    if not claims:
        return None
    return Restore(
        origin="initial",
        standing=Standing(version=0),
        times=(0,) * len(layout.entries),
        client=min(claim.client for claim in claims),
        moves=plan_moves(layout.spaces, held={}, servers=servers),
    )


def _from_servers(
    layout: Layout,
    base: Holding,
    *,
    holdings: Mapping[str, Sequence[Holding]],
    servers: Sequence[str],
) -> Restore:
    owned = ownership(layout.spaces, base.servers)
    held = {name: owned[name] for name in holders(layout, base, holdings)}
    return Restore(
        origin="memory",
        standing=base.standing,
        times=base.times,
        base=base.map,
        moves=plan_moves(layout.spaces, held=held, servers=servers),
    )


def _newest_of(claims: Sequence[Claim], *, lineage: int) -> Claim | None:
    known = [c for c in claims if c.held.lineage == lineage and c.held.version >= 0]
    return max(known, key=lambda claim: claim.held.version, default=None)
