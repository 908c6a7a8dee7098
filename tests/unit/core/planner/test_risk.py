"""What a pool is worth, against exact forms and against lives that were drawn."""

from dataclasses import replace
from decimal import Decimal
from statistics import mean
from typing import Any

import numpy as np
import pytest

from ebbtide.core.models.start_up import Duration
from ebbtide.core.models.training_time import of_constant_rate
from ebbtide.core.planner.inputs import Overheads
from ebbtide.core.planner.planning import plan
from ebbtide.core.planner.risk import CAUTION, HOUR, Offer, make_offers
from ebbtide.core.planner.supply import Supply
from support.questions import NOW, PACES, ask, living, planned, pool_of, speed_of

WORK_S = 36_000.0
OVERHEADS = Overheads(start_s=240.0, save_s=4.0, restore_s=30.0, reform_s=0.0)


def offer_of(*, hours: float, **more: Any) -> Offer:
    spot = pool_of("spot", 1.0, spot=True, life=living(hours))
    fields = {"overheads": OVERHEADS, "sizes": (1,), **more}
    offers, notes = make_offers(ask(spot, **fields))
    assert notes == ()
    return offers[0]


def test_a_pool_that_goes_as_one_is_worth_what_the_exact_form_says() -> None:
    offer = offer_of(hours=2.0)

    work_s = offer.interval_s * 1000
    exact = of_constant_rate(
        work_s=work_s,
        interval_s=offer.interval_s,
        save_s=4.0,
        restart_s=270.0,
        between_failures_s=HOUR / offer.losses_per_hour,
    )
    assert offer.rate / (PACES["V100"] * HOUR) == pytest.approx(work_s / exact, rel=1e-4)
    assert offer.losses_per_hour == pytest.approx(0.5, rel=0.01)


def test_where_somebody_holds_the_state_a_loss_costs_a_start() -> None:
    offer = offer_of(hours=2.0, on_demand_floor=1, sizes=(2,))

    cycle = 7200 * (1 + 4.0 / offer.interval_s) + 240
    assert offer.rate / (PACES["V100"] * HOUR) == pytest.approx(7200 / cycle, rel=0.002)


def test_waiting_of_the_others_is_charged_to_the_one_that_goes() -> None:
    waiting = replace(OVERHEADS, reform_s=5.0)
    alone = offer_of(hours=2.0, overheads=waiting, sizes=(1,))
    among = offer_of(hours=2.0, overheads=waiting, sizes=(16,))

    assert 1 / among.rate - 1 / alone.rate == pytest.approx(
        150 / 7200 / (PACES["V100"] * HOUR), rel=0.05
    )


def test_availability_thins_work_and_money_alike() -> None:
    half = pool_of("half", 2.0, supply=Supply(up_h=1e-9, down_h=1e-9))
    whole = pool_of("whole", 2.0)

    (first,), _ = make_offers(ask(half))
    (second,), _ = make_offers(ask(whole))

    assert first.rate == pytest.approx(second.rate / 2)
    assert first.usd_per_hour == pytest.approx(second.usd_per_hour / 2)
    assert first.availability == pytest.approx(0.5)


def test_caution_about_a_guess_has_a_limit() -> None:
    (guess,), _ = make_offers(ask(pool_of("d", 2.0), speed=speed_of(spread=10.0)))

    assert guess.late_rate == pytest.approx(guess.rate / CAUTION)
    assert guess.low_rate < guess.rate / 5


def test_a_start_that_may_be_late_is_planned_with_as_late() -> None:
    start = Duration(value=200.0, low=100.0, high=400.0, beyond=False)
    (offer,), _ = make_offers(ask(pool_of("d", 2.0, start_up=start)))

    assert offer.start_s == 200.0
    assert 300 < offer.start_late_s < 400


def test_pools_that_lose_faster_than_they_start_are_left_out() -> None:
    spot = pool_of("spot", 1.0, spot=True, life=living(0.01))

    offers, notes = make_offers(ask(spot, overheads=replace(OVERHEADS, start_s=1200.0)))

    assert offers == ()
    assert "moves training on" in notes[0]


def test_prices_come_first_and_names_last() -> None:
    pools = (pool_of("b", 2.0), pool_of("a", 2.0), pool_of("c", 1.0), pool_of("d", 2.0, nodes=9))

    offers, _ = make_offers(ask(*pools))

    assert [offer.name for offer in offers] == ["c", "d", "a", "b"]


# ------------------------------------------------------------------------- drawn lives


def draw_end(chance: np.random.Generator, *, interval_s: float, life_s: float) -> float:
    """Return seconds until the work is saved, on a pool that goes as one, a start included."""
    segments = WORK_S / interval_s
    length = interval_s + OVERHEADS.save_s
    now, done = OVERHEADS.start_s, 0
    while True:
        life = float(chance.exponential(life_s))
        needed = (segments - done) * length
        if life >= needed:
            return now + needed
        done += int(life // length)
        now += life + OVERHEADS.start_s + OVERHEADS.restore_s


@pytest.mark.parametrize("hours", [0.5, 2.0, 8.0])
def test_predictions_hold_for_lives_that_are_drawn(hours: float) -> None:
    # ten hours of work on one node that lives for so many hours in the mean
    question = ask(
        pool_of("spot", 1.0, spot=True, life=living(hours)),
        steps_left=int(WORK_S * PACES["V100"] / 1000),
        sizes=(1,),
        overheads=OVERHEADS,
    )
    found = planned(plan(question, NOW))
    chance = np.random.default_rng(7)

    interval_s = found.checkpoint_interval.total_seconds()
    ends = [draw_end(chance, interval_s=interval_s, life_s=hours * 3600) for _ in range(800)]

    predicted = (found.predicted.finish - NOW).total_seconds()
    late = (found.predicted.finish_late - NOW).total_seconds()
    assert predicted == pytest.approx(mean(ends), rel=0.02)
    assert 0.85 <= mean(end <= late for end in ends) <= 0.97
    assert found.predicted.cost_usd == pytest.approx(Decimal(predicted / 3600), abs=Decimal("0.01"))
