"""Whole jobs in virtual time over pools that behave badly: what is remembered decides."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import pytest

from ebbtide.core.models.survival import Survival
from ebbtide.core.planner.embedded import Embedded
from ebbtide.core.planner.inputs import Overheads
from ebbtide.core.planner.knowledge import Workload
from ebbtide.core.planner.speed import Speed
from ebbtide.core.simulator.virtual.run import Outcome, Run
from ebbtide.core.values import reasons
from ebbtide.core.values.job import Job
from ebbtide.core.values.objective import Objective, PlanMode
from ebbtide.core.values.past import Past
from ebbtide.core.values.pool import Pool
from ebbtide.data.knowledge import embedded_knowledge
from support.builders import ON_DEMAND, START, make_job, make_pool
from support.virtual import SPEED, STEP_S, Points, nodes, play, seconds_of

MINUTE = 60.0
HOUR = 3600.0
NEVER = 1e4


@dataclass(frozen=True, kw_only=True)
class Fast:
    """The embedded models, but of the speed, which is what it really is."""

    models: Embedded

    def speed(self, _workload: Workload, _pools: Sequence[Pool]) -> Speed:
        return SPEED

    def life(self, pool: Pool, now: datetime, past: Past) -> Survival | None:
        return self.models.life(pool, now, past)

    def overheads(self, workload: Workload) -> Overheads:
        return self.models.overheads(workload)


@pytest.fixture(scope="module")
def knowledge() -> Fast:
    return Fast(models=embedded_knowledge(start=timedelta(seconds=180)))


def spot(name: str, usd: str) -> Pool:
    return make_pool(name, usd_per_node_hour=Decimal(usd), max_nodes=4)


def job(*, workers: int, hours: float, due_h: float, save_min: float = 10) -> Job:
    return make_job(
        plan_mode=PlanMode.AUTO,
        min_replicas=workers,
        max_replicas=workers,
        on_demand_floor=0,
        steps=int(workers * hours * HOUR / STEP_S),
        checkpoint_interval=timedelta(minutes=save_min),
        objective=Objective(deadline_after=timedelta(hours=due_h)),
    )


def pools_planned(run: Run) -> list[tuple[float, str]]:
    """Return when the plan changed, in minutes, and to which pools."""
    found = []
    for entry in run.log:
        if entry.reason == reasons.PLAN_CHOSEN:
            shares = entry.message.split("worker", 1)[1].split("(", 1)[-1].split(")", 1)[0]
            found.append(((entry.at - START).total_seconds() / MINUTE, shares))
    return found


def taken_every(minutes: float, hours: float) -> Points:
    """Return a pool that gives one node at once and takes it back after five minutes."""
    number = int(hours * 60 / minutes)
    ends = [(minutes * MINUTE * n, 1.0) for n in range(number)]
    return tuple(sorted((*ends, *((at + 330.0, 0.0) for at, _ in ends))))


def test_b083_after_three_quick_losses_the_job_moves_and_the_pool_is_tried_again_later(
    knowledge: Fast,
) -> None:
    trace = nodes(a=taken_every(6, 5), b=((0, 1),), on_demand=((0, 1),))

    found = play(
        job(workers=1, hours=4, due_h=9),
        pools=(spot("a", "1.00"), spot("b", "1.40"), ON_DEMAND),
        trace=trace,
        knowledge=knowledge,
    )

    plans = pools_planned(found)
    moves = [(minutes, shares) for minutes, shares in plans if minutes]
    assert found.outcome is Outcome.COMPLETE
    assert plans[0] == (0.0, "1 on a")
    assert moves[0][0] < 20, "three losses are over after eighteen minutes"
    assert [shares for _, shares in moves[:4]] == ["1 on b", "1 on a", "1 on b", "1 on a"]
    away = [moves[n + 1][0] - moves[n][0] for n in (0, 2)]
    assert away == pytest.approx([60, 120], rel=0.1)
    assert found.on_demand_hours == 0


def drought(back_h: float = NEVER) -> dict[str, Points]:
    return dict.fromkeys("abc", ((0, 0), (back_h * HOUR, 4)))


THREE = (spot("a", "0.90"), spot("b", "1.00"), spot("c", "1.10"), ON_DEMAND)


def rests_of(plans: list[tuple[float, str]], pool: str) -> list[float]:
    """Return minutes from each whole wait of five minutes in a pool to the next try there."""
    found = []
    ended: float | None = None
    for (minutes, shares), (end, _) in pairwise(plans):
        if f" on {pool}" in shares:
            if ended is not None:
                found.append(minutes - ended)
            ended = end if end - minutes >= 5 - 0.1 else None
    return found


def test_b085_requests_reach_on_demand_and_each_pool_is_left_out_for_longer_each_time(
    knowledge: Fast,
) -> None:
    found = play(
        job(workers=2, hours=6, due_h=6.6, save_min=2),
        pools=THREE,
        trace=nodes(**drought(), on_demand=((0, 4),)),
        knowledge=knowledge,
    )

    assert found.outcome is Outcome.COMPLETE
    assert (found.finish or START) <= START + timedelta(hours=6.6)
    assert found.spot_hours == 0
    first = seconds_of(found, reasons.FELL_BACK)[0]
    assert first <= 15 * MINUTE, "three waits of five minutes"
    rests = {pool: rests_of(pools_planned(found), pool) for pool in "abc"}
    for pool, lengths in rests.items():
        for times, rest in enumerate(lengths, start=1):
            assert rest >= 5 * 2**times - 0.1, f"{pool} after {times} waits in vain"
    assert max(map(len, rests.values())) >= 3
    assert all("no node comes from" in e.message for e in found.log if " c: run" in e.message)


def test_b085_spot_is_used_again_when_it_is_back(knowledge: Fast) -> None:
    found = play(
        job(workers=2, hours=4, due_h=4.5, save_min=2),
        pools=THREE,
        trace=nodes(**drought(2), on_demand=((0, 4),)),
        knowledge=knowledge,
    )

    assert found.outcome is Outcome.COMPLETE
    assert (found.finish or START) <= START + timedelta(hours=4.5)
    assert found.spot_hours > 3
    assert all(at > 2 * HOUR for at in seconds_of(found, reasons.RETURNED))


def test_a_second_spot_pool_makes_up_for_one_that_is_dry(knowledge: Fast) -> None:
    """There is time to wait for the cheaper one; a pool that gives nodes is no reason to wait."""
    found = play(
        job(workers=2, hours=2, due_h=12),
        pools=(THREE[0], THREE[1], ON_DEMAND),
        trace=nodes(a=((0, 0),), b=((0, 4),), on_demand=((0, 4),)),
        knowledge=knowledge,
    )

    assert found.outcome is Outcome.COMPLETE
    assert {item.pool for item in found.bill.items} == {"b"}
    assert (found.finish or START) < START + timedelta(hours=2, minutes=20)
