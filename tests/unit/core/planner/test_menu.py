"""The best fleet by two ways, against each other and against every fleet looked at."""

import itertools
import math
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from ebbtide.core.planner import menu as menu_module
from ebbtide.core.planner.inputs import Inputs
from ebbtide.core.planner.menu import Menu
from ebbtide.core.planner.outlook import Fleet
from ebbtide.core.planner.risk import HOUR, Offer, make_offers
from ebbtide.core.planner.wishes import Cheapest, Fastest, Nearest, Slowest, Wish
from support.questions import ask, pool_of, speed_of

WISHES = (
    Cheapest(),
    Cheapest(2.5e6),
    Cheapest(1e6, 1e-7),
    Slowest(2e6),
    Fastest(),
    Fastest(2.2e-6),
    Fastest(1.6e-6),
    Fastest(2.2e-6, 1e-7),
    Nearest(3e-7, 1.5e-6, 1e-7),
)


def draw(seed: int, *, per_node: tuple[int, ...], floor: int, servers: int) -> Inputs:
    """Return a random question of three pools."""
    chance = np.random.default_rng(seed)
    gpus = ("A", "B", "C")
    pools = [
        pool_of(
            f"p{place}",
            round(float(chance.uniform(0.5, 4.0)), 2),
            gpu=gpu,
            nodes=int(chance.integers(1, 4)),
            per_node=int(chance.choice(per_node)),
            spot=bool(chance.random() < 0.5),
        )
        for place, gpu in enumerate(gpus)
    ]
    sizes = tuple(sorted(set(chance.integers(1, 13, size=6).tolist())))
    speed = speed_of(
        {gpu: float(chance.uniform(50, 500)) for gpu in gpus},
        efficiency=() if servers else tuple(1 / (1 + 0.03 * others) for others in range(12)),
        server_samples_per_s=400.0 if servers else None,
    )
    return ask(
        *pools,
        sizes=sizes,
        speed=speed,
        on_demand_floor=floor,
        uses_servers=servers > 0,
        servers=(1, max(servers, 1)),
        server_usd_per_hour=Decimal("0.30"),
        fixed_usd_per_hour=Decimal("0.10"),
    )


def measure(inputs: Inputs, offers: tuple[Offer, ...], fleet: Fleet) -> tuple[float, float]:
    """Return USD and samples per hour, whole nodes paid."""
    counts = dict(fleet.workers)
    usd = float(inputs.fixed_usd_per_hour) + fleet.servers * float(inputs.server_usd_per_hour)
    usd += sum(math.ceil(counts.get(o.name, 0) / o.per_node) * o.usd_per_hour for o in offers)
    rate = sum(counts.get(offer.name, 0) * offer.late_rate for offer in offers)
    rate *= inputs.speed.efficiency_of(fleet.size)
    through = inputs.speed.server_samples_per_s
    if inputs.uses_servers and through is not None:
        rate = min(rate, fleet.servers * through * HOUR)
    return usd, rate


def value_of(wish: Wish, usd: float, rate: float) -> float | None:
    match wish:
        case Cheapest(least, idle):
            return usd / rate + usd * idle if rate >= least * (1 - 1e-9) else None
        case Slowest(least):
            return usd if rate >= least * (1 - 1e-9) else None
        case Fastest(limit, idle):
            return -rate if usd / rate + usd * idle <= limit * (1 + 1e-9) else None
        case Nearest(hours, limit, idle):
            return max((1 / rate + idle) / hours, (usd / rate + usd * idle) / limit)


def by_force(inputs: Inputs, offers: tuple[Offer, ...], wish: Wish) -> float | None:
    low, high = inputs.servers if inputs.uses_servers else (0, 0)
    best: float | None = None
    for counts in itertools.product(*(range(offer.room + 1) for offer in offers)):
        on_demand = sum(n for n, o in zip(counts, offers, strict=True) if not o.is_spot)
        if sum(counts) not in inputs.sizes or on_demand < inputs.on_demand_floor:
            continue
        named = {offer.name: n for n, offer in zip(counts, offers, strict=True)}
        for servers in range(low, high + 1):
            value = value_of(wish, *measure(inputs, offers, Fleet.of(named, servers)))
            if value is not None and (best is None or value < best):
                best = value
    return best


@pytest.fixture(params=["listed where that is quicker", "never for being tiny"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions of tests are tiny: the solver is to be tried on them, too."""
    if request.param.startswith("never"):
        monkeypatch.setattr(menu_module, "TINY", 0)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("servers", [0, 3])
@pytest.mark.parametrize("floor", [0, 2])
@pytest.mark.parametrize("per_node", [(1,), (2,), (1, 2, 4)])
@pytest.mark.parametrize("seed", range(4))
def test_no_fleet_is_better_than_the_chosen_one(
    seed: int, per_node: tuple[int, ...], floor: int, servers: int
) -> None:
    inputs = draw(seed, per_node=per_node, floor=floor, servers=servers)
    offers, _ = make_offers(inputs)
    menu = Menu(inputs=inputs, offers=offers, sizes=inputs.sizes)

    for wish in WISHES:
        best = by_force(inputs, offers, wish)
        fleet = menu.choose(wish)
        if best is None:
            assert fleet is None
        else:
            assert fleet is not None, wish
            assert fleet.size in inputs.sizes
            found = value_of(wish, *measure(inputs, offers, fleet))
            assert found == pytest.approx(best, rel=1e-7), wish


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("floor", [1, 3, 5])
@pytest.mark.parametrize("per_node", [2, 3, 4])
@pytest.mark.parametrize("seed", range(20, 26))
def test_an_odd_floor_is_kept_exactly_where_sizes_fill_their_nodes(
    seed: int, per_node: int, floor: int
) -> None:
    drawn = draw(seed, per_node=(per_node,), floor=floor, servers=0)
    inputs = replace(drawn, sizes=(per_node, 2 * per_node, 3 * per_node))
    offers, _ = make_offers(inputs)
    menu = Menu(inputs=inputs, offers=offers, sizes=inputs.sizes)

    for wish in WISHES:
        best = by_force(inputs, offers, wish)
        fleet = menu.choose(wish)
        if best is None:
            assert fleet is None
        else:
            assert fleet is not None
            found = value_of(wish, *measure(inputs, offers, fleet))
            assert found == pytest.approx(best, rel=1e-7), wish


def test_of_the_fastest_fleets_the_cheapest_is_taken() -> None:
    # both give what one server lets through
    inputs = ask(
        pool_of("dear", 4.0, gpu="A100", nodes=2),
        pool_of("cheap", 3.0, gpu="A100", nodes=2),
        uses_servers=True,
        sizes=(1, 2),
        speed=speed_of(server_samples_per_s=700.0),
    )
    offers, _ = make_offers(inputs)

    fleet = Menu(inputs=inputs, offers=offers, sizes=inputs.sizes).choose(Fastest())

    assert fleet == Fleet.of({"cheap": 1}, 1)


def test_nothing_is_chosen_from_nothing() -> None:
    inputs = ask()

    assert Menu(inputs=inputs, offers=(), sizes=(1,)).choose(Cheapest()) is None
