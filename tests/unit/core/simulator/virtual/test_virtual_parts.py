"""The parts of a virtual world: how its jobs are cleaned up, its tables, its delays."""

from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from ebbtide.core.models.table import DataError, Table
from ebbtide.core.planner.inputs import Overheads
from ebbtide.core.simulator.virtual.agenda import Agenda, seconds
from ebbtide.core.simulator.virtual.tables import read_availability
from ebbtide.core.simulator.virtual.timing import Timing
from ebbtide.core.values.decision import Action, DeleteService, Tell
from ebbtide.core.values.job import CleanPodPolicy
from ebbtide.core.values.observed import PodPhase, Role
from support.builders import START, make_job
from support.virtual import PROMPT, changes, make_loop, nodes

HOUR = timedelta(hours=1)


def test_pods_that_are_kept_are_stopped_when_the_job_is_killed() -> None:
    kept = CleanPodPolicy.NONE
    job = make_job(steps=10**6, active_deadline=HOUR, clean_pod_policy=kept, servers=1)
    loop = make_loop(job, timing=replace(PROMPT, collection_s=10**6))

    loop.run()

    pods = list(loop.world.pods.objects.values())
    assert {pod.role for pod in pods} == set(Role)
    assert {(pod.phase, pod.reason) for pod in pods} == {(PodPhase.FAILED, "DeadlineExceeded")}


def test_nothing_stays_where_all_pods_are_to_go() -> None:
    done: list[Action] = []
    job = make_job(steps=300, clean_pod_policy=CleanPodPolicy.ALL)
    loop = make_loop(job, watch=lambda _, decision: done.extend(decision.actions))

    loop.run()

    assert not loop.world.pods.objects
    assert DeleteService() in done


def test_a_coordinator_saves_when_it_is_told_to() -> None:
    loop = make_loop(make_job(steps=3000, checkpoint_interval=timedelta(days=1)))
    loop.run_until(START + timedelta(seconds=300))
    before = loop.world.pods.tally.checkpoint_step

    loop.world.act([Tell(call="checkpoint")])
    loop.run_until(START + timedelta(seconds=310))

    assert before == -1
    assert loop.world.pods.tally.checkpoint_step > 0


def test_a_coordinator_refuses_what_it_does_not_know() -> None:
    loop = make_loop(make_job(steps=3000))
    loop.run_until(START + timedelta(seconds=300))

    with pytest.raises(ValueError, match="cannot be told to 'dance'"):
        loop.world.act([Tell(call="dance")])


def test_a_machine_that_still_comes_is_given_up_without_a_revocation() -> None:
    loop = make_loop(make_job(steps=300), trace=nodes(spot=((30, 0), (200, 8))))

    found = loop.run()

    assert found.num_taken == found.status.counters.revocations == 0
    assert min(i.since for i in found.bill.items if i.pool == "spot") == START + timedelta(
        seconds=260
    )


def test_events_of_one_moment_happen_in_the_order_in_which_they_were_noted() -> None:
    agenda = Agenda(START)
    done: list[str] = []
    for name in "abc":
        agenda.at(START + seconds(1.0), partial(done.append, name))

    agenda.advance(START + seconds(2.0))

    assert done == ["a", "b", "c"]
    assert agenda.now == START + seconds(2.0)
    assert agenda.next is None


def test_rows_that_change_nothing_are_left_out_and_time_begins_at_the_first() -> None:
    table = Table.of(seconds=[100, 110, 120, 130], spot=[4, 4, 0, 4])

    assert read_availability(table, {"spot", "other"}) == {
        "spot": changes((0, 4), (20, 0), (30, 4))
    }


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        pytest.param({"seconds": [0, 1]}, "there is no pool", id="no pool"),
        pytest.param({"seconds": [0], "moon": [1]}, "column moon: there is no such", id="unknown"),
        pytest.param({"seconds": [5, 5], "spot": [1, 2]}, "row 3: 5 is not after 5", id="order"),
        pytest.param({"seconds": [0], "spot": [0.5]}, "row 2", id="half a node"),
        pytest.param({"seconds": [0], "spot": [10**6]}, "row 2", id="another quantity"),
    ],
)
def test_says_which_row_of_a_table_is_wrong(columns: dict[str, list[float]], expected: str) -> None:
    with pytest.raises(DataError, match=expected):
        read_availability(Table.of(**columns), {"spot"})


def test_delays_add_up_to_what_the_planner_expects() -> None:
    timing = Timing.expected(Overheads(start_s=180.0, save_s=3.0, restore_s=7.0, reform_s=1.0))

    assert timing.node_s + timing.container_s + timing.join_s == pytest.approx(180.0)
    assert (timing.stall_s, timing.restore_s, timing.reform_s) == (3.0, 7.0, 1.0)
