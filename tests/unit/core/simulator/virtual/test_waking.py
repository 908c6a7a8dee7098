"""A virtual world wakes for decisions alone, and misses none that the operator would make."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from typing_extensions import override

from ebbtide.core.simulator.virtual.run import Loop, Run
from ebbtide.core.values.decision import Decision
from ebbtide.core.values.objective import Minimize, Objective, PlanMode
from ebbtide.core.values.settings import Settings
from support.builders import make_job
from support.knowing import Known
from support.virtual import PROMPT, make_loop, nodes

KNOWN = Known(samples_per_s={"V100": 32.0}, start_s=70.0)
TRACE = nodes(spot=((0, 8), (2000, 1), (2600, 0), (5200, 8), (7000, 2), (9000, 8)))


class Restless(Loop):
    """Looks as often as the operator does, to show how far things are, too."""

    @override
    def _let_time_pass(self, last: Decision, end: datetime) -> None:
        super()._let_time_pass(replace(last, decide_after=last.requeue_after), end)


def play(kind: type[Loop], **job: Any) -> Run:
    fields = {"steps": 6000, "min_replicas": 1, "on_demand_floor": 0, **job}
    return make_loop(
        make_job(**fields),
        kind=kind,
        trace=TRACE,
        timing=replace(PROMPT, warned_share=0.0),
        knowledge=KNOWN,
        settings=Settings(),
        check=False,
        limit=timedelta(hours=8),
    ).run()


@pytest.mark.parametrize(
    "job",
    [
        pytest.param({"plan_mode": PlanMode.MANUAL, "replicas": 3}, id="a size of the user's"),
        pytest.param(
            {
                "plan_mode": PlanMode.AUTO,
                "objective": Objective(deadline_after=timedelta(hours=3)),
            },
            id="least cost by a deadline",
        ),
        pytest.param(
            {"plan_mode": PlanMode.AUTO, "objective": Objective(minimize=Minimize.TIME)},
            id="least time",
        ),
    ],
)
def test_who_looks_more_often_decides_the_same_at_the_same_moments(job: dict[str, Any]) -> None:
    rare, frequent = play(Loop, **job), play(Restless, **job)

    assert rare.log == frequent.log
    assert rare.bill == frequent.bill
    assert rare.num_passes < frequent.num_passes
