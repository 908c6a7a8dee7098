"""Every fleet of a small question, judged as the planner judges: what its answers are held to."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from random import Random
from typing import Any

from ebbtide.core.planner.inputs import Inputs, Overheads, PoolState
from ebbtide.core.planner.outlook import Field, Fleet, look_ahead
from ebbtide.core.planner.planning import lay_out
from ebbtide.core.planner.scoring import Scored, score
from ebbtide.core.planner.spares import charge
from ebbtide.core.values.objective import Minimize
from ebbtide.core.values.plan import Plan
from support.questions import NOW, ask, living, pool_of, speed_of, workers_of


def draw_question(chance: Random, *, servers: bool = False) -> Inputs:
    """Draw a question with starts, nodes of several workers, deadlines and budgets."""
    loss = chance.choice([0.0, 0.02, 0.1])
    most = chance.randint(1, 8)
    hours = chance.choice([None, 0.5, 1.0, 3.0, 10.0])
    budget = chance.choice([None, None, "1.00", "3.00", "8.00", "20.00"])
    more: dict[str, Any] = {}
    if servers:
        more["uses_servers"] = True
        more["servers"] = chance.choice([(1, 4), (1, 1), (2, 3), (1, 8)])
        more["server_usd_per_hour"] = Decimal(chance.choice(["0", "0", "0.10", "0.50"]))
    speed = speed_of(
        {gpu: chance.randint(50, 800) for gpu in "AB"},
        spread=chance.choice([1.0, 1.2, 2.0]),
        efficiency=tuple(1 / (1 + loss * others) for others in range(8)),
        server_samples_per_s=chance.choice([50.0, 200.0, 500.0, 900.0]) if servers else None,
    )
    return ask(
        *(draw_pool(chance, f"p{place}") for place in range(chance.randint(1, 3))),
        sizes=chance.choice([tuple(range(1, most + 1)), (1, 2, 4, 8), (2, 5), (most,)]),
        speed=speed,
        on_demand_floor=chance.choice([0, 0, 1]),
        minimize=chance.choice(list(Minimize)),
        due=None if hours is None else NOW + timedelta(hours=hours),
        budget_left_usd=None if budget is None else Decimal(budget),
        overheads=Overheads(
            start_s=chance.choice([0.0, 120.0, 600.0]), save_s=3.0, restore_s=20.0, reform_s=1.0
        ),
        fixed_usd_per_hour=Decimal(chance.choice(["0", "0.10"])),
        **more,
    )


def draw_pool(chance: Random, name: str) -> PoolState:
    """Draw a pool of up to sixteen workers."""
    return pool_of(
        name,
        chance.randint(20, 400) / 100,
        gpu=chance.choice("AB"),
        nodes=chance.randint(1, 4),
        per_node=chance.choice([1, 1, 1, 2, 4]),
        spot=chance.random() < 0.5,
        life=living(chance.choice([2.0, 10.0, 40.0])),
    )


def field_of(question: Inputs) -> Field | None:
    """Return what the planner works on; None where nothing can be had."""
    found = lay_out(charge(question), NOW)
    return found if isinstance(found, Field) else None


def judge(field: Field, fleet: Fleet) -> Scored:
    """Judge a fleet by the goal."""
    return score(field, look_ahead(field, fleet), label="")


def judge_plan(field: Field, plan: Plan) -> Scored:
    """Judge what a plan runs by the goal."""
    return judge(field, Fleet.of(workers_of(plan), plan.servers))


def list_fleets(field: Field) -> Iterator[Fleet]:
    """Return every fleet that is legal and can be had."""
    low, high = field.inputs.servers if field.inputs.uses_servers else (0, 0)
    rooms = (range(offer.room + 1) for offer in field.offers)
    for counts in itertools.product(*rooms):
        for servers in range(low, high + 1):
            names = (offer.name for offer in field.offers)
            fleet = Fleet.of(dict(zip(names, counts, strict=True)), servers)
            if fleet.workers and field.can_have(fleet):
                yield fleet


def list_all(field: Field) -> list[Scored]:
    """Judge every fleet, the best first."""
    found = [judge(field, fleet) for fleet in list_fleets(field)]
    return sorted(found, key=lambda one: one.key)


def with_more(question: Inputs, chance: Random) -> Inputs:
    """Add a pool."""
    return replace(question, pools=(*question.pools, draw_pool(chance, "more")))
