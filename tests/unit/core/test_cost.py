"""What a job has spent: whole nodes, from Ready until gone, split by GPUs."""

from dataclasses import replace
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.lifecycle.cost import Meter, charge, settle
from ebbtide.core.values.observed import Node, Pod, Role
from ebbtide.core.values.status import Cost, NodeCharge
from support.builders import ON_DEMAND, SPOT, at, make_node, make_pod

POD = make_pod(node="n1")


def meter(*pods: Pod, nodes: tuple[Node, ...], gpus: dict[str, int] | None = None) -> Meter:
    return Meter(
        pods=pods,
        nodes={node.name: node for node in nodes},
        node_gpus=gpus or {},
        pools=(SPOT, ON_DEMAND),
    )


def test_a_node_costs_its_price_for_the_time_it_is_there() -> None:
    there = meter(POD, nodes=(make_node("n1"),))

    cost = charge(charge(Cost(), there, now=at(0)), there, now=at(3600))

    assert cost.spent_usd == Decimal("0.90")


def test_the_charge_begins_when_the_node_is_ready_not_when_it_was_first_seen() -> None:
    node = make_node("n1", ready_changed=at(100))

    cost = charge(Cost(), meter(POD, nodes=(node,)), now=at(500))

    assert cost.nodes[0].since == at(100)


def test_the_charge_ends_with_the_ready_condition() -> None:
    node = make_node("n1")
    cost = charge(Cost(), meter(POD, nodes=(node,)), now=at(0))
    dark = replace(node, ready=False, ready_changed=at(1800))

    cost = charge(cost, meter(POD, nodes=(dark,)), now=at(3600))

    assert cost.nodes == ()
    assert cost.spent_usd == Decimal("0.45")


def test_the_charge_ends_with_the_node_object() -> None:
    cost = charge(Cost(), meter(POD, nodes=(make_node("n1"),)), now=at(0))

    cost = charge(cost, meter(nodes=()), now=at(1800))

    assert cost.settled_usd == Decimal("0.45")


def test_a_node_that_returns_under_its_name_is_a_new_charge() -> None:
    first = make_node("n1")
    cost = charge(Cost(), meter(POD, nodes=(first,)), now=at(0))
    again = make_node("n1", uid="another", ready_changed=at(2000))

    cost = charge(cost, meter(POD, nodes=(again,)), now=at(1800))

    assert cost.settled_usd == Decimal("0.45")
    assert cost.nodes[0].since == at(2000)


def test_a_shared_node_is_split_by_gpus() -> None:
    node = make_node("n1", gpus=4)

    cost = charge(Cost(), meter(POD, nodes=(node,), gpus={"n1": 4}), now=at(0))

    assert cost.nodes[0].usd_per_hour == Decimal("0.225")


def test_two_workers_on_one_node_are_one_charge() -> None:
    other = make_pod(1, node="n1")

    cost = charge(Cost(), meter(POD, other, nodes=(make_node("n1"),)), now=at(0))

    assert [entry.usd_per_hour for entry in cost.nodes] == [Decimal("0.90")]


def test_settling_ends_every_charge_and_keeps_the_sum() -> None:
    cost = charge(Cost(), meter(POD, nodes=(make_node("n1"),)), now=at(0))

    ended = settle(cost, now=at(1800))

    assert ended.nodes == ()
    assert ended.spent_usd == Decimal("0.45")
    assert settle(ended, now=at(9999)) == ended


def test_a_pod_without_a_priced_pool_costs_nothing() -> None:
    pod = make_pod(node="n1", pool="unknown")

    assert charge(Cost(), meter(pod, nodes=(make_node("n1"),)), now=at(60)) == Cost()


@given(st.lists(st.integers(1, 7200), min_size=1, max_size=20))
def test_the_sum_does_not_depend_on_how_often_anybody_looks(moments: list[int]) -> None:
    there = meter(POD, nodes=(make_node("n1"),))
    often = charge(Cost(), there, now=at(0))
    for moment in sorted(moments):
        often = charge(often, there, now=at(moment))

    once = charge(charge(Cost(), there, now=at(0)), there, now=at(max(moments)))

    assert often == once


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_charge_is_never_negative(since: int, end: int) -> None:
    entry = NodeCharge(node="n", uid="u", pool="p", usd_per_hour=Decimal(3), since=at(since))

    assert settle(Cost(nodes=(entry,)), now=at(end)).settled_usd >= 0


def test_a_coordinator_has_no_share_of_the_node_it_sits_on() -> None:
    chair = make_pod(role=Role.COORDINATOR, node="n1")
    alone = meter(chair, nodes=(make_node("n1"),))
    beside = meter(POD, chair, nodes=(make_node("n1"),))
    without = meter(POD, nodes=(make_node("n1"),))

    assert charge(Cost(), alone, now=at(3600)) == Cost(spent_usd=Decimal("0.00"))
    assert charge(Cost(), beside, now=at(3600)) == charge(Cost(), without, now=at(3600))
