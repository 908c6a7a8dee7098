"""Where a new map's state comes from, case by case."""

from ebbtide.runtime.paramserver.layout import DENSE, Entry, Layout
from ebbtide.runtime.paramserver.messages import Holding, Standing
from ebbtide.runtime.paramserver.restoring import Claim, Restore, decide, find_base

HYPER = {
    "lr": 0.1,
    "momentum": 0.0,
    "dampening": 0.0,
    "weight_decay": 0.0,
    "nesterov": 0.0,
    "maximize": 0.0,
}
LAYOUT = Layout(
    kind="sgd",
    entries=(
        Entry(name="weight", shape=(4096,), space=DENSE, start=0, group=0, number=0),
        Entry(name="bias", shape=(4096,), space=DENSE, start=4096, group=0, number=1),
    ),
    buffers=(),
    groups=(HYPER,),
    data={},
)


def standing(version: int, *, lineage: int = 0) -> Standing:
    return Standing(lineage=lineage, version=version, floor=max(0, version))


def holding(
    version: int, *servers: str, number: int = 1, is_open: bool = True, lineage: int = 0
) -> Holding:
    return Holding(
        map=number,
        servers=servers,
        is_open=is_open,
        standing=standing(version, lineage=lineage),
        times=(version, version),
    )


def settle(
    holdings: dict[str, list[Holding]],
    *claims: Claim,
    servers: tuple[str, ...] = ("a", "b"),
    checkpoint: int = -1,
) -> Restore | None:
    return decide(LAYOUT, holdings=holdings, claims=claims, servers=servers, checkpoint=checkpoint)


def test_what_living_servers_hold_stays() -> None:
    found = settle({"a": [holding(7, "a", "b")], "b": [holding(7, "a", "b")]})

    assert found is not None
    assert (found.origin, found.standing.version, found.num_lost) == ("memory", 7, 0)
    assert all(move.source == move.target for move in found.moves)


def test_a_newcomer_gets_its_part_from_who_has_it() -> None:
    found = settle({"a": [holding(7, "a")], "b": []})

    assert found is not None
    assert found.origin == "memory"
    assert {(move.source, move.target) for move in found.moves} == {("a", "a"), ("a", "b")}


def test_b078_what_a_lost_server_had_comes_from_the_worker_that_saw_it_last() -> None:
    found = settle(
        {"a": [holding(9, "a", "b")]},
        Claim(client="old", held=standing(5)),
        Claim(client="new", held=standing(8)),
        servers=("a",),
        checkpoint=4,
    )

    assert found is not None
    assert (found.origin, found.client, found.standing.version) == ("workers", "new", 9)
    assert found.num_lost == 4


def test_b078_without_a_worker_everything_goes_back_to_the_checkpoint_together() -> None:
    found = settle({"a": [holding(9, "a", "b")]}, servers=("a",), checkpoint=4)

    assert found is not None
    assert found.origin == "checkpoint"


def test_a_worker_of_an_abandoned_state_helps_nobody() -> None:
    found = settle(
        {"a": [holding(9, "a", "b", lineage=2)]},
        Claim(client="old", held=standing(30, lineage=1)),
        servers=("a",),
        checkpoint=4,
    )

    assert found is not None
    assert found.origin == "checkpoint"


def test_b078_when_all_servers_are_lost_the_newest_worker_counts() -> None:
    found = settle({}, Claim(client="w", held=standing(12)), checkpoint=10)

    assert found is not None
    assert (found.origin, found.standing.step, found.times) == ("workers", 12, (12, 12))


def test_a_checkpoint_that_is_newer_than_all_workers_counts() -> None:
    found = settle({}, Claim(client="w", held=standing(12)), checkpoint=20)

    assert found is not None
    assert found.origin == "checkpoint"


def test_at_the_very_start_one_workers_parameters_are_everybodys() -> None:
    found = settle({}, Claim(client="y", held=Standing()), Claim(client="x", held=Standing()))

    assert found is not None
    assert (found.origin, found.client, found.standing.version) == ("initial", "x", 0)
    assert found.num_lost == 8


def test_with_nothing_at_all_somebody_has_to_come_first() -> None:
    assert settle({}) is None


def test_a_state_that_was_only_prepared_is_no_base() -> None:
    prepared = holding(9, "a", number=2, is_open=False)
    opened = holding(9, "a", "b", number=1)

    base = find_base({"a": [opened, prepared]})

    assert base is opened


def test_prepared_parts_of_a_map_that_was_opened_by_some_count() -> None:
    found = settle(
        {
            "a": [holding(9, "a", "b", number=2)],
            "b": [holding(9, "b", number=1), holding(9, "a", "b", number=2, is_open=False)],
        }
    )

    assert found is not None
    assert (found.base, found.num_lost) == (2, 0)


def test_a_state_from_before_a_return_counts_less_than_any_after_it() -> None:
    before, after = holding(90, "a", number=5, lineage=1), holding(3, "b", number=4, lineage=2)

    assert find_base({"a": [before], "b": [after]}) is after
