"""Laws of lives: true for all fleets, however little or much was seen of them."""

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.core.models.lifetime import KIND
from ebbtide.core.models.lifetime.bursts import Bursts
from ebbtide.core.models.lifetime.fitting import fit_lives
from ebbtide.core.models.lifetime.lives import Lives
from ebbtide.core.models.lifetime.model import Lifetimes
from ebbtide.core.models.stored import seal
from ebbtide.core.models.table import Table

HOURS = st.one_of(
    st.just(0.0),
    st.floats(0.0, 24.8, allow_subnormal=False),
    st.floats(0.0, 2000.0, allow_subnormal=False),
)
LIFE = st.tuples(st.integers(0, 3), HOURS, st.booleans())
FLEET = st.lists(LIFE, min_size=1, max_size=60)
METHOD = st.sampled_from(list(KIND.methods))
NAMES = ("a", "b", "c", "d")
AGES = st.floats(0.0, 5000.0)

FEW = settings(max_examples=25)
"""A fit takes some hundredths of a second."""


def table_of(fleet: list[tuple[int, float, bool]], names: tuple[str, ...] = NAMES) -> Table:
    pool, hours, revoked = zip(*fleet, strict=True)
    return Table.of(
        pool=[names[number] for number in pool],
        zone=["east" if number < 2 else "west" for number in pool],
        gpu=["T4" if number % 2 else "V100" for number in pool],
        lifetime_h=hours,
        revoked=[int(flag) for flag in revoked],
    )


def fitted(table: Table, method: str) -> Lifetimes:
    return fit_lives(Lives.read(table), method=method)


@FEW
@given(FLEET, METHOD)
def test_survival_falls_from_1_to_0(fleet: list[tuple[int, float, bool]], method: str) -> None:
    model = fitted(table_of(fleet), method)
    hours = np.concatenate([[0.0], np.geomspace(1e-3, 1e4, 200), [1e10]])

    alive = model.survival(Table.of(pool=["a", "new"]), hours[None, :])

    assert (alive[:, 0] == 1).all()
    assert (np.diff(alive, axis=1) <= 1e-12).all()
    assert (alive[:, -1] < 1e-3).all()
    assert np.isfinite(alive).all()


@FEW
@given(FLEET, METHOD, AGES, st.floats(0.01, 100.0), st.floats(0.01, 100.0))
def test_to_live_on_twice_is_to_live_on(
    fleet: list[tuple[int, float, bool]], method: str, age: float, first: float, then: float
) -> None:
    model = fitted(table_of(fleet), method)

    def alive(age: float, ahead: float) -> float:
        return float(model.survival(Table.of(pool=["a"], age_h=[age]), ahead)[0])

    both = alive(age, first) * alive(age + first, then)
    assert abs(alive(age, first + then) - both) < 1e-9


@FEW
@given(FLEET, METHOD, AGES, st.floats(0.01, 1000.0))
def test_answers_are_finite_positive_and_in_order(
    fleet: list[tuple[int, float, bool]], method: str, age: float, horizon: float
) -> None:
    model = fitted(table_of(fleet), method)
    asked = Table.of(pool=["a", "d", "new"], age_h=[age, 0.0, age], horizon_h=["-", horizon, "-"])

    answer = model.predict(asked)

    for values in (answer.value, answer.low, answer.high):
        assert np.isfinite(values).all()
        assert (values > 0).all()
    assert (answer.low <= answer.value).all()
    assert (answer.value <= answer.high).all()
    assert answer.value[1] <= max(horizon, 1 / 3600)


@FEW
@given(FLEET, METHOD, st.permutations(NAMES), st.randoms(use_true_random=False))
def test_names_of_pools_and_order_of_rows_change_nothing(
    fleet: list[tuple[int, float, bool]], method: str, names: list[str], order: object
) -> None:
    shuffled = list(fleet)
    order.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis hands out a random.Random

    known = fitted(table_of(fleet), method).predict(Table.of(pool=list(NAMES)))
    other = fitted(table_of(shuffled, tuple(names)), method).predict(Table.of(pool=names))

    np.testing.assert_allclose(other.value, known.value, rtol=1e-4)


@FEW
@given(FLEET, METHOD)
def test_json_comes_back_exactly(fleet: list[tuple[int, float, bool]], method: str) -> None:
    model = fitted(table_of(fleet), method)
    stored = seal("lifetime", model)

    again = KIND.from_json(json.loads(json.dumps(stored, allow_nan=False)))

    assert seal("lifetime", again) == stored


@FEW
@given(FLEET, st.floats(0.1, 50.0))
def test_expected_losses_are_at_least_the_chance_of_one_and_grow(
    fleet: list[tuple[int, float, bool]], ahead: float
) -> None:
    model = fitted(table_of(fleet), "weibull")
    asked = Table.of(pool=["a"])

    once = 1 - model.survival(asked, ahead)[0]
    losses, more = model.losses(asked, ahead)[0], model.losses(asked, 2 * ahead)[0]

    assert losses >= once - 1e-9
    assert more >= losses - 1e-6
    assert np.isfinite(more)


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 20))
def test_chances_of_losing_some_nodes_sum_to_1(share: float, chance: float, nodes: int) -> None:
    chances = Bursts(share=share).num_lost(chance, nodes)

    assert abs(chances.sum() - 1) < 1e-9
    assert (chances >= 0).all()
    assert abs(chances @ np.arange(nodes + 1) - nodes * chance) < 1e-9
