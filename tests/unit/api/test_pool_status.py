"""The status of a pool, both ways."""

import json
from datetime import timedelta
from typing import Any

import pytest

from ebbtide.api.pool_status import PoolState, parse_pool_status, render_pool_status
from ebbtide.core.values.errors import InvalidManifestError
from ebbtide.core.values.past import (
    MOST_FOLLOWED,
    MOST_LIVES,
    MOST_SPELLS,
    Followed,
    Life,
    LifeTold,
    Past,
    Spell,
)
from support.builders import at

PAST = Past(
    spells=(Spell(available=True, since=at(0)), Spell(available=False, since=at(0.25))),
    failed_tries=2,
    failed_at=at(700.5),
    lives=(
        Life(since=at(0), lasted=timedelta(seconds=299.75), revoked=True),
        Life(since=at(1), lasted=timedelta(seconds=600), revoked=False),
    ),
    followed=(
        Followed(node="n", mark="0123", since=at(3)),
        Followed(node="o", mark="4567", since=at(4), idle_since=at(5)),
    ),
)
STATE = PoolState(
    ready=2,
    total=3,
    left_out_until=at(1900),
    lifetime=LifeTold(family="stacked", parameters={"meanHours": 9.1}, samples=2, brier=0.125),
    past=PAST,
)


def test_what_is_stored_is_read_again_to_the_last_fraction() -> None:
    stored = json.loads(json.dumps(render_pool_status(STATE)))

    assert parse_pool_status(stored) == STATE


def test_users_read_whole_seconds() -> None:
    stored = render_pool_status(STATE)

    assert stored["nodes"] == {"ready": 2, "total": 3}
    assert stored["availability"] == {
        "available": False,
        "since": "2026-01-01T12:00:00Z",
        "leftOutUntil": "2026-01-01T12:31:40Z",
    }
    assert stored["lastRevocationTime"] == "2026-01-01T12:04:59Z"
    assert stored["lifetime"]["samples"] == 2


@pytest.mark.parametrize("stored", [None, {}, {"nodes": {"ready": 0, "total": 0}}])
def test_of_a_pool_that_nobody_has_used_nothing_is_told(stored: Any) -> None:
    state = parse_pool_status(stored)

    assert state == PoolState()
    assert render_pool_status(state) == {"nodes": {"ready": 0, "total": 0}}


def test_conditions_of_others_and_fields_of_later_versions_are_left_alone() -> None:
    stored = {**render_pool_status(STATE), "later": 1}

    assert parse_pool_status(stored) == STATE


@pytest.mark.parametrize(
    "history",
    [
        {"lives": [{"since": "yesterday", "seconds": 1, "revoked": True}]},
        {"lives": [{"since": "2026-01-01T12:00:00Z", "seconds": -1, "revoked": True}]},
        {"spells": [{"available": "yes", "since": "2026-01-01T12:00:00Z"}]},
        {"failedTries": -1},
        {"followed": [{"node": "n"}]},
    ],
)
def test_a_history_that_cannot_be_is_refused_with_the_field(history: dict[str, Any]) -> None:
    with pytest.raises(InvalidManifestError, match=r"status\.history"):
        parse_pool_status({"history": history})


def test_a_full_history_stays_well_below_a_hundred_kilobytes() -> None:
    full = Past(
        spells=tuple(Spell(available=n % 2 == 0, since=at(n + 0.5)) for n in range(MOST_SPELLS)),
        lives=tuple(
            Life(since=at(n + 0.5), lasted=timedelta(seconds=12345.5), revoked=True)
            for n in range(MOST_LIVES)
        ),
        followed=tuple(
            Followed(node=f"gke-cluster-pool-{n:036d}", mark="0" * 16, since=at(0.5))
            for n in range(MOST_FOLLOWED)
        ),
    )

    stored = json.dumps(render_pool_status(PoolState(past=full)))

    assert len(stored) < 70_000
    assert parse_pool_status(json.loads(stored)).past == full
