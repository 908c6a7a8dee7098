"""Compiled or plain, the loops of the solver give the same answers."""

import sys

import numpy as np
import pytest

from ebbtide.core.planner.solver import compiled, sizes
from ebbtide.core.planner.solver.answer import Answer
from ebbtide.core.planner.solver.question import Question
from ebbtide.core.planner.solver.solving import solve
from solver.agreement import ask_both, compare, draw_any
from support.fleets import value_of

MINUTES = 10
"""The first run on a machine compiles; later ones find the cache."""


@pytest.fixture
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile, for one test only."""
    kept: dict[object, object] = {}
    monkeypatch.setattr(compiled, "FAST", kept)
    monkeypatch.setattr(sizes, "FAST", kept)
    assert sizes.compile_solver()
    assert kept


@pytest.mark.timeout(60 * MINUTES)
@pytest.mark.usefixtures("_fast")
def test_compiled_answers_are_as_good_as_plain_ones_and_as_highs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(11)
    questions = [draw_any(rng, most_pools=16, cap=8) for _ in range(120)]

    outcomes = [ask_both(question) for question in questions]

    verdicts = [
        compare(question, *both) for question, both in zip(questions, outcomes, strict=True)
    ]
    assert "differs" not in verdicts
    assert verdicts.count("same") >= 114
    monkeypatch.setattr(compiled, "FAST", {})
    monkeypatch.setattr(sizes, "FAST", {})
    for question, (outcome, _) in zip(questions, outcomes, strict=True):
        assert _value(question, solve(question)) == pytest.approx(
            _value(question, outcome), rel=1e-7
        )


def test_without_numba_the_loops_stay_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)

    assert not sizes.compile_solver()
    assert not compiled.FAST


def test_the_caches_of_other_loops_are_never_used(monkeypatch: pytest.MonkeyPatch) -> None:
    before = compiled._digest()

    monkeypatch.setitem(sizes.settle_sizes.__globals__, "CLIMBED", 7.0)

    assert compiled._digest() != before


def _value(question: Question, outcome: object) -> float:
    return value_of(question, outcome) if isinstance(outcome, Answer) else -1.0
