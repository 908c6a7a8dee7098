"""The process group alone: formed, broken from another thread, formed again."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.nursery import Nursery
from support.processes import start_script

SCRIPT = Path(__file__).parents[1] / "support" / "group_ranks.py"

pytestmark = pytest.mark.timed


def play(nursery: Nursery, folder: Path, *, scene: str, world: int) -> list[dict[str, Any]]:
    """Play a scene with so many ranks; return what each saw."""
    ranks = [
        start_script(
            nursery, SCRIPT, scene, str(rank), str(world), str(folder), log=folder / f"{rank}.log"
        )
        for rank in range(world)
    ]
    codes = [rank.await_code() for rank in ranks]
    assert codes == [0] * world, "".join(rank.said() for rank in ranks)
    files = (folder / f"seen-{rank}.json" for rank in range(world))
    return [json.loads(file.read_text()) for file in files if file.exists()]


@pytest.mark.parametrize("world", [2, 3])
def test_many_generations_in_one_process_leak_nothing(
    nursery: Nursery, tmp_path: Path, world: int
) -> None:
    seen = play(nursery, tmp_path, scene="again_and_again", world=world)

    assert {each["total"] for each in seen} == {world * (world + 1) / 2}
    assert max(each["more"] for each in seen) <= 2, "open descriptors grew"
    # A blocked sum would last ten minutes; the order ends it within milliseconds.
    assert max(each.get("break", 0.0) for each in seen) < 0.25


def test_a_late_order_does_not_hurt_the_next_generation(nursery: Nursery, tmp_path: Path) -> None:
    seen = play(nursery, tmp_path, scene="late_order", world=2)

    assert [each["total"] for each in seen] == [3.0, 3.0]


def test_forming_with_a_member_that_never_comes_can_be_broken_off(
    nursery: Nursery, tmp_path: Path
) -> None:
    seen = play(nursery, tmp_path, scene="missing_member", world=3)

    assert max(each.get("break", 0.0) for each in seen) < 1.0
    assert [each.get("total") for each in seen] == [3.0, 3.0, None]


def test_forming_with_a_member_that_died_meanwhile_can_be_broken_off(
    nursery: Nursery, tmp_path: Path
) -> None:
    (seen,) = play(nursery, tmp_path, scene="unreachable_member", world=2)

    assert seen["break"] < 1.0
    assert seen["total"] == 1.0


def test_a_connection_that_escaped_does_not_hold_the_break_up(
    nursery: Nursery, tmp_path: Path
) -> None:
    seen = play(nursery, tmp_path, scene="escaped_connection", world=2)

    assert 1.0 < seen[0]["break"] < 4.0


def test_large_states_are_sent_whole(nursery: Nursery, tmp_path: Path) -> None:
    seen = play(nursery, tmp_path, scene="send_state", world=3)

    assert [each["wrong"] for each in seen] == [0, 0, 0]
