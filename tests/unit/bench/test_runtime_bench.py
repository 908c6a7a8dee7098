"""What the bench of the runtime makes of its measurements."""

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime import (
    bed,
    fuzz,
    kept,
    kills,
    profiler,
    recovery,
    relaunch,
    servers,
    small,
    stall,
    transport,
    warm,
)
from runtime.recovery import Kill
from runtime.train_relaunched import BEGUN
from support.fuzzing import Outcome


def test_marks_are_read_in_order_and_one_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "marks"
    path.write_text("2.5 11 4\n1.5 10 3\n3.5 10")

    assert small.read_marks(path) == [small.Mark(1.5, 10, 3), small.Mark(2.5, 11, 4)]
    assert small.read_marks(tmp_path / "none") == []


def test_every_mark_that_a_process_leaves_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(small.ENV_MARKS, str(tmp_path / "marks"))
    marker = small.Marker()

    for step in (1, 2):
        marker.leave(step)

    assert [mark.step for mark in small.read_marks(tmp_path / "marks")] == [1, 2]


@pytest.mark.parametrize(
    ("theirs", "holds"),
    [pytest.param(4.0, True, id="fifty times"), pytest.param(3.9, False, id="not quite")],
)
def test_a_recovery_is_judged_against_torchrun(theirs: float, holds: bool) -> None:  # noqa: FBT001 -- the expected answer of a case
    ours = [Kill(0.01, 0.02, 0.04, next_step) for next_step in (0.07, 0.08, 0.2)]

    times, median, slowest, noticed, held, reforming = recovery.rows_of(
        ours, [theirs, 1.0, 9.0], [0.3, 0.4, 0.9]
    )

    assert times.holds is holds
    assert [median.value, slowest.value] == pytest.approx([80.0, 200.0])
    assert [noticed.value, held.value] == pytest.approx([10.0, 20.0])
    assert reforming.value == pytest.approx(20.0)
    assert reforming.holds
    assert median.peers == pytest.approx({"torchrun": theirs * 1000, recovery.TORCHFT: 400.0})
    assert slowest.peers == pytest.approx({"torchrun": 9000.0, recovery.TORCHFT: 900.0})


def test_where_torchft_is_not_installed_it_is_no_peer_of_a_recovery() -> None:
    _, median, *_ = recovery.rows_of([Kill(0.01, 0.02, 0.04, 0.07)], [4.0], [])

    assert median.peers == {"torchrun": 4000.0}


def test_torchft_goes_on_with_the_first_step_that_one_replica_makes_alone_after_the_kill() -> None:
    marks = [small.Mark(at, 10, num) for at, num in ((1.0, 1), (2.0, 2), (3.1, 2), (3.4, 1))]

    assert recovery.first_alone(marks, 3.0) == pytest.approx(3.4)
    assert recovery.first_alone(marks[:3], 3.0) is None


def test_of_a_long_run_the_newest_marks_are_read(tmp_path: Path) -> None:
    path = tmp_path / "marks"
    lines = [f"{number}.5 10 {number}\n" for number in range(20_000)]
    path.write_text("".join(lines))

    found = small.read_marks(path)

    assert 1_000 < len(found) < 20_000
    assert [mark.step for mark in found] == list(range(found[0].step, 20_000))


