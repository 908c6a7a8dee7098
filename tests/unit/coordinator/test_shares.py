"""Parts of the batch by speed: equal among equals, in proportion among kinds."""

import msgspec
import pytest

from ebbtide.coordinator import shares
from ebbtide.wire.messages import Heartbeat, Member
from support.fake_members import Members, Proc, make_members, start


def name_gpus(members: Members, **gpus: str) -> None:
    """Let workers say that they have these kinds of GPU, by `w0`, `w1` and so on."""
    for worker in members.ledger.state.workers.values():
        gpu = gpus.get(f"w{worker.index}", "")
        for process in worker.processes.values():
            process.said = msgspec.structs.replace(process.said, gpu=gpu)


def work(members: Members, proc: Proc, *, pace: float, steps: int = 1) -> None:
    """Let a rank say that it worked off so many samples a second in the steps it took."""
    proc.step += steps
    proc.asked.append(members.now)
    beat = Heartbeat(
        generation=proc.generation,
        step=proc.step,
        local_batch=32,
        compute_seconds=0.75 * 32 / pace,
        data_seconds=0.25 * 32 / pace,
        communication_seconds=9.0,
        idle_seconds=9.0,
    )
    members.apply(members.ledger.hear(proc.link, beat, now=members.now))


def speeds(members: Members) -> dict[str, float]:
    return {member.worker[-3:]: member.speed for member in members.forms[-1].members}


def train_mixed(fast: float, slow: float) -> tuple[Members, list[Proc]]:
    """Two workers of two kinds that worked at these paces, and the generation after that."""
    members = make_members(min_replicas=2)
    procs = start(members, 0, 1)
    name_gpus(members, w0="V100", w1="K80")
    for proc, pace in zip(procs, (fast, slow), strict=True):
        work(members, proc, pace=pace, steps=shares.FIRST_STEPS + 1)
    members.run(1.0)
    return members, procs


def test_a_generation_is_formed_anew_once_its_kinds_turn_out_unequal() -> None:
    members, _ = train_mixed(300.0, 100.0)

    assert len(members.forms) == 2
    assert list(speeds(members).values()) == [3.0, 1.0]
    assert members.ledger.report().recoveries[-1].cause == "rebalanced"
    assert members.ledger.report().training


def test_the_first_generation_takes_equal_parts() -> None:
    members = make_members()
    start(members, 0, 1)

    assert set(speeds(members).values()) == {1.0}


@pytest.mark.parametrize(
    ("fast", "slow"), [pytest.param(110.0, 100.0, id="nearly equal"), (100.0, 100.0)]
)
def test_kinds_that_are_about_equal_stay_together(fast: float, slow: float) -> None:
    members, _ = train_mixed(fast, slow)

    assert len(members.forms) == 1


def test_one_kind_takes_equal_parts_however_its_ranks_differ() -> None:
    members = make_members(min_replicas=2)
    procs = start(members, 0, 1)
    name_gpus(members, w0="V100", w1="V100")
    for proc, pace in zip(procs, (300.0, 100.0), strict=True):
        work(members, proc, pace=pace, steps=100)
    members.run(1.0)

    assert len(members.forms) == 1


def test_a_kind_that_nobody_has_measured_takes_what_the_others_take() -> None:
    members, _ = train_mixed(300.0, 100.0)

    state = members.ledger.state
    del state.paces["K80"]
    seats = [
        Member(worker=name, address="", store_port=1, first_rank=rank, processes=1)
        for rank, name in enumerate(sorted(state.workers))
    ]

    assert [member.speed for member in shares.give(state, seats)] == [1.0, 1.0]


def test_no_see_saw_lasts() -> None:
    members, procs = train_mixed(300.0, 100.0)
    formed = len(members.forms)

    for _ in range(20):  # what is measured turns round all the time
        for fast, slow in ((100.0, 300.0), (300.0, 100.0)):
            for proc, pace in zip(procs, (fast, slow), strict=True):
                work(members, proc, pace=pace, steps=10)
            members.run(0.2)

    assert len(members.forms) - formed <= 1


@pytest.mark.parametrize(
    "beat",
    [
        pytest.param(
            Heartbeat(generation=1, step=1, local_batch=0, compute_seconds=1.0), id="none"
        ),
        pytest.param(Heartbeat(generation=1, step=1, local_batch=8), id="no time"),
        pytest.param(
            Heartbeat(generation=1, step=1, local_batch=8, compute_seconds=-1.0), id="less"
        ),
        pytest.param(
            Heartbeat(generation=1, step=1, local_batch=8, compute_seconds=float("inf")), id="ever"
        ),
        pytest.param(
            Heartbeat(generation=1, step=1, local_batch=8, compute_seconds=float("nan")), id="nan"
        ),
    ],
)
def test_what_cannot_be_a_pace_is_not_noted(beat: Heartbeat) -> None:
    state = make_members().ledger.state

    shares.note(state, gpu="V100", heard=beat)

    assert state.paces == {}


def test_no_number_of_kinds_fills_the_memory() -> None:
    state = make_members().ledger.state
    beat = Heartbeat(generation=1, step=1, local_batch=8, compute_seconds=1.0)

    for number in range(1000):
        shares.note(state, gpu=f"kind-{number}", heard=beat)

    assert len(state.paces) == shares.MAX_KINDS
