"""Laws of calibration, whatever is measured."""

import json
import math

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.models.calibration import Calibration, Habits, Sample

RATIOS = st.floats(1e-3, 1e3)


def learn(ratios: list[float], state: Calibration | None = None) -> Calibration:
    state = state or Calibration()
    for ratio in ratios:
        state = state.add(Sample(predicted=1, measured=ratio))
    return state


@given(ratios=st.lists(RATIOS, min_size=1, max_size=120))
def test_the_factor_lies_among_what_was_measured_and_one(ratios: list[float]) -> None:
    state = learn(ratios)

    assert min(*ratios, 1.0) * (1 - 1e-9) <= state.factor <= max(*ratios, 1.0) * (1 + 1e-9)
    assert Calibration.from_json(json.loads(json.dumps(state.to_json()))) == state


@given(before=st.lists(RATIOS, max_size=200), factor=RATIOS)
def test_whatever_was_before_a_new_state_is_known_within_a_window_and_its_acceptance(
    before: list[float], factor: float
) -> None:
    habits = Habits()
    states = [learn([factor] * habits.window, learn(before))]
    for _ in range(habits.accept_after + 4 * habits.half_life):
        states.append(learn([factor], states[-1]))

    off = [abs(math.log(state.factor / factor)) for state in states]
    # after a window the error is within the tolerance, or gone; later it is a tenth of it
    assert max(off) <= habits.threshold + 1e-9
    assert off[-1] <= habits.threshold / 10


@given(ratios=st.lists(st.floats(0.94, 1.06), max_size=200))
def test_small_noise_is_never_drift(ratios: list[float]) -> None:
    state = Calibration()
    for ratio in ratios:
        state = learn([ratio], state)
        assert not state.is_drifting


@given(ratios=st.lists(RATIOS, max_size=60))
def test_errors_and_coverage_are_finite_shares(ratios: list[float]) -> None:
    state = Calibration()
    for ratio in ratios:
        state = state.add(Sample(predicted=1, low=0.5, high=2, measured=ratio))

    record = state.record
    assert (record.mape is None) == (not ratios)
    if record.coverage is not None and record.mape is not None:
        assert 0 <= record.coverage <= 1
        assert 0 <= record.mape < math.inf
