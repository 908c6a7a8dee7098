"""Size and place until the planner comes."""

from decimal import Decimal
from typing import Any

import pytest

from ebbtide.core.planner.fixed_size import fix_size
from ebbtide.core.values.job import SpotUse
from ebbtide.core.values.pool import Market
from support.builders import ON_DEMAND, SPOT, make_job, make_pool

CHEAP = make_pool("cheap", usd_per_node_hour=Decimal("0.50"), max_nodes=1)
WIDE = make_pool("wide", usd_per_node_hour=Decimal("1.20"), gpus_per_node=4)  # 0.30 a worker


def test_the_floor_goes_to_on_demand_and_the_rest_to_the_cheapest_spot() -> None:
    placement = fix_size(make_job(on_demand_floor=1), [ON_DEMAND, SPOT, CHEAP])

    assert placement.place(0, load={}) == ON_DEMAND
    assert placement.place(1, load={}) == CHEAP


def test_a_full_pool_passes_the_worker_on() -> None:
    placement = fix_size(make_job(), [ON_DEMAND, SPOT, CHEAP])

    assert placement.place(1, load={"cheap": 1}) == SPOT


def test_price_counts_per_worker_not_per_node() -> None:
    placement = fix_size(make_job(), [ON_DEMAND, SPOT, WIDE])

    assert placement.place(1, load={}) == WIDE


def test_after_all_spot_pools_comes_on_demand() -> None:
    placement = fix_size(make_job(), [ON_DEMAND, SPOT])

    assert placement.place(1, load={}, tried=("spot",)) == ON_DEMAND


def test_b085_a_pool_that_gave_no_node_is_left_out_until_all_others_were_tried() -> None:
    pools = [ON_DEMAND, SPOT, CHEAP]
    placement = fix_size(make_job(), pools, dry=frozenset({"cheap"}))

    assert placement.place(1, load={}) == SPOT
    assert placement.place(1, load={}, tried=("spot",)) == ON_DEMAND
    assert placement.place(1, load={}, tried=("spot", "on-demand")) == CHEAP
    assert (
        fix_size(make_job(), pools, dry=frozenset({"cheap", "spot", "on-demand"})).place(1, load={})
        == CHEAP
    )


def test_when_all_were_tried_it_begins_again() -> None:
    placement = fix_size(make_job(), [ON_DEMAND, SPOT])

    assert placement.place(1, load={}, tried=("spot", "on-demand")) == SPOT


def test_spot_never_keeps_every_worker_on_demand() -> None:
    placement = fix_size(make_job(spot=SpotUse.NEVER), [ON_DEMAND, SPOT])

    assert all(placement.place(i, load={}) == ON_DEMAND for i in range(3))


def test_spot_only_uses_no_on_demand() -> None:
    placement = fix_size(make_job(spot=SpotUse.ONLY, on_demand_floor=0), [ON_DEMAND, SPOT])

    assert placement.candidates(0) == (SPOT,)


def test_names_and_selectors_choose_pools() -> None:
    labelled = make_pool("labelled", labels={"team": "vision"})

    by_name = fix_size(make_job(pools=("on-demand",)), [ON_DEMAND, SPOT])
    by_label = fix_size(make_job(pool_selector={"team": "vision"}), [ON_DEMAND, SPOT, labelled])

    assert by_name.candidates(2) == (ON_DEMAND,)
    assert by_label.candidates(2) == (labelled,)


@pytest.mark.parametrize(
    ("job", "words"),
    [
        pytest.param({"pools": ("nowhere",)}, "nowhere: there is no such CapacityPool", id="name"),
        pytest.param({"gpus_per_worker": 8}, "a worker needs 8 GPUs, its nodes have 1", id="gpus"),
        pytest.param({"pool_selector": {"a": "b"}}, "do not match", id="selector"),
    ],
)
def test_says_why_no_pool_fits(job: dict[str, Any], words: str) -> None:
    placement = fix_size(make_job(**job), [ON_DEMAND, SPOT])

    assert placement.place(1, load={}) is None
    assert words in placement.explain(1)


def test_says_which_pools_are_full() -> None:
    placement = fix_size(
        make_job(), [CHEAP, make_pool("tiny", market=Market.ON_DEMAND, max_nodes=0)]
    )

    assert placement.place(1, load={"cheap": 1}) is None
    assert "every pool that fits is full: cheap (maxNodes 1)" in placement.explain(1)


def test_a_worker_without_gpus_fits_a_node_without_gpus() -> None:
    cpu = make_pool("cpu", gpus_per_node=0)

    assert fix_size(make_job(gpus_per_worker=0), [cpu, ON_DEMAND]).place(1, load={}) == cpu
