"""A model in use is corrected, forgets, notices drift, and knows how wrong it has been."""

import json
import math

import numpy as np
import pytest

from ebbtide.core.models.calibration import Calibration, Habits, Sample
from ebbtide.core.models.forecast import Forecast

# Two p3dn.24xlarge, all-reduce of 256 MB by NCCL 2.4.6, bus bandwidth of each launch in one zone,
# Gbit/s (cybertronai/aws-network-benchmarks): fast mode, slow mode, and down to plain sockets.
P3DN_1B = [100.4, 49.0, 45.9, 99.8, 100.3, 99.5, 17.8, 17.7]
FAST = 100.0


def chance() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(3))


def feed(
    state: Calibration, factor: float, *, samples: int, noise: float = 0.0, predicted: float = 2.0
) -> list[Calibration]:
    """States after each of some samples of `factor` times what was predicted."""
    drawn = chance()
    states = []
    for _ in range(samples):
        measured = predicted * factor * math.exp(noise * float(drawn.standard_normal()))
        state = state.add(Sample(predicted=predicted, measured=measured))
        states.append(state)
    return states


# ---------------------------------------------------------------- a wrong prior


def test_before_the_first_sample_the_model_is_believed() -> None:
    state = Calibration()

    assert (state.factor, state.drift, state.is_drifting) == (1, 1, False)
    assert (state.record.mape, state.record.raw_mape, state.record.coverage) == (None, None, None)


@pytest.mark.parametrize("factor", [0.1, 0.5, 1.5, 3.0, 40.0])
def test_a_prior_that_is_far_off_is_corrected_within_half_a_window(factor: float) -> None:
    habits = Habits()

    state = feed(Calibration(), factor, samples=habits.samples_to_notice)[-1]

    assert habits.samples_to_notice == 5
    assert state.factor == pytest.approx(factor)


@pytest.mark.parametrize("factor", [0.9, 1.05, 1.14])
def test_a_prior_that_is_a_little_off_fades_as_stated(factor: float) -> None:
    habits = Habits()

    for number, state in enumerate(feed(Calibration(), factor, samples=200), start=1):
        left = abs(math.log(state.factor / factor))
        bound = abs(math.log(factor)) * habits.prior_samples / (habits.prior_samples + number)
        assert left <= bound + 1e-12


def test_correction_stays_when_the_drift_is_accepted() -> None:
    states = feed(Calibration(), 2.0, samples=300)

    assert all(state.factor == pytest.approx(2) for state in states[5:])
    assert states[30].is_drifting
    assert not states[-1].is_drifting


def test_noise_is_averaged_away() -> None:
    state = feed(Calibration(), 1.1, samples=200, noise=0.05)[-1]

    assert state.factor == pytest.approx(1.1, rel=0.02)


def test_single_outliers_are_neither_drift_nor_believed() -> None:
    state = feed(Calibration(), 1.0, samples=100)[-1]

    state = state.add(Sample(predicted=1, measured=50)).add(Sample(predicted=1, measured=50))

    assert not state.is_drifting
    assert state.factor == pytest.approx(1, abs=0.03)


# ---------------------------------------------------------------- drift (check 16 of Srifty)


def iterations(
    *, compute: float, communication: float, samples: int, noise: float = 0.02
) -> list[tuple[float, float]]:
    """Seconds of computing and of communication of some iterations; 0.10 and 0.06 s as planned."""
    drawn = chance()
    factors = np.exp(noise * drawn.standard_normal((samples, 2)))
    return [
        (0.10 * compute * float(first), 0.06 * communication * float(second))
        for first, second in factors
    ]


def watch(times: list[float], *, predicted: float) -> list[bool]:
    """Whether drift is flagged after each sample."""
    state, flags = Calibration(), []
    for measured in times:
        state = state.add(Sample(predicted=predicted, measured=measured))
        flags.append(state.is_drifting)
    return flags


def test_check_16_communication_of_1_8_times_is_flagged_within_the_window() -> None:
    series = iterations(compute=1, communication=1, samples=200)
    series += iterations(compute=1, communication=1.8, samples=50)

    by_part = watch([communication for _, communication in series], predicted=0.06)
    by_whole = watch([sum(parts) for parts in series], predicted=0.16)

    for flags in (by_part, by_whole):
        assert not any(flags[:200])
        assert flags.index(True) < 200 + Habits().window


def test_check_16_computing_of_1_1_times_alone_is_not_flagged() -> None:
    series = iterations(compute=1, communication=1, samples=200)
    series += iterations(compute=1.1, communication=1, samples=200)

    assert not any(watch([compute for compute, _ in series], predicted=0.10))
    assert not any(watch([sum(parts) for parts in series], predicted=0.16))


