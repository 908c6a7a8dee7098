"""Torch's rendezvous against a real coordinator, without scripts."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from torch.distributed.elastic.rendezvous import RendezvousInfo

from ebbtide.runtime.environment import read_place
from ebbtide.runtime.errors import LeaveTraining
from ebbtide.runtime.launching.rendezvous import Rendezvous
from ebbtide.wire.messages import WorkSpec
from support.nursery import Nursery
from support.processes import Job

Join = Callable[[int], Rendezvous]


@pytest.fixture
def job(nursery: Nursery, tmp_path: Path) -> Iterator[Job]:
    work = WorkSpec(
        job="team/scripts", steps=0, global_batch_size=0, min_replicas=1, desired=2, regroup=5.0
    )
    job = Job(folder=tmp_path, nursery=nursery, work=work, script=Path("none"))
    job.start_coordinator()
    yield job
    job.close()


@pytest.fixture
def join(job: Job) -> Iterator[Join]:
    joined: list[Rendezvous] = []

    def join(index: int) -> Rendezvous:
        joined.append(Rendezvous(read_place(job.environment_of(index))))
        return joined[-1]

    yield join
    for rendezvous in joined:
        rendezvous.shutdown()


def meet(*all_of_them: Rendezvous) -> list[RendezvousInfo]:
    """Let them meet; each waits for the others."""
    with ThreadPoolExecutor(len(all_of_them)) as pool:
        asked = [pool.submit(each.next_rendezvous) for each in all_of_them]
        return [each.result(timeout=30) for each in asked]


def test_all_meet_at_one_store_with_one_address(join: Join) -> None:
    first, second = join(0), join(1)

    infos = meet(first, second)
    infos[0].store.set("word", "heard")

    assert [(info.rank, info.world_size) for info in infos] == [(0, 2), (1, 2)]
    assert infos[1].store.get("word") == b"heard"
    assert infos[0].bootstrap_store_info == infos[1].bootstrap_store_info
    assert first.generation == second.generation == 1_000_001
    assert (first.get_backend(), first.get_run_id()) == ("ebbtide", "team-scripts")
    assert first.num_nodes_waiting() == 0
    assert not first.is_closed()


def test_the_number_of_failures_becomes_the_same_for_all(join: Join) -> None:
    first, second = join(0), join(1)
    second.failures = 2

    meet(first, second)

    assert (first.failures, second.failures) == (2, 2)


def test_a_loss_is_told_and_named_and_the_others_meet_again_on_fresh_ground(join: Join) -> None:
    first, second = join(0), join(1)
    [before, _] = meet(first, second)
    before.store.set("old", "1")

    second.shutdown()
    word = first.ending(seconds=10)
    [after] = meet(first)

    assert word is not None
    assert (word.hard, word.cause) == (True, "test-worker-1-1")
    assert (after.rank, after.world_size) == (0, 1)
    assert not after.store.check(["old"])
    assert first.ending() is None


def test_whose_scripts_have_all_ended_may_go(join: Join) -> None:
    first, second = join(0), join(1)
    meet(first, second)

    with ThreadPoolExecutor(2) as pool:
        ends = [pool.submit(each.await_others) for each in (first, second)]

        assert [end.result(timeout=30) for end in ends] == [True, True]


def test_who_was_done_is_called_again_when_another_is_lost(join: Join) -> None:
    first, second = join(0), join(1)
    meet(first, second)

    with ThreadPoolExecutor(1) as pool:
        end = pool.submit(first.await_others)
        second.shutdown()

        assert end.result(timeout=30) is False
    assert meet(first)[0].world_size == 1


def test_who_is_told_to_stop_leaves(job: Job, join: Join) -> None:
    first, second = join(0), join(1)
    meet(first, second)

    job.call("stop", worker="test-worker-1-1", seconds=5.0)
    first.ending(seconds=10)

    assert second.num_nodes_waiting() == 1
    with pytest.raises(LeaveTraining, match="82"):
        second.next_rendezvous()
