"""Who is put into a generation, and whose state counts there."""

import pytest

from ebbtide.coordinator.choice import Source, choose_members, choose_source, needs_sync, seat
from ebbtide.coordinator.state import Process, Worker
from ebbtide.wire.messages import Register


def make_process(
    *, step: int = 0, holds_state: bool = False, checkpoint_step: int = -1, rank: int = 0
) -> Process:
    said = Register(
        worker="w",
        index=0,
        attempt=1,
        local_rank=rank,
        processes=1,
        address="10.0.0.1",
        store_port=7000 + rank,
    )
    return Process(
        link=1,
        said=said,
        heard_at=0.0,
        step=step,
        holds_state=holds_state,
        checkpoint_step=checkpoint_step,
    )


def make_worker(
    index: int, *, attempt: int = 1, warned: bool = False, processes: int = 1
) -> Worker:
    return Worker(
        name=f"w-{index}-{attempt}",
        index=index,
        attempt=attempt,
        num_processes=processes,
        warned=warned,
        processes={rank: make_process(rank=rank) for rank in range(processes)},
    )


@pytest.mark.parametrize(
    ("workers", "present", "desired", "chosen"),
    [
        pytest.param(
            [make_worker(2), make_worker(0), make_worker(1)],
            set(),
            2,
            ["w-0-1", "w-1-1"],
            id="lower index first",
        ),
        pytest.param(
            [make_worker(0), make_worker(1), make_worker(2)],
            {"w-2-1"},
            2,
            ["w-0-1", "w-2-1"],
            id="who is present stays",
        ),
        pytest.param(
            [make_worker(0, warned=True), make_worker(1)],
            set(),
            1,
            ["w-1-1"],
            id="not warned first",
        ),
        pytest.param(
            [make_worker(0, warned=True), make_worker(1)],
            {"w-0-1"},
            1,
            ["w-0-1"],
            id="a warning alone moves nobody out",
        ),
        pytest.param(
            [make_worker(0, warned=True), make_worker(0, attempt=2)],
            {"w-0-1"},
            2,
            ["w-0-1"],
            id="the older attempt is kept until it goes",
        ),
        pytest.param(
            [make_worker(0), make_worker(0, attempt=2)],
            set(),
            2,
            ["w-0-2"],
            id="of two newcomers of one index the newer attempt",
        ),
        pytest.param([make_worker(0)], set(), 0, [], id="none wanted"),
    ],
)
def test_chooses_members(
    workers: list[Worker], present: set[str], desired: int, chosen: list[str]
) -> None:
    found = choose_members(workers, present=present, desired=desired)

    assert [worker.name for worker in found] == chosen


@pytest.mark.parametrize(
    ("ranks", "committed", "source"),
    [
        pytest.param([make_process()], -1, Source(rank=0, kind="initial", step=0), id="nothing"),
        pytest.param(
            [make_process(), make_process(step=7, holds_state=True)],
            -1,
            Source(rank=1, kind="memory", step=7),
            id="memory",
        ),
        pytest.param(
            [make_process(step=7, holds_state=True), make_process(step=8, holds_state=True)],
            5,
            Source(rank=1, kind="memory", step=8),
            id="the largest step in memory",
        ),
        pytest.param(
            [make_process(checkpoint_step=4), make_process(checkpoint_step=9)],
            -1,
            Source(rank=1, kind="checkpoint", step=9),
            id="who sees the newest checkpoint",
        ),
        pytest.param(
            [make_process(step=40, holds_state=True)],
            120,
            Source(rank=0, kind="checkpoint", step=120),
            id="a checkpoint newer than all memory",
        ),
        pytest.param(
            [make_process(step=40, holds_state=True)],
            40,
            Source(rank=0, kind="memory", step=40),
            id="memory before an equal checkpoint",
        ),
    ],
)
def test_chooses_the_source(ranks: list[Process], committed: int, source: Source) -> None:
    assert choose_source(ranks, committed=committed) == source


def test_ranks_of_a_worker_are_contiguous() -> None:
    members = seat([make_worker(0, processes=2), make_worker(3), make_worker(5, processes=4)])

    assert [(m.worker, m.first_rank, m.processes) for m in members] == [
        ("w-0-1", 0, 2),
        ("w-3-1", 2, 1),
        ("w-5-1", 3, 4),
    ]


def test_no_state_is_sent_when_all_hold_it() -> None:
    ranks = [make_process(step=7, holds_state=True), make_process(step=7, holds_state=True)]
    source = choose_source(ranks, committed=-1)

    assert not needs_sync(ranks, source)
    assert needs_sync([*ranks, make_process()], source)
    assert needs_sync([*ranks, make_process(step=6, holds_state=True)], source)