def test_check_16_the_slow_launches_of_p3dn_are_flagged_against_the_fast() -> None:
    # One launch trains for a while: its bandwidth is what each of its iterations shows.
    each = 20
    state, flagged = feed(Calibration(), 1.0, samples=each)[-1], []
    for bandwidth in P3DN_1B:
        for _ in range(each):
            state = state.add(Sample(predicted=0.1, measured=0.1 * FAST / bandwidth))
        flagged.append(state.is_drifting)

    assert flagged == [False, True, True, False, False, False, True, True]


def test_passing_trouble_is_not_learnt() -> None:
    calm = feed(Calibration(), 1.0, samples=100)[-1]
    trouble = feed(calm, 2.0, samples=40)[-1]
    after = feed(trouble, 1.0, samples=9)[-1]

    assert trouble.is_drifting
    assert trouble.factor == pytest.approx(2)
    assert trouble.drift == pytest.approx(2)
    assert not after.is_drifting
    assert after.factor == pytest.approx(1, abs=0.03)


def test_trouble_that_stays_becomes_the_state_of_things() -> None:
    habits = Habits(accept_after=30)
    states = feed(feed(Calibration(habits=habits), 1.0, samples=100)[-1], 2.0, samples=60)

    flags = [state.is_drifting for state in states]
    assert flags == [False] * 4 + [True] * 30 + [False] * 26
    assert states[-1].factor == pytest.approx(2)
    back = feed(states[-1], 1.0, samples=habits.samples_to_notice)[-1]
    assert back.is_drifting
    assert back.drift == pytest.approx(0.5)


def test_a_model_that_errs_much_is_given_more_room() -> None:
    def drifts(model_error: float) -> bool:
        state = Calibration(habits=Habits(model_error=model_error))
        return feed(state, 1.3, samples=20)[-1].is_drifting

    assert drifts(0.05)
    assert not drifts(0.2)


def test_old_samples_are_forgotten() -> None:
    old = feed(Calibration(habits=Habits(half_life=16)), 1.0, samples=1000)[-1]

    assert feed(old, 1.1, samples=80)[-1].factor == pytest.approx(1.1, rel=0.01)
    slow = feed(Calibration(habits=Habits(half_life=10_000)), 1.0, samples=1000)[-1]
    assert feed(slow, 1.1, samples=80)[-1].factor < 1.02


# ---------------------------------------------------------------- how wrong it has been


def test_errors_before_and_after_correction_are_told_apart() -> None:
    state = feed(Calibration(), 2.0, samples=400)[-1]

    assert state.record.raw_mape == pytest.approx(0.5)
    assert state.record.mape == pytest.approx(0, abs=0.01)
    assert state.samples == 400


def test_coverage_is_the_share_inside_the_corrected_interval() -> None:
    state = Calibration()
    for measured in [1.0, 1.05, 1.3, 0.97]:
        state = state.add(Sample(predicted=1, low=0.9, high=1.1, measured=measured))
    plain = state.add(Sample(predicted=1, measured=1))

    assert state.record.coverage == pytest.approx(0.75, abs=0.01)
    assert plain.record.coverage == state.record.coverage


def test_a_forecast_is_corrected_with_its_interval() -> None:
    state = feed(Calibration(), 2.0, samples=10)[-1]
    one = np.ones(1)
    forecast = Forecast(value=one, low=one * 0.5, high=one * 3, beyond=np.array([True]))

    found = state.correct(forecast)

    assert (found.value[0], found.low[0], found.high[0]) == pytest.approx((2, 1, 6))
    assert found.beyond[0]


# ---------------------------------------------------------------- state and bad input


def test_a_state_comes_back_exactly() -> None:
    state = feed(Calibration(habits=Habits(window=5)), 1.3, samples=37, noise=0.1)[-1]
    state = state.add(Sample(predicted=1, low=0.5, high=2, measured=1.1))

    again = Calibration.from_json(json.loads(json.dumps(state.to_json())))

    assert again == state
    assert Calibration.from_json(json.loads(json.dumps(Calibration().to_json()))) == Calibration()


def test_adding_changes_no_earlier_state() -> None:
    state = Calibration()

    state.add(Sample(predicted=1, measured=2))

    assert state == Calibration()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"measured": 0.0}, "measured 0.0"),
        ({"measured": -1.0}, "measured -1.0"),
        ({"measured": math.nan}, "measured nan"),
        ({"predicted": math.inf}, "predicted inf"),
        ({"low": 1.5}, "it must hold the prediction 1"),
        ({"high": 0.5}, "it must hold the prediction 1"),
    ],
)
def test_samples_without_sense_are_refused(changes: dict[str, float], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Sample(**({"predicted": 1.0, "measured": 1.0} | changes))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"window": 0}, "window 0"),
        ({"window": 8}, "window 8: an odd"),
        ({"half_life": 0}, "half_life 0"),
        ({"accept_after": 0}, "accept_after 0"),
        ({"prior_samples": 0}, "prior_samples 0"),
        ({"tolerance": -1}, "tolerance -1"),
        ({"model_error": math.nan}, "model_error nan"),
    ],
)
def test_habits_without_sense_are_refused(changes: dict[str, int], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Habits(**changes)
