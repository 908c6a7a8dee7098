"""Whole jobs in virtual time: what the operator's step makes of what providers do."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import numpy as np
import pytest

from ebbtide.core.models.quality import Quality
from ebbtide.core.models.start_up import Stage, StartUpModel
from ebbtide.core.simulator.virtual.run import Conditions, Outcome, UnsettledError, run
from ebbtide.core.simulator.virtual.timing import Timing, Trace
from ebbtide.core.values import reasons
from ebbtide.core.values.decision import Decision
from ebbtide.core.values.observed import Observed, PodPhase, Role
from ebbtide.core.values.pool import Market
from ebbtide.core.values.settings import Settings
from support.builders import ON_DEMAND, SPOT, START, make_job, make_pool
from support.virtual import (
    PROMPT,
    RARE,
    SPEED,
    STEP_S,
    make_loop,
    nodes,
    play,
    prices,
    seconds_of,
)

SAVED_EVERY_S = 60.0
"""Where the job says nothing else."""


def test_a_job_that_nothing_happens_to_takes_start_up_and_work() -> None:
    found = play(make_job(steps=3000, min_replicas=3))

    start_s = PROMPT.node_s + PROMPT.container_s + PROMPT.join_s + PROMPT.reform_s
    saves_s = PROMPT.stall_s * len(range(60, 2000, 60)) + PROMPT.commit_s
    took = (found.finish - START).total_seconds() if found.finish else 0.0
    assert found.outcome is Outcome.COMPLETE
    assert took == pytest.approx(start_s + 3000 * STEP_S / 3 + saves_s + PROMPT.exit_s, abs=1.0)
    assert (found.num_trained, found.num_lost, found.num_taken) == (3000, 0, 0)
    assert [entry.reason for entry in found.log] == [reasons.RUNNING_EVENT, reasons.COMPLETED]


def test_servers_are_there_until_the_end_and_on_no_bill() -> None:
    alone, served = (play(make_job(steps=600, servers=count)) for count in (0, 2))

    assert served.outcome is Outcome.COMPLETE
    assert served.status.replica_statuses["server"].active == 0
    assert served.status.attempts["server-1"].last == 1
    assert served.num_trained == alone.num_trained
    assert served.bill.usd == alone.bill.usd


def test_workers_come_to_pools_that_the_operator_chose_and_are_charged_there() -> None:
    found = play(make_job(steps=3000))

    assert {item.pool for item in found.bill.items} == {"spot", "on-demand"}
    assert found.spot_hours == pytest.approx(2 * found.on_demand_hours)
    assert found.bill.usd - found.bill.idle_usd == found.status.cost.spent_usd


def test_with_notice_nothing_is_lost_and_the_revocation_is_counted() -> None:
    found = play(make_job(steps=1500), settings=Settings(), trace=nodes(spot=((600.5, 1),)))

    assert found.outcome is Outcome.COMPLETE
    assert found.status.counters.revocations == found.num_taken == 1
    assert found.num_lost == found.status.counters.steps_lost == 0
    assert seconds_of(found, reasons.REPLACEMENT_CREATED) == [600.5]


def test_without_notice_a_survivor_keeps_every_step_that_was_applied() -> None:
    timing = replace(PROMPT, warned_share=0.0)

    found = play(make_job(steps=3000), timing=timing, trace=nodes(spot=((600.5, 1),)))

    assert found.status.counters.revocations == 1
    assert found.num_lost == 0
    broken = next(s for s in found.stretches if s.ended == START + timedelta(seconds=600.5))
    made = (broken.ended - broken.began).total_seconds() - broken.held_s
    assert broken.last - broken.first == int(made * broken.steps_per_second + 1e-6)


@pytest.mark.parametrize(
    ("loss_s", "noticed_s"),
    [
        pytest.param(None, 1.0, id="by four silent beats"),
        pytest.param(0.25, 0.25, id="by what breaks"),
    ],
)
def test_a_loss_is_made_good_when_the_coordinator_notices_it(
    loss_s: float | None, noticed_s: float
) -> None:
    timing = replace(PROMPT, warned_share=0.0, silence_s=40.0, loss_s=loss_s)

    found = play(make_job(steps=3000), timing=timing, trace=nodes(spot=((600.5, 1),)))

    assert seconds_of(found, reasons.REPLACEMENT_CREATED) == [600.5 + noticed_s]


def test_the_coordinator_hears_of_a_worker_when_its_imports_are_done() -> None:
    heard_s: dict[str, float] = {}

    def watch(observed: Observed, _: Decision) -> None:
        view, bound = observed.coordinator, {pod.name: pod.bound_since for pod in observed.pods}
        for worker in view.report.workers if view.report is not None else ():
            since = bound.get(worker.worker)
            if since is not None and view.heard is not None:
                heard_s.setdefault(worker.worker, (view.heard - since).total_seconds())

    found = play(make_job(steps=1500), trace=nodes(spot=((600.5, 1), (660.0, 4))), watch=watch)

    assert found.status.counters.revocations > 0
    assert len(heard_s) > make_job().max_replicas
    assert min(heard_s.values()) >= PROMPT.container_s + PROMPT.join_s


def test_joining_when_nobody_is_there_yet_may_take_longer() -> None:
    timing = replace(PROMPT, first_join_s=PROMPT.join_s + 30.0)

    usual, slow = (play(make_job(steps=3000), timing=each) for each in (PROMPT, timing))

    assert seconds_of(slow, reasons.RUNNING_EVENT) == [
        seconds + 30.0 for seconds in seconds_of(usual, reasons.RUNNING_EVENT)
    ]


def test_who_joins_later_is_as_quick_as_ever() -> None:
    job, trace = make_job(steps=3000), nodes(spot=((600.5, 1),))
    cut_off = replace(PROMPT, warned_share=0.0)

    short_handed = [
        sum(
            (each.ended - each.began).total_seconds()
            for each in found.stretches
            if each.members < 3
        )
        for found in (
            play(job, timing=timing, trace=trace)
            for timing in (cut_off, replace(cut_off, first_join_s=PROMPT.join_s + 30.0))
        )
    ]

    assert short_handed[0] > 0
    assert short_handed[1] == pytest.approx(short_handed[0], abs=1.0)


def test_a_total_loss_without_notice_throws_away_what_no_checkpoint_holds() -> None:
    timing = replace(PROMPT, warned_share=0.0)
    job = make_job(steps=3000, on_demand_floor=0)

    found = play(job, timing=timing, trace=nodes(spot=((600.5, 0), (700, 8)), on_demand=((0, 0),)))

    assert found.outcome is Outcome.COMPLETE
    assert found.status.counters.revocations == 3
    assert 0 < found.num_lost == found.status.counters.steps_lost
    assert found.num_lost <= (SAVED_EVERY_S + timing.commit_s) * 3 / STEP_S + 1
    assert found.num_trained == 3000 + found.num_lost


def test_a_total_loss_before_the_first_checkpoint_begins_from_nothing() -> None:
    timing = replace(PROMPT, warned_share=0.0)
    job = make_job(steps=300, on_demand_floor=0)

    found = play(job, timing=timing, trace=nodes(spot=((100, 0), (200, 8)), on_demand=((0, 0),)))

    assert found.outcome is Outcome.COMPLETE
    assert found.num_lost > 0
    assert found.num_trained == 300 + found.num_lost


def test_all_that_leave_with_notice_save_what_they_alone_hold() -> None:
    job = make_job(steps=3000, on_demand_floor=0)

    found = play(
        job, settings=Settings(), trace=nodes(spot=((600.5, 0), (900, 8)), on_demand=((0, 0),))
    )

    assert found.status.counters.revocations == 3
    assert found.num_lost == found.status.counters.steps_lost == 0
    assert found.num_trained == 3000


def test_a_notice_too_short_to_save_in_loses_what_was_not_saved() -> None:
    hasty = (replace(SPOT, notice=timedelta(seconds=3)), ON_DEMAND)
    timing = replace(PROMPT, commit_s=20.0)
    job = make_job(steps=3000, on_demand_floor=0)

    found = play(
        job,
        pools=hasty,
        timing=timing,
        trace=nodes(spot=((600.5, 0), (900, 8)), on_demand=((0, 0),)),
    )

    assert found.num_lost == found.status.counters.steps_lost > 0


def test_in_a_drought_workers_go_to_on_demand() -> None:
    found = play(make_job(steps=3000), trace=nodes(spot=((0, 0),)))

    assert found.outcome is Outcome.COMPLETE
    assert found.spot_hours == 0
    assert seconds_of(found, reasons.FELL_BACK) == [300.0, 300.0]


def test_a_drought_everywhere_is_waited_out() -> None:
    job = make_job(steps=3000, on_demand_floor=0)

    found = play(job, trace=nodes(spot=((0, 0), (14_400, 8)), on_demand=((0, 0),)))

    assert found.outcome is Outcome.COMPLETE
    assert reasons.NO_CAPACITY in {entry.reason for entry in found.log}
    assert (found.stretches[0].began - START).total_seconds() > 14_400


def test_a_job_that_nothing_can_help_any_more_is_called_stuck() -> None:
    found = play(make_job(), trace=nodes(spot=((0, 0),), on_demand=((0, 1),)))

    assert found.outcome is Outcome.STUCK
    assert found.why.startswith("nothing is under way and nothing will come: Starting: 0 of at")
    assert found.finish is None


def test_a_run_ends_when_its_time_is_up() -> None:
    found = play(make_job(steps=10**6), limit=timedelta(hours=1))

    assert found.outcome is Outcome.UNFINISHED
    assert found.ended == START + timedelta(hours=1)
    assert found.status.progress.step > 0


def test_prices_of_the_moment_are_charged() -> None:
    job = make_job(steps=1800, min_replicas=3, on_demand_floor=0)
    rising = Trace(usd_per_node_hour=prices(spot=((0, 1.0), (660, 2.5))))
    steady = Trace(usd_per_node_hour=prices(spot=((0, 1.0),)))

    dear, cheap = play(job, trace=rising), play(job, trace=steady)

    late_s = (cheap.ended - START).total_seconds() - 660
    assert dear.bill.usd - cheap.bill.usd == pytest.approx(
        Decimal(3 * 1.5 * late_s / 3600), abs=Decimal("0.01")
    )
    assert dear.bill.usd - dear.bill.idle_usd == dear.status.cost.spent_usd


def test_nodes_without_pods_are_charged_until_they_are_given_back() -> None:
    found = play(make_job(steps=3000), timing=replace(PROMPT, idle_s=3600.0))

    idle = [item for item in found.bill.items if item.is_idle]
    assert {item.hours for item in idle} == {Decimal(1)}
    assert found.bill.idle_usd == Decimal("3.00") + 2 * Decimal("0.90")


def test_several_workers_share_a_node() -> None:
    big = make_pool("big", market=Market.ON_DEMAND, gpus_per_node=4, max_nodes=1)

    found = play(make_job(steps=3000), pools=(big,))

    assert found.outcome is Outcome.COMPLETE
    assert {item.node for item in found.bill.items} == {"big-1"}


def test_the_job_goes_when_its_time_to_live_is_over() -> None:
    loop = make_loop(make_job(steps=300, ttl_after_finished=timedelta(hours=2)))

    found = loop.run()

    assert loop.world.is_deleted
    assert not loop.world.pods.objects
    assert found.finish is not None
    assert found.ended >= found.finish + timedelta(hours=2)


def test_a_kill_timer_ends_the_job_as_failed() -> None:
    found = play(make_job(steps=10**6, active_deadline=timedelta(hours=1)))

    assert found.outcome is Outcome.FAILED
    assert "activeDeadlineSeconds" in found.why
    assert found.finish is not None


def test_suspending_saves_and_resuming_goes_on_from_there() -> None:
    loop = make_loop(make_job(steps=3000))
    loop.run_until(START + timedelta(seconds=600))
    loop.world.apply(replace(loop.world.job, suspend=True))
    loop.run_until(START + timedelta(seconds=900))
    held = dict(loop.world.pods.objects)

    loop.world.apply(replace(loop.world.job, suspend=False))
    found = loop.run()

    assert not held
    assert found.outcome is Outcome.COMPLETE
    assert found.num_lost == found.status.counters.steps_lost == 0
    assert found.num_trained == 3000


def test_a_suspended_job_with_nothing_to_come_is_told_as_such() -> None:
    found = play(make_job(suspend=True))

    assert found.outcome is Outcome.STUCK
    assert "Suspended" in found.why


def test_a_larger_job_takes_new_members_in_between_two_steps() -> None:
    loop = make_loop(make_job(steps=3000, max_replicas=2))
    loop.run_until(START + timedelta(seconds=600))
    loop.world.apply(replace(loop.world.job, max_replicas=3))

    found = loop.run()

    assert [s.members for s in found.stretches][-2:] == [2, 3]
    assert found.num_lost == 0


def test_a_smaller_job_lets_members_go_between_two_steps() -> None:
    loop = make_loop(make_job(steps=3000))
    loop.run_until(START + timedelta(seconds=600))
    loop.world.apply(replace(loop.world.job, max_replicas=2))

    found = loop.run()

    assert found.stretches[-1].members == 2
    assert found.num_lost == 0
    assert found.status.counters.restarts == 0


def test_nodes_take_their_time_by_the_law_that_is_given() -> None:
    stage = Stage(
        center=np.log(100.0), between=0.1, within=0.5, means={"spot": 4.0}, counts={"spot": 9}
    )
    quality = Quality(samples=0, split="none")
    law = StartUpModel(method="random-effects", quality=quality, stages={"booting": stage})
    timing = replace(PROMPT, start_up=law)

    first, again = (play(make_job(steps=300), timing=timing, seed=s) for s in (1, 1))
    other = play(make_job(steps=300), timing=timing, seed=2)

    came = [item.since for item in first.bill.items]
    assert came == [item.since for item in again.bill.items]
    assert came != [item.since for item in other.bill.items]


def test_some_notices_fail_to_come_by_chance() -> None:
    timing = replace(PROMPT, warned_share=0.5)
    trace = nodes(spot=tuple((600.0 + 900 * k, k % 2) for k in range(8)))

    lost = {play(make_job(steps=6000), timing=timing, trace=trace, seed=s).log for s in range(4)}

    assert len(lost) > 1


def test_how_often_progress_is_looked_at_changes_no_decision() -> None:
    trace = nodes(spot=((600, 1), (1200, 0), (2400, 8)))
    timing = replace(PROMPT, warned_share=0.0)
    often = replace(RARE, progress_interval=timedelta(seconds=10))

    rare, frequent = (
        play(make_job(steps=4000), timing=timing, trace=trace, settings=settings)
        for settings in (RARE, often)
    )

    assert rare.log == frequent.log
    assert rare.bill == frequent.bill
    assert rare.num_passes == frequent.num_passes


def test_a_step_that_never_rests_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = make_loop(make_job())
    real = loop.world.pods.mark_boot

    def forget(name: str, boot_id: str) -> None:
        real(name, "")

    monkeypatch.setattr(loop.world.pods, "mark_boot", forget)

    with pytest.raises(UnsettledError, match="no rest at 2026-01-01"):
        loop.run()


def test_the_plain_call_gives_the_same_run() -> None:
    job = make_job(steps=300)
    conditions = Conditions(start=START, timing=PROMPT, settings=RARE)

    found = run(
        job,
        (SPOT, ON_DEMAND),
        SPEED,
        conditions,
        chance=np.random.default_rng(0),
    )

    assert found.log == play(job).log


def test_pods_of_a_node_that_went_are_collected() -> None:
    timing = Timing(warned_share=0.0, silence_s=5.0, deletion_s=5.0)
    seen: set[str] = set()

    found = play(
        make_job(steps=3000),
        timing=timing,
        trace=nodes(spot=((600, 0),)),
        watch=lambda observed, _: seen.update(
            pod.node
            for pod in observed.pods
            if pod.role is Role.WORKER and pod.phase is PodPhase.RUNNING
        ),
    )

    assert found.status.counters.revocations == 2
    assert len(seen) >= 5
