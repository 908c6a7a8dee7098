"""Where one list would be too long, two halves find the same best plan."""

import numpy as np
import pytest

from ebbtide.core.planner.solver import search, sizes
from ebbtide.core.planner.solver.answer import Answer
from ebbtide.core.planner.solver.question import Question
from ebbtide.core.planner.solver.solving import solve
from solver.agreement import ask_both, compare, draw_any
from solver.families import draw
from support.fleets import value_of

NEVER = -1.0
"""Logarithm of how many states one list may have: none, so that all go to the halves."""


@pytest.fixture
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "PLAIN", sizes.Budget(0.0, 0))
    monkeypatch.setattr(search, "FIRST", NEVER)


@pytest.mark.usefixtures("_always")
@pytest.mark.parametrize("seed", range(3))
def test_highs_finds_nothing_better_than_the_halves(seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = [
        compare(question, *ask_both(question))
        for question in (draw_any(rng, most_pools=12, cap=8) for _ in range(80))
    ]

    assert "differs" not in found
    assert found.count("same") >= 76


@pytest.mark.parametrize("family", ["cloud", "uniform", "shapes", "near-proportional"])
@pytest.mark.parametrize(
    "kind", ["servers cost", "plain cost floor", "all-reduce cost", "servers total", "plain rate"]
)
def test_one_list_and_two_halves_agree(
    family: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = draw(np.random.default_rng(4), family=family, kind=kind, num=24, cap=12)

    monkeypatch.setattr(sizes, "PLAIN", sizes.Budget(0.0, 0))
    by_list = solve(question)
    with monkeypatch.context() as patch:
        patch.setattr(search, "FIRST", NEVER)
        by_halves = solve(question)

    assert _value(question, by_halves) == pytest.approx(_value(question, by_list), rel=1e-7)


def _value(question: Question, outcome: object) -> float:
    return value_of(question, outcome) if isinstance(outcome, Answer) else -1.0
