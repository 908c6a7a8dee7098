"""Faults that others had, as trials for plans."""

from datetime import timedelta
from decimal import Decimal

import pytest

from ebbtide.core.models.lifetime.model import Lifetimes
from ebbtide.core.models.start_up import Duration
from ebbtide.core.models.survival import Survival
from ebbtide.core.models.table import Table
from ebbtide.core.planner.inputs import Overheads
from ebbtide.core.planner.planning import plan
from ebbtide.data.defaults import embedded_model
from support.questions import NOW, ask, living, planned, pool_of, workers_of

FIVE_MINUTES_H = 5 / 60


def law_after(losses: int) -> Survival:
    """Return what is believed of a pool's nodes after so many of them went within minutes."""
    model = embedded_model("lifetime")
    assert isinstance(model, Lifetimes)
    if losses:
        columns = {"pool": "a", "zone": "z", "gpu": "V100", "revoked": 1}
        rows = {name: [value] * losses for name, value in columns.items()}
        model = model.learn(Table.of(**rows, lifetime_h=[FIVE_MINUTES_H] * losses))
    asked = Table.of(pool=["a"], zone=["z"], gpu=["V100"])
    return model.laws_of(asked, unit_s=60.0, until_s=86_400.0)[0]


@pytest.mark.parametrize(("losses", "chosen"), [(0, "a"), (3, "b")])
def test_b083_three_quick_losses_move_the_plan_to_the_pool_that_lasts(
    losses: int, chosen: str
) -> None:
    question = ask(
        pool_of("a", 1.0, spot=True, life=law_after(losses)),
        pool_of("b", 1.4, spot=True, life=living(12.0)),
        pool_of("demand", 3.0),
        steps_left=int(6 * 3600 * 400 / 1000),  # six hours of one V100
        sizes=(1,),
        overheads=Overheads(start_s=180.0, save_s=5.0, restore_s=30.0, reform_s=1.0),
        checkpoint_interval=timedelta(minutes=10),
        due=NOW + timedelta(hours=12),
    )

    assert workers_of(planned(plan(question, NOW))) == {chosen: 1}


def test_b080_each_node_is_planned_at_the_price_of_its_market() -> None:
    long = living(1000.0)
    question = ask(
        pool_of("a-spot", 0.49, nodes=2, spot=True, life=long),
        pool_of("a-ondemand", 0.44, nodes=2),
        pool_of("b-spot", 0.30, nodes=2, spot=True, life=long),
        pool_of("b-ondemand", 1.00, nodes=2),
        sizes=(4,),
    )

    found = planned(plan(question, NOW))

    hours = (found.predicted.finish - NOW).total_seconds() / 3600
    assert workers_of(found) == {"a-ondemand": 2, "b-spot": 2}
    assert float(found.predicted.cost_usd) == pytest.approx(hours * 1.48, abs=0.006)


@pytest.mark.parametrize("price", ["0", "-1", "0.00"])
def test_b081_a_price_of_nothing_is_never_chosen(price: str) -> None:
    free, fair = pool_of("free", price), pool_of("fair", 3.0)

    found = planned(plan(ask(free, fair), NOW))

    assert set(workers_of(found)) == {"fair"}
    assert f"pool free: a price of {Decimal(price)} USD" in found.assumptions[0]


def test_b086_a_pool_at_zero_nodes_has_what_it_declares_and_takes_its_start() -> None:
    start = Duration(value=180.0, low=180.0, high=180.0, beyond=False)
    pool = pool_of("zero", 12.0, per_node=4, nodes=8, start_up=start)

    found = planned(plan(ask(pool, sizes=(8,)), NOW))

    assert workers_of(found) == {"zero": 8}
    # 3.6 million samples at 8 x 400 a second, after the start
    seconds = (found.predicted.finish - NOW).total_seconds()
    assert seconds == pytest.approx(180 + 3_600_000 / 3200)
