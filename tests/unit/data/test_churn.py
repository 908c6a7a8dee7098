"""Public traces of nodes that come and go, and jobs that are replayed over them to the end."""

from functools import cache

import numpy as np
import pytest

from architecture.tree import ROOT
from ebbtide.core.models.table import DataError
from ebbtide.core.simulator import fleet
from ebbtide.data.shapes.churn import Churn, read_events, read_segments
from support.traces import HOUR_S, make_terms

DATA = ROOT / "tests" / "data"
OOBLECK = ("5m", "10m", "30m", "1h", "3h", "6h")
TICK_S = 60.0


@cache
def traces() -> dict[str, Churn]:
    found = {
        f"bamboo {name}": read_events((DATA / f"bamboo-spot-traces/{name}-trace.csv").read_text())
        for name in ("p3", "g4dn")
    }
    found |= {
        f"oobleck {name}": read_events((DATA / f"oobleck-traces/{name}.csv").read_text())
        for name in OOBLECK
    }
    segments = read_segments((DATA / "parcae-traces/segments_32node.csv").read_text())
    return found | {f"parcae {name}": churn for name, churn in segments.items()}


@pytest.mark.parametrize(
    ("name", "adds", "losses", "peak", "mean", "hours", "rate", "burst"),
    [
        ("bamboo p3", 177, 167, 32, 24.0, 11.37, 0.611, 6),
        ("bamboo g4dn", 79, 74, 24, 12.6, 10.77, 0.545, 5),
    ],
)
def test_check_15_the_churn_of_the_bamboo_traces_is_the_published_one(
    name: str, adds: int, losses: int, peak: int, mean: float, hours: float, rate: float, burst: int
) -> None:
    churn = traces()[name]

    assert (churn.changes > 0).sum() == adds
    assert (churn.losses, churn.peak, churn.largest_burst) == (losses, peak, burst)
    assert churn.mean == pytest.approx(mean, abs=0.05)
    assert churn.end_s / HOUR_S == pytest.approx(hours, abs=0.01)
    assert churn.losses_per_node_hour == pytest.approx(rate, abs=0.001)


def test_nodes_of_oobleck_never_come_back() -> None:
    for name in OOBLECK:
        churn = traces()[f"oobleck {name}"]
        assert churn.peak == 30
        assert np.cumsum(churn.changes)[-1] == 15


@pytest.mark.parametrize("name", list(traces()))
def test_check_15_no_job_is_stuck_on_a_public_trace_of_churn(name: str) -> None:
    churn = traces()[name]
    history = churn.enough(max(int(churn.mean), 1), tick_s=TICK_S)
    span_h = len(history) * TICK_S / HOUR_S
    terms = make_terms(
        work_h=0.6 * span_h, deadline_h=0.9 * span_h, changeover_h=span_h / 100, tick_s=TICK_S
    )

    outcomes = {policy: fleet.run(policy, [(terms, 0)], history)[0] for policy in fleet.NAMES}

    late = [policy for policy, outcome in outcomes.items() if outcome.is_late]
    assert set(late) <= {"spot-only"}
    for outcome in outcomes.values():
        assert outcome.finish_s < 2 * span_h * HOUR_S


def test_enough_nodes_are_looked_for_at_the_beginning_of_a_tick() -> None:
    churn = read_events("0,add,a\n90000,add,b\n180000,remove,a\n")

    history = churn.enough(2, tick_s=60.0)

    assert history.up[:, 0].tolist() == [False, False, True, False]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "at least one event"),
        ("0,add,a\n5,move,b\n", "row 2: '5,move,b'"),
        ("x,add,a\n", "row 1: 'x,add,a'"),
    ],
)
def test_events_of_another_shape_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        read_events(text)


def test_segments_with_an_unknown_event_are_refused() -> None:
    with pytest.raises(DataError, match="row 2: 'gone' is none of"):
        read_segments("segment,t_ms,event,nodes_changed,duration_ms\nhh,0,gone,1,60000\n")
