"""What cannot be planned, as the operator meets it: nothing runs, and what would is said."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from ebbtide.core.values import reasons
from ebbtide.core.values.objective import Objective, PlanMode
from ebbtide.core.values.pool import Pool
from support.builders import ON_DEMAND, SPOT, START, make_job
from support.knowing import Known
from support.stage import Stage, reason

GONE_AT_ONCE = Known(life_h=1e-4, start_s=1800.0)
"""Nodes live for seconds, and take half an hour to start."""


@pytest.mark.parametrize(
    ("pools", "job", "knowledge", "why", "says"),
    [
        pytest.param((), {}, Known(), reasons.NO_POOL, "there is no CapacityPool", id="no pools"),
        pytest.param(
            (replace(ON_DEMAND, usd_per_node_hour=Decimal(0)),),
            {},
            Known(),
            reasons.GOAL_INFEASIBLE,
            "a price of 0 USD per node and hour; one above 0 is right",
            id="zero price",
        ),
        pytest.param(
            (ON_DEMAND,),
            {"objective": Objective(deadline=START - timedelta(hours=1))},
            Known(),
            reasons.GOAL_INFEASIBLE,
            "which is past",
            id="deadline in the past",
        ),
        pytest.param(
            (ON_DEMAND,),
            {"min_replicas": 9, "max_replicas": 16},
            Known(),
            reasons.GOAL_INFEASIBLE,
            "minReplicas 9: the pools carry 8 workers in all, so 8 or fewer would work",
            id="minReplicas above every limit",
        ),
        pytest.param(
            (replace(ON_DEMAND, gpu_type="X9"),),
            {},
            Known(),
            reasons.GOAL_INFEASIBLE,
            "the speed of GPU type X9 is not known (known are: V100); a WorkloadProfile",
            id="unknown GPU",
        ),
        pytest.param(
            (SPOT,),
            {},
            GONE_AT_ONCE,
            reasons.GOAL_INFEASIBLE,
            "of the time of its nodes moves training on: they are lost after",
            id="never lives to save",
        ),
        pytest.param(
            (ON_DEMAND,),
            {"replica_discrete_values": (12, 16)},
            Known(),
            reasons.GOAL_INFEASIBLE,
            "leave none of 1 or more",
            id="conflicting legal sizes",
        ),
    ],
)
def test_nothing_runs_and_the_status_says_what_would(
    pools: tuple[Pool, ...], job: dict[str, Any], knowledge: Known, why: str, says: str
) -> None:
    fields = {"min_replicas": 1, "on_demand_floor": 0, "plan_mode": PlanMode.AUTO, **job}
    stage = Stage(make_job(**fields), *pools, knowledge=knowledge)

    stage.settle()
    stage.wait(120)

    planned = stage.status.condition(reasons.PLANNED)
    assert planned is not None
    assert (planned.status, planned.reason) == ("False", why)
    assert says in planned.message
    assert reason(stage, reasons.STALLED) == why
    assert not stage.pods
    assert stage.status.first_start is None
    assert [event.reason for event in stage.events].count(why) == 1
