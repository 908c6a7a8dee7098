"""Node time times price, to the cent."""

import datetime as dt
from decimal import Decimal

from world.cloud.bill import Bill, Item

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def after(seconds: float) -> dt.datetime:
    return START + dt.timedelta(seconds=seconds)


def make_item(node: str = "a", pool: str = "spot", usd: str = "0.92") -> Item:
    return Item(node=node, pool=pool, usd_per_node_hour=Decimal(usd), ready=START)


def test_a_node_costs_its_price_for_each_hour_until_it_is_off() -> None:
    bill = Bill()
    bill.start(make_item())
    assert bill.total(after(3600)) == Decimal("0.92")
    bill.stop("a", after(5400))
    assert bill.total(after(999_999)) == Decimal("1.38")


def test_nothing_is_charged_before_ready() -> None:
    bill = Bill()
    bill.start(make_item())
    assert bill.total(after(-10)) == 0


def test_cents_are_rounded_once_not_per_node() -> None:
    bill = Bill()
    for number in range(100):
        bill.start(make_item(node=str(number), usd="3.60"))
    assert bill.total(after(4)) == Decimal("0.40")  # 0.4 cents each would round to nothing
    assert str(bill.total(after(4))) == "0.40"


def test_half_a_cent_is_rounded_up() -> None:
    bill = Bill()
    bill.start(make_item(usd="18.00"))
    assert bill.total(after(1)) == Decimal("0.01")


def test_each_boot_of_a_name_is_an_item_and_pools_are_summed() -> None:
    bill = Bill()
    bill.start(make_item(usd="36.00"))
    bill.stop("a", after(1))
    bill.start(Item(node="a", pool="spot", usd_per_node_hour=Decimal(36), ready=after(10)))
    bill.start(make_item(node="b", pool="system", usd="3.60"))
    bill.stop("a", after(12))
    assert bill.by_pool(after(20)) == {"spot": Decimal("0.03"), "system": Decimal("0.02")}
    assert [item.off for item in bill.items] == [after(1), after(12), None]


def test_stopping_a_node_that_is_not_charged_changes_nothing() -> None:
    bill = Bill()
    bill.start(make_item())
    bill.stop("other", after(1))
    assert bill.items == [make_item()]
