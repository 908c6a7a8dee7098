"""What ships inside the package is what `make models` makes, and says where it came from."""

import json
import math
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from architecture.tree import PRODUCT, ROOT
from ebbtide.core.models import kinds
from ebbtide.data import defaults
from ebbtide.data.making import make_files

DATA = ROOT / "tests" / "data"
EMBEDDED = ROOT / PRODUCT / "data"


@cache
def made() -> dict[str, str]:
    return dict(make_files(lambda path: (DATA / path).read_text(encoding="utf-8")))


def is_alike(one: Any, other: Any, *, scale: float = 0.0) -> bool:
    """
    The same, but for the last digits of fitted numbers, where processors differ.

    Numbers of one list are of one solution: the small ones are known as well as the large ones.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        names = set(one) - {"checksum"}
        return names == set(other) - {"checksum"} and all(
            is_alike(one[name], other[name]) for name in names
        )
    if isinstance(one, list) and isinstance(other, list):
        scale = max((abs(each) for each in one if isinstance(each, float)), default=0.0)
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(is_alike(*pair, scale=scale) for pair in pairs)
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9 + 1e-6 * scale)
    return bool(one == other)


def test_what_ships_is_what_would_be_made_now() -> None:
    ships = {name: (EMBEDDED / name).read_text(encoding="utf-8") for name in made()}

    stale = [
        name
        for name, text in made().items()
        if ships[name] != text and not is_alike(json.loads(ships[name]), json.loads(text))
    ]

    assert stale == [], "run `make models`"


def test_what_is_made_twice_is_the_same_to_the_byte() -> None:
    again = dict(make_files(lambda path: (DATA / path).read_text(encoding="utf-8")))

    assert again == made()


def test_nothing_ships_that_is_not_made() -> None:
    models = {f"models/{path.name}" for path in (EMBEDDED / "models").glob("*")}

    assert models == {name for name in made() if name.startswith("models/")}


def test_no_offer_that_ships_is_doubted() -> None:
    catalogue = defaults.embedded_catalogue()

    assert catalogue.refused == ()
    assert catalogue.notes == ()
    assert len(catalogue.offers) > 1000
    assert {offer.gpu for offer in catalogue.offers} <= set(catalogue.gpus)
    assert all(offer.date and offer.source for offer in catalogue.offers)


def test_the_catalogue_names_source_commit_licence_and_date() -> None:
    stored = json.loads((EMBEDDED / "catalogue.json").read_text(encoding="utf-8"))

    assert {offer["source"] for offer in stored["offers"]} == set(stored["sources"])
    for source in stored["sources"].values():
        assert len(source["from"]) == len(source["commit"])
        assert all(len(commit) == 40 for commit in source["commit"])
        assert source["licence"] in {"Apache-2.0", "MIT"}
        assert date.fromisoformat(source["date"]) <= date.fromisoformat(stored["date"])


def test_hosts_that_the_lists_price_without_their_gpus_do_not_ship() -> None:
    # 31 of 40 regions price this machine at a tenth: the host alone.
    catalogue = defaults.embedded_catalogue()

    prices = [o.on_demand_usd for o in catalogue.offers if o.instance_type == "a3-megagpu-8g"]
    assert len(prices) == 9
    assert min(prices) > 60


def test_a_known_node_costs_what_its_list_says() -> None:
    offer = defaults.embedded_catalogue().find(provider="aws", instance_type="p3.2xlarge")

    assert offer is not None
    assert (offer.on_demand_usd, offer.spot_usd, offer.interruption) == (3.06, 0.612, 4)


def test_each_model_that_ships_can_be_read_and_knows_its_error_and_its_source() -> None:
    assert defaults.embedded_models()
    for kind in defaults.embedded_models():
        model = defaults.embedded_model(kind)
        where = defaults.provenance(kind)

        assert model.quality.samples > 10
        assert model.quality.errors is not None
        assert model.method == kinds.find(kind).default
        assert set(where) >= {"source", "commit", "licence", "date"}
        assert "SA" not in where["licence"]


def test_no_model_ships_that_was_fitted_from_share_alike_data() -> None:
    # The public all-reduce measurements are CC BY-SA: they are for tests only.
    assert "all-reduce" not in defaults.embedded_models()
    with pytest.raises(KeyError):
        defaults.embedded_model("all-reduce")
    with pytest.raises(KeyError):
        defaults.provenance("../catalogue")


def test_licences_lie_beside_what_they_cover() -> None:
    names = {path.name for path in Path(EMBEDDED / "licences").iterdir()}

    assert names >= {"Apache-2.0.txt", "MIT-full-stack-deep-learning.txt"}