@pytest.mark.parametrize(
    ("lost", "holds"),
    [pytest.param([1.0, 4.0], True, id="enough"), pytest.param([1.0, 4.1], False, id="too slow")],
)
def test_the_time_kept_is_what_kills_leave(lost: list[float], holds: bool) -> None:  # noqa: FBT001 -- the expected answer of a case
    share, killed, slowest = kept.rows_of(100.0, lost)

    assert share.holds is holds
    assert killed.holds
    assert slowest.value == max(lost) * 1000


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        pytest.param({}, 0, id="sound"),
        pytest.param({"faults": ["boom"]}, 1, id="a fault"),
        pytest.param({"hung": 1}, 1, id="a connection that stays"),
        pytest.param({"witness_lost": True}, 1, id="an honest member lost"),
        pytest.param({"answers": False}, 1, id="no answer"),
        pytest.param({"grown_bytes": 100 << 20}, 1, id="memory"),
    ],
)
def test_a_coordinator_under_fuzz_is_judged_by_all_that_may_not_be(
    changes: dict[str, Any], missed: int
) -> None:
    sound = Outcome(inputs=fuzz.INPUTS // 2, answers=True)

    rows = fuzz.rows_of([sound, replace(sound, **changes)])

    assert sum(row.holds is False for row in rows) == missed


def tell(account: kills.Account, name: str, rank: int, steps: range, *, world: int = 2) -> None:
    """Let a process with a rank try and apply steps; 25 make an epoch of each sample four times."""
    lines = []
    for step in steps:
        first = step * 32 + rank * 16
        ids = [number % kills.SAMPLES for number in range(first, first + 16)]
        lines += [json.dumps(["tried", step, rank, world, ids]), json.dumps(["applied", step])]
    account.read(name, lines)


def test_an_account_in_which_one_took_over_from_another_is_in_order() -> None:
    account = kills.Account()
    tell(account, "a", 0, range(50))
    tell(account, "b", 1, range(21))
    tell(account, "c", 1, range(20, 50))  # the step that b may not have told of
    account.read("b", ['["tried", 21, 1, 2, [', ""])  # cut off by the kill

    assert account.check(50) == []


@pytest.mark.parametrize(
    ("second", "found"),
    [
        pytest.param({"steps": range(49)}, "1584 samples in 50 steps", id="a share is missing"),
        pytest.param(
            {"steps": range(50), "rank": 0}, "800 samples in 50 steps", id="one came twice"
        ),
        pytest.param({"steps": range(50), "world": 3}, "in a world of 3", id="another world"),
        pytest.param({"steps": range(0, 50, 2)}, "applied step 2 after step 0", id="a gap"),
    ],
)
def test_an_account_that_is_not_in_order_says_where(second: dict[str, Any], found: str) -> None:
    account = kills.Account()
    tell(account, "a", 0, range(50))
    tell(account, "b", **{"rank": 1, **second})

    assert any(found in fault for fault in account.check(50))


def test_a_step_that_nobody_applied_is_named() -> None:
    account = kills.Account()
    tell(account, "a", 0, range(49))
    tell(account, "b", 1, range(49))

    assert "nobody applied step 49" in account.check(50)


def test_kills_are_judged_by_all_that_may_not_be() -> None:
    sound = kills.Outcome(kills=kills.KILLS, is_same=True, faults=(), steps_redone=0)

    assert all(row.holds for row in kills.rows_of(sound))
    for wrong in ({"is_same": False}, {"faults": ("x",)}, {"steps_redone": 1}, {"kills": 99}):
        rows = kills.rows_of(replace(sound, **wrong))
        assert sum(not row.holds for row in rows) == 1


@pytest.mark.parametrize(
    ("cold", "holds"),
    [pytest.param(6.0, True, id="sixty times"), pytest.param(5.9, False, id="not quite")],
)
def test_a_warm_start_is_judged_against_a_cold_one(cold: float, holds: bool) -> None:  # noqa: FBT001 -- the expected answer of a case
    times, median, _ = warm.rows_of([cold, 1.0, 9.0], [0.05, 0.1, 0.3])

    assert times.holds is holds
    assert median.value == pytest.approx(100.0)


def test_blocks_with_and_without_the_meter_take_the_same_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(profiler, "BLOCKS", 2)
    monkeypatch.setattr(profiler, "LAYERS", 2)
    monkeypatch.setattr(profiler, "WIDTH", 8)
    bed = profiler.Bed()

    times = [bed.block(metered=metered) for metered in (True, False)]
    judged, step = profiler.rows()

    assert all(seconds > 0 for seconds in times)
    assert bed._meter.watched.arrivals, "the block with the meter has a watched step"
    assert (judged.bar, judged.better) == (1.0, "lower")
    assert step.value > 0


@pytest.mark.parametrize(
    ("theirs", "holds"),
    [pytest.param(0.15, True, id="fifteen times"), pytest.param(0.14, False, id="not quite")],
)
def test_a_stall_is_the_call_the_fence_and_the_slower_step(theirs: float, holds: bool) -> None:  # noqa: FBT001 -- the expected answer of a case
    found = {
        stall.OURS: [(0.001, 0.002, 0.007, 0.15), (0.001, 0.002, 0.007, 0.15), (9.0, 9, 9, 9)],
        stall.PEER: [(theirs, 0.0, -0.5, 0.15)] * 3,
        "torch.save": [(0.4, 0.0, 0.1, 0.15)] * 3,
    }

    times, ours, call, fence, slower, compute = stall.rows_of(found)

    assert times.holds is holds
    assert times.peers["torch.save"] == pytest.approx(50.0)
    assert [row.value for row in (ours, call, fence, slower)] == pytest.approx([10, 1, 2, 7])
    assert ours.peers[stall.PEER] == pytest.approx(theirs * 1e3)
    assert compute.value == pytest.approx(150)


def test_a_push_is_judged_by_medians_against_both_peers() -> None:
    rows = transport.rows_of(
        {
            "ebbtide": [0.002, 0.002, 9.0],
            "torch RPC": [0.009, 0.010, 0.011],
            "gRPC": [0.018, 0.018, 0.018],
        }
    )

    assert [row.value for row in rows] == pytest.approx([2.0, 5.0, 9.0])
    assert [row.holds for row in rows] == [None, True, False]
    assert rows[0].peers == pytest.approx({"torch RPC": 10.0, "gRPC": 18.0})


@pytest.mark.parametrize(
    ("two", "holds"),
    [pytest.param(15.0, True, id="half as much again"), pytest.param(14.9, False, id="less")],
)
def test_a_second_server_is_judged_against_one(two: float, holds: bool) -> None:  # noqa: FBT001 -- the expected answer of a case
    lift, single, double = servers.rows_of([9.0, 10.0, 30.0], [two, 1.0, 90.0])

    assert lift.holds is holds
    assert [single.value, double.value] == [10.0, two]


def test_pushes_are_counted_once_all_workers_are_at_work() -> None:
    slow = [float(number) for number in range(servers.WARM_UP_STEPS)]
    quick = [20 + number / 4 for number in range(9)]

    assert servers.rate_of([*quick, *slow]) == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("theirs", "holds"),
    [pytest.param(2.5, True, id="five times"), pytest.param(2.4, False, id="not quite")],
)
def test_a_relaunch_is_judged_by_when_the_scripts_run_again(theirs: float, holds: bool) -> None:  # noqa: FBT001 -- the expected answer of a case
    ours = [relaunch.Relaunch(running, running + 3.0) for running in (0.4, 0.5, 9.0)]
    peer = [relaunch.Relaunch(running, running + 4.0) for running in (theirs, 1.0, 9.0)]

    times, running, stepping = relaunch.rows_of(ours, peer)

    assert times.holds is holds
    assert [running.value, stepping.value] == pytest.approx([0.5, 3.5])
    assert stepping.bar is None
    assert stepping.peers == pytest.approx({relaunch.PEER: theirs + 4.0})


