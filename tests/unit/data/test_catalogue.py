"""A price list: what cannot be believed is kept apart with its reason, and never chosen."""

import json
from datetime import date
from typing import Any

import pytest

from ebbtide.data.catalogue import (
    Catalogue,
    CatalogueError,
    load_catalogue,
    render_catalogue,
)
from ebbtide.data.offers import Offer


def make_row(name: str = "n1", **changes: object) -> dict[str, Any]:
    row = {
        "provider": "acme",
        "instance_type": name,
        "region": "east",
        "gpu": "V100",
        "gpus": 1,
        "on_demand_usd": 3.0,
        "spot_usd": 1.0,
    }
    return {name: value for name, value in (row | changes).items() if value != "leave out"}


GOOD = (
    make_row("good-1"),
    make_row("good-2", on_demand_usd=2.5),
    make_row("good-8", gpus=8, on_demand_usd=24.0, spot_usd=8.0),
)


def written(*rows: object, **changes: object) -> str:
    head = {"ebbtide": "catalogue", "version": 1, "currency": "USD", "date": "2026-07-30"}
    return json.dumps(head | {"offers": list(rows)} | changes)


def load(*rows: object, **changes: object) -> Catalogue:
    return load_catalogue(written(*rows, **changes))


def offer_of(catalogue: Catalogue, name: str) -> Offer:
    found = catalogue.find(provider="acme", instance_type=name)
    assert found is not None
    return found


# ---------------------------------------------------------------- B080: which price is whose


def test_b080_a_spot_price_above_the_one_on_demand_is_bought_on_demand_and_noted() -> None:
    catalogue = load(
        make_row("a", spot_usd=0.49, on_demand_usd=0.44),
        make_row("b", spot_usd=0.30, on_demand_usd=1.00),
    )

    a, b = offer_of(catalogue, "a"), offer_of(catalogue, "b")
    assert (a.market, a.usd_per_hour(a.market)) == ("OnDemand", 0.44)
    assert (b.market, b.usd_per_hour(b.market)) == ("Spot", 0.30)
    (note,) = catalogue.notes
    assert note.startswith("offer 1 (acme a (1 x V100) in east): spot 0.49 is not below 0.44")


def test_b080_no_market_is_given_the_price_of_another() -> None:
    offer = offer_of(load(make_row("a", spot_usd=None)), "a")

    assert offer.market == "OnDemand"
    assert offer.usd_per_hour("Spot") is None
    assert offer.usd_per_hour("OnDemand") == 3.0


def test_b080_a_list_says_how_old_it_is_and_warns_past_the_limit() -> None:
    catalogue = load(*GOOD)

    assert catalogue.age_days(date(2026, 9, 8)) == 40
    assert catalogue.warning(date(2026, 8, 29)) == ""
    assert catalogue.warning(date(2026, 9, 8)) == (
        "prices are of 2026-07-30, 40 days old (limit 30): give a newer list"
    )


# ---------------------------------------------------------------- B081: what is not believed


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        pytest.param({"on_demand_usd": "leave out"}, "on_demand_usd is None", id="missing"),
        pytest.param({"on_demand_usd": ""}, "on_demand_usd is ''", id="empty"),
        pytest.param({"on_demand_usd": 0}, "on_demand_usd is 0,", id="zero"),
        pytest.param({"on_demand_usd": float("nan")}, "on_demand_usd is nan", id="nan"),
        pytest.param({"on_demand_usd": float("inf")}, "on_demand_usd is inf", id="infinite"),
        pytest.param({"on_demand_usd": -3.0}, "on_demand_usd is -3.0", id="negative"),
        pytest.param({"on_demand_usd": "N/A"}, "on_demand_usd is 'N/A'", id="words"),
        pytest.param({"on_demand_usd": True}, "on_demand_usd is True", id="truth"),
        pytest.param({"on_demand_usd": [3]}, "on_demand_usd is [3]", id="list"),
        pytest.param({"on_demand_usd": 1e6}, "at most 10000 USD", id="huge"),
        pytest.param({"on_demand_usd": 0.03, "spot_usd": 0.01}, "cents", id="a hundredth"),
        pytest.param({"on_demand_usd": 300.0, "spot_usd": 100.0}, "cents", id="in cents"),
        pytest.param({"spot_usd": 0}, "spot_usd is 0", id="spot zero"),
        pytest.param({"spot_usd": 0.01}, "under 2% of 3 on demand", id="spot in dollars"),
        pytest.param({"gpu": "leave out"}, "a host without its GPU", id="host only"),
        pytest.param({"gpu": " "}, "a host without its GPU", id="nameless GPU"),
        pytest.param({"gpus": 0}, "gpus is 0", id="no GPU"),
        pytest.param({"gpus": 1.5}, "gpus is 1.5", id="part of a GPU"),
        pytest.param({"gpus": True}, "gpus is True", id="truth of GPUs"),
        pytest.param({"gpus": 8}, "0.375 USD for one V100 and hour", id="one of eight"),
        pytest.param({"gpus": 4}, "what fewer of them cost", id="one of four"),
        pytest.param({"gpus": 2, "on_demand_usd": 2.5}, "fewer of them", id="one of two"),
        pytest.param({"currency": "EUR"}, "currency 'EUR'; USD is wanted", id="currency"),
        pytest.param({"nic_gbps": -1}, "nic_gbps is -1", id="network"),
        pytest.param({"interruption": 7}, "interruption is 7", id="class"),
        pytest.param({"interruption": True}, "interruption is True", id="truth of class"),
        pytest.param({"provider": 3}, "provider is 3", id="provider"),
        pytest.param({"pirce": 3}, "unknown field pirce", id="misspelt"),
    ],
)
def test_b081_a_row_that_cannot_be_believed_is_named_and_never_found(
    changes: dict[str, object], reason: str
) -> None:
    catalogue = load(*GOOD, make_row("bad", **changes))

    assert [entry.row for entry in catalogue.refused] == [4]
    assert reason in str(catalogue.refused[0])
    assert "bad" in str(catalogue.refused[0])
    assert [offer.instance_type for offer in catalogue.offers] == ["good-1", "good-2", "good-8"]
    assert catalogue.find(provider="acme", instance_type="bad") is None


