"""Whatever placement is asked for: a finite time, never faster than one GPU alone."""

from functools import cache
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.models.forecast import Forecast
from ebbtide.core.models.iteration import KIND
from ebbtide.core.models.stored import Model
from ebbtide.core.models.table import Table
from ebbtide.data.shapes import pollux

DATA = Path(__file__).parents[1] / "data" / "pollux-profiles"
WORKLOADS = ("bert", "yolov3")
PLACEMENTS = st.lists(st.integers(1, 64), min_size=1, max_size=40)
BATCHES = st.floats(1e-3, 1e6, exclude_min=True)


@cache
def fitted() -> Model:
    return KIND.methods[KIND.default](
        pollux.join(
            pollux.read_placements(
                name, (DATA / name / "placements.csv").read_text(encoding="utf-8")
            )
            for name in WORKLOADS
        )
    )


def ask(workload: str, placements: list[list[int]], batch: float) -> Forecast:
    return fitted().predict(
        Table.of(
            workload=[workload] * len(placements),
            placement=["-".join(map(str, counts)) for counts in placements],
            local_batch=[batch] * len(placements),
        )
    )


@given(
    workload=st.sampled_from(WORKLOADS),
    placements=st.lists(PLACEMENTS, min_size=1, max_size=10),
    batch=BATCHES,
)
def test_b090_no_answer_is_negative_infinite_or_better_than_linear(
    workload: str, placements: list[list[int]], batch: float
) -> None:
    found = ask(workload, [[1], *placements], batch)

    assert np.isfinite(found.high).all()
    assert (found.low > 0).all()
    assert ((found.low <= found.value) & (found.value <= found.high)).all()
    assert (found.value >= found.value[0] * (1 - 1e-12)).all()


@given(workload=st.sampled_from(WORKLOADS), nodes=st.integers(4, 30), batch=st.floats(4, 12))
def test_a_node_more_than_were_measured_never_makes_a_step_shorter(
    workload: str, nodes: int, batch: float
) -> None:
    found = ask(workload, [[4] * nodes, [4] * (nodes + 1)], batch)

    assert found.value[0] <= found.value[1] * (1 + 1e-12)
    assert found.beyond[1]
