"""Fleets that differ from one by a node or a few: what a good fleet is compared with."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping

from ebbtide.core.planner.outlook import Field, Fleet
from ebbtide.core.planner.risk import Offer


def list_neighbours(field: Field, fleet: Fleet) -> tuple[Fleet, ...]:
    """
    Return legal fleets near one, each once.

    They have a server more or less; or one pool gives nothing, a worker, its last node, what leads
    to a smaller legal number or all, and another pool makes up for it to the same legal number of
    workers, the next, the one before, or by a node.
    """
    found = dict.fromkeys((*list_with_other_servers(field, fleet), *_by_workers(field, fleet)))
    return tuple(one for one in found if one != fleet and field.can_have(one))


def list_with_other_servers(field: Field, fleet: Fleet) -> tuple[Fleet, ...]:
    """Return the fleet with a server less and with one more, where that is allowed."""
    low, high = field.inputs.servers if field.inputs.uses_servers else (0, 0)
    counts = (fleet.servers - 1, fleet.servers + 1)
    return tuple(Fleet(workers=fleet.workers, servers=n) for n in counts if low <= n <= high)


def _by_workers(field: Field, fleet: Fleet) -> Iterator[Fleet]:
    workers = dict(fleet.workers)
    for given, left in _without(field, workers):
        rest = sum(left.values())
        for offer in field.offers:
            count = left.get(offer.name, 0)
            for more in _additions(field, offer, rest, fleet.size):
                if offer.name != given and count + more <= offer.room:
                    yield Fleet.of({**left, offer.name: count + more}, fleet.servers)
        if rest in field.inputs.sizes:
            yield Fleet.of(left, fleet.servers)


def _without(field: Field, workers: Mapping[str, int]) -> Iterator[tuple[str, dict[str, int]]]:
    """Return what is left where one pool gives nothing, some workers or all."""
    yield "", dict(workers)
    size = sum(workers.values())
    smaller = size - max((one for one in field.inputs.sizes if one < size), default=0)
    for name, count in workers.items():
        per_node = field.by_name[name].per_node
        last = (count - 1) % per_node + 1
        for less in dict.fromkeys((1, last, smaller, count)):
            if less <= count:
                yield name, {**workers, name: count - less}


def _additions(field: Field, offer: Offer, rest: int, size: int) -> tuple[int, ...]:
    """Return numbers of workers that lead from `rest` to a legal number about `size`."""
    sizes = field.inputs.sizes
    before, after = bisect_left(sizes, size), bisect_right(sizes, size)
    near = {*sizes[max(before - 1, 0) : after + 1]}
    over = bisect_right(sizes, rest + offer.per_node)
    near.update(sizes[max(over - 1, 0) : over])  # a node of it and no more
    return tuple(sorted(target - rest for target in near if target > rest))