def test_b081_a_price_is_of_the_whole_node() -> None:
    assert offer_of(load(*GOOD), "good-8").usd_per_hour("OnDemand") == 24.0


def test_b081_two_prices_of_one_node_refuse_each_other() -> None:
    catalogue = load(*GOOD, make_row("twice"), make_row("twice", on_demand_usd=2.0))

    assert [entry.row for entry in catalogue.refused] == [4, 5]
    assert "again with another price" in catalogue.refused[0].reason
    assert len(catalogue.offers) == 3


def test_b081_the_same_row_again_counts_once() -> None:
    catalogue = load(*GOOD, GOOD[0])

    assert len(catalogue.offers) == 3
    assert catalogue.refused == ()
    assert catalogue.notes == ("1 offers repeat another and count once",)


def test_b081_a_region_where_only_the_host_is_priced_is_refused() -> None:
    rows = [make_row("n1", region=region) for region in ("east", "west", "north")]

    catalogue = load(*rows, make_row("n1", region="south", on_demand_usd=0.9, spot_usd=0.3))

    assert [entry.row for entry in catalogue.refused] == [4]
    assert "the host without its GPUs?" in catalogue.refused[0].reason


def test_b081_prices_may_be_texts_of_numbers() -> None:
    offer = offer_of(load(make_row("a", on_demand_usd="3.06", nic_gbps="25")), "a")

    assert (offer.on_demand_usd, offer.nic_gbps) == (3.06, 25.0)


@pytest.mark.parametrize("row", [None, 3, "V100", []])
def test_b081_a_row_that_is_no_object_is_refused(row: object) -> None:
    (refused,) = load(*GOOD, row).refused

    assert (refused.row, refused.reason) == (4, "it is no object")


# ---------------------------------------------------------------- the list as a whole


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("", "no JSON", id="empty"),
        pytest.param("[" * 100_000, "no JSON", id="deep"),
        pytest.param("[]", "no catalogue", id="list"),
        pytest.param("{}", "no catalogue", id="nothing"),
        pytest.param(written(*GOOD, version=2), "version 2; this reads version 1", id="version"),
        pytest.param(written(*GOOD, currency="EUR"), "currency 'EUR'", id="currency"),
        pytest.param(written(*GOOD, currency=None), "currency None", id="no currency"),
        pytest.param(written(), "no list `offers`", id="no offer"),
        pytest.param(written(offers={}), "no list `offers`", id="no list"),
        pytest.param(written(make_row("a", gpus=0)), "none of 1 offers can be used", id="bad"),
        pytest.param(written(*GOOD, date="July"), "date: 'July' is no day", id="date"),
        pytest.param(written(*GOOD, date=3), "date: 3 is no day", id="no date"),
        pytest.param(written(*GOOD, gpus=[]), "gpus: an object", id="GPUs"),
        pytest.param(written(*GOOD, gpus={"V100": {}}), "gpus, V100: ", id="no figures"),
        pytest.param(written(*GOOD, gpus={"V100": 3}), "gpus, V100: ", id="a figure"),
        pytest.param(
            written(*GOOD, gpus={"V100": {"memory_gib": 0, "flops_fp32": 1}}),
            "figures above 0",
            id="zero",
        ),
    ],
)
def test_a_list_that_cannot_be_used_says_why(text: str, complaint: str) -> None:
    with pytest.raises(CatalogueError, match=complaint):
        load_catalogue(text)


def test_more_offers_than_there_are_types_of_nodes_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ebbtide.data.catalogue.MOST_OFFERS", 2)

    with pytest.raises(CatalogueError, match="3 offers, at most 2"):
        load(*GOOD)


def test_without_a_region_the_dearest_is_taken() -> None:
    catalogue = load(make_row("n", region="east"), make_row("n", region="west", on_demand_usd=4))

    assert offer_of(catalogue, "n").region == "west"
    east = catalogue.find(provider="acme", instance_type="n", region="east")
    assert east is not None
    assert east.on_demand_usd == 3.0
    assert catalogue.find(provider="acme", instance_type="n", region="north") is None


def test_what_is_rendered_can_be_read() -> None:
    gpus = {"V100": {"memory_gib": 16, "flops_fp32": 15.7e12, "flops_tensor": None}}

    text = render_catalogue(day="2026-07-30", sources={"a": {}}, gpus=gpus, offers=GOOD)

    catalogue = load_catalogue(text)
    assert len(catalogue.offers) == 3
    assert catalogue.gpus["V100"].memory_gib == 16
    assert text.count("\n") == 3 + 9
