"""Fleets near one: legal, each once, and by the node."""

from ebbtide.core.planner.neighbours import list_neighbours, list_with_other_servers
from ebbtide.core.planner.outlook import Field, Fleet
from ebbtide.core.planner.risk import make_offers
from support.questions import NOW, ask, pool_of, speed_of


def field_with(*, sizes: tuple[int, ...], servers: tuple[int, int] | None = None) -> Field:
    inputs = ask(
        pool_of("wide", 2.0, nodes=3, per_node=4),
        pool_of("narrow", 1.0, nodes=5),
        sizes=sizes,
        speed=speed_of(server_samples_per_s=500.0),
        uses_servers=servers is not None,
        servers=servers or (1, 1),
    )
    return Field(inputs=inputs, now=NOW, offers=make_offers(inputs)[0])


def near(field: Field, workers: dict[str, int], servers: int = 0) -> list[dict[str, int]]:
    return [dict(one.workers) for one in list_neighbours(field, Fleet.of(workers, servers))]


def test_all_are_legal_others_and_none_twice() -> None:
    field = field_with(sizes=(2, 3, 5, 8, 12))

    found = near(field, {"wide": 6, "narrow": 2})

    assert found
    assert {"wide": 6, "narrow": 2} not in found
    assert all(sum(one.values()) in field.inputs.sizes for one in found)
    assert len({tuple(sorted(one.items())) for one in found}) == len(found)


def test_a_node_goes_whole_and_so_does_a_pool() -> None:
    found = near(field_with(sizes=tuple(range(1, 13))), {"wide": 6, "narrow": 2})

    assert {"wide": 4, "narrow": 2} in found
    assert {"narrow": 2} in found
    assert {"wide": 6} in found


def test_another_pool_makes_up_for_what_goes() -> None:
    found = near(field_with(sizes=(8,)), {"wide": 6, "narrow": 2})

    assert {"wide": 8} in found
    assert {"wide": 5, "narrow": 3} in found
    assert {"wide": 4, "narrow": 4} in found


def test_the_next_legal_sizes_are_looked_at_however_far_they_are() -> None:
    found = near(field_with(sizes=(2, 6, 12)), {"wide": 6})

    assert {"wide": 2} in found
    assert {"wide": 12} in found


def test_servers_stay_within_their_limits() -> None:
    field = field_with(sizes=(4,), servers=(1, 3))

    def counts(servers: int) -> list[int]:
        found = list_with_other_servers(field, Fleet.of({"wide": 4}, servers))
        return [one.servers for one in found]

    assert counts(1) == [2]
    assert counts(2) == [1, 3]
    assert counts(3) == [2]
    assert not list_with_other_servers(field_with(sizes=(4,)), Fleet.of({"wide": 4}, 0))
