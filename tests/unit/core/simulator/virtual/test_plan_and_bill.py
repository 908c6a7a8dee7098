"""What a plan says that a job will cost is what the job is charged, and what the provider bills."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from ebbtide.core.simulator.virtual.run import Run
from ebbtide.core.values.decision import Decision
from ebbtide.core.values.objective import Minimize, Objective, PlanMode
from ebbtide.core.values.observed import Observed, Role
from ebbtide.core.values.plan import Plan
from support.builders import ON_DEMAND, SPOT, make_job, make_pool
from support.knowing import Known
from support.virtual import play

KNOWN = Known(samples_per_s={"V100": 32.0}, efficiency=(1.0,), start_s=70.0, life_h=1e6)
"""As fast as the workers of `support.virtual` are, and the delays of its world added up."""
FOUR = make_pool("four", gpus_per_node=4, usd_per_node_hour=Decimal("9.00"), max_nodes=2)
NEAR = 0.02
"""Of the whole: what generations, saves and the last seconds take."""


def run_planned(*pools: Any, **job: Any) -> tuple[Plan, Run]:
    """Run a job by plan; return its first plan and what came of it."""
    plans: list[Plan] = []

    def watch(_: Observed, decision: Decision) -> None:
        if decision.status is not None and decision.status.plan is not None:
            plans.append(decision.status.plan)

    fields = {"steps": 8_000, "min_replicas": 1, "on_demand_floor": 0, "plan_mode": PlanMode.AUTO}
    spec = make_job(**{**fields, **job})
    found = play(spec, pools=pools, knowledge=KNOWN, watch=watch, check=False)
    return plans[0], found


@pytest.mark.parametrize(
    ("pools", "job"),
    [
        pytest.param((SPOT,), {}, id="spot alone"),
        pytest.param((ON_DEMAND,), {}, id="on-demand alone"),
        pytest.param((SPOT, ON_DEMAND), {"on_demand_floor": 1, "min_replicas": 3}, id="mixed"),
        pytest.param((FOUR,), {"min_replicas": 3}, id="a node that is not full"),
        pytest.param(
            (SPOT, ON_DEMAND),
            {"objective": Objective(minimize=Minimize.TIME, deadline_after=timedelta(days=1))},
            id="as fast as can be",
        ),
    ],
)
def test_plan_charge_and_bill_agree(pools: tuple[Any, ...], job: dict[str, Any]) -> None:
    plan, found = run_planned(*pools, **job)

    billed = found.bill.usd - found.bill.idle_usd
    assert abs(found.status.cost.spent_usd - billed) <= Decimal("0.01")
    assert float(plan.predicted.cost_usd) == pytest.approx(float(billed), rel=NEAR)


def test_the_coordinator_is_on_no_bill_and_in_no_plan() -> None:
    """It asks for no GPU, so it has no share of any node, and there is none for it alone."""
    seen: list[Observed] = []

    found = play(
        make_job(steps=2_000, on_demand_floor=0, plan_mode=PlanMode.AUTO),
        pools=(SPOT, ON_DEMAND),
        knowledge=KNOWN,
        watch=lambda observed, _: seen.append(observed),
    )

    coordinators = [p for o in seen for p in o.pods if p.role is Role.COORDINATOR]
    assert coordinators
    assert {(pod.gpus, pod.pool) for pod in coordinators} == {(0, "")}
    assert found.on_demand_hours == 0
    assert {item.pool for item in found.bill.items} == {"spot"}
