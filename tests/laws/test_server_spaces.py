"""Every block has exactly one owner, and a change of servers moves what it must and no more."""

import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.runtime.paramserver.spaces import Part, bounds, ownership, plan_moves

SPACES = st.dictionaries(
    st.sampled_from(["dense", "users", "items", "carried"]), st.integers(0, 500), min_size=1
)
SERVERS = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8, unique=True)


def blocks_of(parts: list[Part]) -> Counter[tuple[str, int]]:
    return Counter((part.space, block) for part in parts for block in range(part.start, part.stop))


def all_blocks(spaces: dict[str, int]) -> Counter[tuple[str, int]]:
    return Counter((space, block) for space, blocks in spaces.items() for block in range(blocks))


@given(blocks=st.integers(0, 10**9), servers=st.integers(1, 64))
def test_parts_cover_a_space_in_order_and_differ_by_at_most_one_block(
    blocks: int, servers: int
) -> None:
    parts = [bounds(blocks, servers=servers, place=place) for place in range(servers)]

    assert parts[0][0] == 0
    assert parts[-1][1] == blocks
    assert all(before[1] == after[0] for before, after in itertools.pairwise(parts))
    sizes = [stop - start for start, stop in parts]
    assert max(sizes) - min(sizes) <= 1


@given(spaces=SPACES, servers=SERVERS)
def test_each_block_has_one_owner_and_a_single_block_is_the_leads(
    spaces: dict[str, int], servers: list[str]
) -> None:
    owned = ownership({**spaces, "single": 1}, servers)

    assert blocks_of([part for parts in owned.values() for part in parts]) == all_blocks(
        {**spaces, "single": 1}
    )
    assert Part(space="single", start=0, stop=1) in owned[servers[0]]


@given(spaces=SPACES, before=SERVERS, after=SERVERS, lost=st.sets(st.sampled_from("abcdefgh")))
def test_b078_a_change_of_servers_brings_each_block_to_its_owner_exactly_once(
    spaces: dict[str, int], before: list[str], after: list[str], lost: set[str]
) -> None:
    held = {name: parts for name, parts in ownership(spaces, before).items() if name not in lost}

    moves = plan_moves(spaces, held=held, servers=after)

    owned = ownership(spaces, after)
    for target in after:
        arriving = [move.part for move in moves if move.target == target]
        assert blocks_of(arriving) == blocks_of(list(owned[target]))
    for move in moves:
        if move.source is not None:
            had = blocks_of(list(held[move.source]))
            assert all(block in had for block in blocks_of([move.part]))
    orphans = blocks_of([move.part for move in moves if move.source is None])
    lost_blocks = [p for name, ps in ownership(spaces, before).items() if name in lost for p in ps]
    assert orphans == blocks_of(lost_blocks)


@given(spaces=SPACES, servers=SERVERS)
def test_nothing_moves_when_nothing_changes(spaces: dict[str, int], servers: list[str]) -> None:
    moves = plan_moves(spaces, held=ownership(spaces, servers), servers=servers)

    assert all(move.source == move.target for move in moves)


@given(spaces=SPACES, before=SERVERS, after=SERVERS)
def test_what_a_server_keeps_is_never_fetched_from_another(
    spaces: dict[str, int], before: list[str], after: list[str]
) -> None:
    held = ownership(spaces, before)

    for move in plan_moves(spaces, held=held, servers=after):
        own = blocks_of(list(held.get(move.target, ())))
        kept = any(block in own for block in blocks_of([move.part]))
        assert (move.source == move.target) == kept
