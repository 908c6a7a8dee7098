import random

import pytest

from ebbtide.cluster.errors import (
    ConflictError,
    ForbiddenError,
    NotFoundError,
    ThrottledError,
    UnavailableError,
)
from ebbtide.controller.errors import Failures


@pytest.fixture
def failures() -> Failures[str]:
    return Failures(random.Random(1))


def test_a_conflict_is_looked_at_again_at_once_and_quietly(failures: Failures[str]) -> None:
    verdict = failures.judge("a", ConflictError("changed"))

    assert (verdict.delay, verdict.kind, verdict.loud) == (0, "conflict", False)


def test_a_fight_over_an_object_is_slowed_down(failures: Failures[str]) -> None:
    delays = [failures.judge("a", ConflictError("changed")).delay for _ in range(20)]

    assert delays[4] == 0
    assert 0 < delays[5] < delays[10] <= 12
    assert delays[-1] <= 12


def test_delays_grow_to_a_limit_and_start_anew_after_a_success(failures: Failures[str]) -> None:
    delays = [failures.judge("a", UnavailableError("away")).delay for _ in range(12)]

    assert delays[0] < 1
    assert delays[3] > delays[0]
    assert max(delays) <= 15 * 1.2
    failures.succeeded("a")
    assert failures.judge("a", UnavailableError("away")).delay < 1


def test_keys_do_not_share_their_delays(failures: Failures[str]) -> None:
    for _ in range(10):
        failures.judge("a", UnavailableError("away"))

    assert failures.judge("b", UnavailableError("away")).delay < 1


def test_the_server_says_how_long_a_throttled_pass_waits(failures: Failures[str]) -> None:
    verdict = failures.judge("a", ThrottledError("slow down", retry_after=42))

    assert verdict.delay >= 42
    assert verdict.kind == "throttled"


@pytest.mark.parametrize(
    ("error", "kind", "loud"),
    [
        (ForbiddenError("quota"), "rejected", False),
        (NotFoundError("namespace"), "not-found", False),
        (KeyError("nobody expected this"), "unknown", True),
    ],
)
def test_only_what_nobody_expected_is_loud(
    failures: Failures[str], error: Exception, kind: str, *, loud: bool
) -> None:
    verdict = failures.judge("a", error)

    assert (verdict.kind, verdict.loud) == (kind, loud)
    assert verdict.delay > 0