def test_a_script_that_begins_and_never_steps_is_not_taken_for_running(tmp_path: Path) -> None:
    path = tmp_path / "marks"
    settled = [f"1.{step} {pid} {step}\n" for pid in (10, 11) for step in range(6)]
    path.write_text("1.0 10 -1\n1.0 11 -1\n" + "".join(settled))

    def kill() -> None:
        now = time.monotonic()
        ends = [(now + 1, 12, -1), (now + 2, 10, 9), (now + 3, 13, -1), (now + 4, 13, 0)]
        with path.open("a") as file:
            file.writelines(f"{at:.6f} {pid} {step}\n" for at, pid, step in ends)

    found = relaunch.lose(path, kill)

    assert [found.running, found.stepping] == pytest.approx([3.0, 4.0], abs=0.5)


def test_a_script_marks_that_it_has_begun_before_all_else_and_goes_with_its_bed(
    tmp_path: Path,
) -> None:
    script = Path(relaunch.__file__).parent / "train_relaunched.py"
    with bed.running([sys.executable, str(script)], folder=tmp_path, environment={}) as process:
        [mark, *_] = bed.await_some(
            lambda: small.read_marks(bed.marks_of(tmp_path)) or None, "mark of the begin"
        )

    assert (mark.pid, mark.step) == (process.pid, BEGUN)
    assert process.returncode is not None
