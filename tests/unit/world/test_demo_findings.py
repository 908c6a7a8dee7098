"""What the demonstration reports: what was planned beside what happened, and what is not right."""

from dataclasses import replace
from decimal import Decimal

import pytest

from world.demo.findings import BEGIN, END, Findings, Forecast, Loss, fill_in

FORECAST = Forecast(
    pools={"v100-spot": 2, "v100-ondemand": 1}, reason="cheap", seconds=100.4, usd=Decimal("1.20")
)
LOSS = Loss(scenario="notice", node="n1", spares=1, to_next_step=0.5, to_full_size=7.0)
FOUND = Findings(
    state="Complete",
    steps=300,
    wanted_steps=300,
    accuracy=0.98,
    counters={"revocations": 3, "failures": 0, "stepsLost": 0, "restarts": 0},
    spent_usd=Decimal("1.30"),
    billed_usd=Decimal("1.50"),
    seconds=140.0,
    losses=(LOSS, LOSS, LOSS),
    forecast=FORECAST,
    later=replace(FORECAST, seconds=110.0, usd=Decimal("1.25")),
    took_seconds=112.0,
)


def test_the_report_sets_what_was_planned_beside_what_happened() -> None:
    lines = FOUND.rows()

    assert ("plan", "3 workers: 2 on v100-spot, 1 on v100-ondemand") in lines
    end = "100 s predicted, 110 s half-way, 112 s in the end"
    assert ("from start to end", end) in lines
    assert ("cost", "1.20 USD predicted, 1.25 USD half-way, 1.30 USD in the end") in lines
    assert FOUND.complaints() == []


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        pytest.param(replace(FOUND, forecast=None), "no plan was made", id="no plan"),
        pytest.param(replace(FOUND, steps=299), "299 steps, not 300", id="steps"),
        pytest.param(replace(FOUND, spent_usd=Decimal(0)), "nothing was spent", id="no cost"),
        pytest.param(replace(FOUND, spent_usd=Decimal(2)), "more than the 1.50 USD", id="cost"),
    ],
)
def test_what_is_not_as_it_must_be_is_told(wrong: Findings, says: str) -> None:
    assert [text for text in wrong.complaints() if says in text]


def test_a_table_goes_between_its_marks_and_nowhere_else() -> None:
    text = f"before\n{BEGIN}\nold\n{END}\nafter"

    assert fill_in(text, "new") == f"before\n{BEGIN}\nnew\n{END}\nafter"
    with pytest.raises(ValueError, match="no place for the table"):
        fill_in("nothing", "new")
