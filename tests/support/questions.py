"""Questions to the planner, with defaults for what a test does not care about."""

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np

from ebbtide.core.models.survival import Survival
from ebbtide.core.planner.inputs import Inputs, Overheads, PoolState
from ebbtide.core.planner.speed import Pace, Speed
from ebbtide.core.values.plan import Infeasible, Plan
from ebbtide.core.values.pool import Market, Pool

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
PACES = {"K80": 60.0, "V100": 400.0, "A100": 800.0, "T4": 100.0}
NO_OVERHEADS = Overheads(start_s=0.0, save_s=0.0, restore_s=0.0, reform_s=0.0)


def living(hours: float) -> Survival:
    """Return a law of lives at a constant rate."""
    return Survival.of(lambda ages: np.exp(-ages / 3600 / hours), unit_s=300.0, until_s=48 * 3600.0)


def pool_of(
    name: str,
    usd: float | str,
    *,
    gpu: str = "V100",
    nodes: int = 8,
    per_node: int = 1,
    spot: bool = False,
    **more: Any,
) -> PoolState:
    """Return a pool; spot nodes live for twelve hours in the mean unless a `life` is given."""
    if spot:
        more.setdefault("life", living(12.0))
    pool = Pool(
        name=name,
        market=Market.SPOT if spot else Market.ON_DEMAND,
        max_nodes=nodes,
        gpu_type=gpu,
        gpus_per_node=per_node,
        usd_per_node_hour=Decimal(str(usd)),
    )
    return PoolState(pool=pool, **more)


def speed_of(
    paces: Mapping[str, float] | None = None, *, spread: float = 1.0, **more: Any
) -> Speed:
    """Return paces in samples per second, known within a factor."""
    return Speed(
        paces={
            gpu: Pace(value=pace, low=pace / spread, high=pace * spread, source="a test")
            for gpu, pace in (PACES if paces is None else paces).items()
        },
        **more,
    )


def ask(*pools: PoolState, **more: Any) -> Inputs:
    """Return a question: 3.6 million samples, which one V100 takes two and a half hours for."""
    fields: dict[str, Any] = {
        "steps_left": 3600,
        "global_batch": 1000,
        "uses_servers": False,
        "sizes": tuple(range(1, 17)),
        "on_demand_floor": 0,
        "gpus_per_worker": 1,
        "processes_per_worker": 1,
        "pools": pools,
        "speed": speed_of(),
        "overheads": NO_OVERHEADS,
    }
    return Inputs(**{**fields, **more})


def planned(found: Plan | Infeasible) -> Plan:
    """Return the plan; fail with the reason where there is none."""
    assert isinstance(found, Plan), found.reason
    return found


def refused(found: Plan | Infeasible) -> Infeasible:
    """Return why there is no plan; fail where there is one."""
    assert isinstance(found, Infeasible), found
    return found


def workers_of(plan: Plan) -> dict[str, int]:
    """Return the workers of each pool."""
    return {share.pool: share.replicas for share in plan.shares}
