from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from ebbtide.core.values.errors import UnknownPriceError
from ebbtide.core.values.pool import Listing, Market
from ebbtide.data.catalogue import Catalogue
from ebbtide.data.listed_prices import embedded_price, look_up
from ebbtide.data.offers import Offer


def offer(region: str, on_demand: float, spot: float | None = None, *, gpus: int = 1) -> Offer:
    return Offer(
        provider="aws",
        instance_type="p3.2xlarge" if gpus == 1 else "p3.8xlarge",
        region=region,
        gpu="V100",
        gpus=gpus,
        on_demand_usd=on_demand,
        spot_usd=spot,
    )


def listing(**changes: Any) -> Listing:
    fields: dict[str, Any] = {
        "provider": "aws",
        "instance_type": "p3.2xlarge",
        "region": "",
        "market": Market.ON_DEMAND,
        "gpu_type": "V100",
        "gpus": 1,
    }
    return Listing(**{**fields, **changes})


LIST = Catalogue(
    date=date(2026, 7, 30),
    offers=(
        offer("us-east-1", 3.06, 0.92),
        offer("eu-west-1", 3.31),
        offer("us-east-1", 12.24, 3.70, gpus=4),
    ),
)


@pytest.mark.parametrize(
    ("changes", "usd"),
    [
        pytest.param({"region": "us-east-1"}, "3.06", id="on demand"),
        pytest.param({"region": "us-east-1", "market": Market.SPOT}, "0.92", id="on spot"),
        pytest.param({}, "3.31", id="the dearest where no region is named"),
        pytest.param({"market": Market.SPOT}, "0.92", id="... of those with such a price"),
        pytest.param({"instance_type": "p3.8xlarge", "gpus": 4}, "12.24", id="of the whole node"),
    ],
)
def test_b081_a_price_that_is_looked_up_is_that_of_its_market_and_region(
    changes: dict[str, Any], usd: str
) -> None:
    assert look_up(LIST, listing(**changes)) == Decimal(usd)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({"provider": "amazon"}, "no provider 'amazon'; known are: aws", id="provider"),
        pytest.param(
            {"instance_type": "p9"}, "aws has no instance type 'p9'; known are: p3.2", id="type"
        ),
        pytest.param(
            {"region": "mars"}, "aws p3.2xlarge has no region 'mars'; known are: eu", id="region"
        ),
        pytest.param(
            {"gpus": 4}, "has 1 x V100 in the price list, spec.gpu says 4 x V100", id="GPUs"
        ),
        pytest.param({"gpus": 0, "gpu_type": ""}, "spec.gpu says 0 x none", id="no GPU"),
        pytest.param(
            {"region": "eu-west-1", "market": Market.SPOT},
            "of 2026-07-30 has no price of aws p3.2xlarge on the market Spot",
            id="market",
        ),
    ],
)
def test_b081_a_price_that_is_not_in_the_list_is_refused_with_what_is(
    changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(UnknownPriceError) as caught:
        look_up(LIST, listing(**changes))

    assert says in str(caught.value)


def test_the_list_that_ships_with_the_package_is_asked() -> None:
    assert embedded_price(listing(region="us-east-1")) == Decimal("3.06")


def test_a_long_list_is_cut_in_the_message() -> None:
    with pytest.raises(UnknownPriceError) as caught:
        embedded_price(listing(instance_type="p9"))

    assert "more. Correct it or give usdPerNodeHour" in str(caught.value)
    assert len(str(caught.value)) < 300
