"""
Which index belongs in which pool, so that a plan in numbers comes about with the fewest moves.

A plan says how many workers each pool has now, and how many it would have if pools that have run
dry gave nodes again. Who is in the right place stays; the others get what is left. In each dry
pool that the plan would rather use one pod waits, beside the worker that stands in for it: what
is pending is what brings nodes, and shows that there are some again.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from ebbtide.core.values.observed import Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """How many workers each pool is to have, by name."""

    now: Mapping[str, int]  # in the order in which the lowest indexes take them
    rather: Mapping[str, int]  # once dry pools give nodes again
    dry: AbstractSet[str] = frozenset()

    @property
    def workers(self) -> int:
        """How many indexes there are."""
        return max(sum(self.now.values()), sum(self.rather.values()))

    def stands_in(self, pool: str) -> bool:
        """Tell whether a pool has workers only as long as another one is dry."""
        return self.now.get(pool, 0) > self.rather.get(pool, 0)


@dataclass(slots=True)
class Berths:
    """The answer, by index."""

    home: dict[int, str] = field(default_factory=dict)  # where its worker is, or is to be made
    probe: dict[int, str] = field(default_factory=dict)  # where another pod of it waits for a node

    def pools_of(self, index: int) -> tuple[str, ...]:
        """Return the pools in which an index may have a pod."""
        return tuple(pool[index] for pool in (self.home, self.probe) if index in pool)


def assign(
    quotas: Quotas, sound: Mapping[int, Sequence[Pod]], *, members: AbstractSet[str]
) -> Berths:
    """
    Give every index a berth, or none where the plan has no worker for it now.

    Args:
        quotas: what the plan says.
        sound: pods by index that can be counted on, those that wait for a node included.
        members: names of pods that train now; they are the last to be moved.

    """
    berths, left = Berths(), dict(quotas.now)
    for index, pod in _by_merit(quotas, sound, members):
        if index not in berths.home and left.get(pod.pool, 0) > 0:
            berths.home[index] = pod.pool
            left[pod.pool] -= 1
    vacant = [pool for pool, number in left.items() for _ in range(number)]
    without = [index for index in range(quotas.workers) if index not in berths.home]
    berths.home.update(zip(without, vacant, strict=False))
    for pool in sorted(quotas.dry):
        if quotas.rather.get(pool, 0) > quotas.now.get(pool, 0):
            chosen = _choose_probe(pool, quotas, sound, berths)
            if chosen is not None:
                berths.probe[chosen] = pool
    return berths


def _by_merit(
    quotas: Quotas, sound: Mapping[int, Sequence[Pod]], members: AbstractSet[str]
) -> list[tuple[int, Pod]]:
    """Return pods that hold a node, or wait for one that can come, those to keep first."""
    pods = [
        (index, pod)
        for index, several in sound.items()
        for pod in several
        if index < quotas.workers and (pod.node or pod.pool not in quotas.dry)
    ]
    placed = {index: {pod.pool for pod in several if pod.node} for index, several in sound.items()}
    return sorted(
        pods,
        key=lambda one: (
            one[1].name not in members,
            not one[1].node,
            len(placed[one[0]]) > 1,  # who is on the way somewhere else has a place to go
            one[0],
            one[1].attempt,
        ),
    )


def _choose_probe(
    pool: str, quotas: Quotas, sound: Mapping[int, Sequence[Pod]], berths: Berths
) -> int | None:
    """Return the index that waits in a dry pool: one that does already, or has no worker."""
    free = [
        index
        for index in range(quotas.workers)
        if index not in berths.probe
        and berths.home.get(index) != pool
        and _may_move(index, berths, quotas)
    ]
    waiting = {
        index for index in free if any(p.pool == pool and not p.node for p in sound.get(index, ()))
    }
    return min(
        free,
        key=lambda index: (index not in waiting, index in berths.home, -index),
        default=None,
    )


def _may_move(index: int, berths: Berths, quotas: Quotas) -> bool:
    """Tell whether an index has no worker, or one that only stands in."""
    home = berths.home.get(index)
    return home is None or quotas.stands_in(home)
