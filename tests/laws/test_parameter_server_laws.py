"""Laws of clusters with parameter servers, whatever was measured and whatever is asked."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.core.models import parameter_server
from ebbtide.core.models.parameter_server import KIND, ParameterServer
from ebbtide.core.models.stored import seal
from ebbtide.core.models.table import Table
from ebbtide.data.shapes import cluster_speed

DATA = Path(__file__).resolve().parents[1] / "data" / "cm-dare" / "derived" / "cluster_speed.csv"

GPUS = st.sampled_from(["K80", "P100", "unknown"])
WORKLOADS = st.sampled_from(["res15", "shakebig", "unknown"])
SIZES = st.floats(1e3, 1e12)
COUNTS = st.integers(1, 64)


@pytest.fixture(scope="module")
def model() -> ParameterServer:
    return parameter_server.fit(cluster_speed.read(DATA.read_text(encoding="utf-8")))


def ask(gpu: str, workload: str, *, size: float, workers: list[int], servers: list[int]) -> Table:
    number = len(workers)
    return Table.of(
        gpu=[gpu] * number,
        workload=[workload] * number,
        workers=workers,
        servers=servers,
        bytes=[size] * number,
    )


@given(gpu=GPUS, workload=WORKLOADS, size=SIZES, workers=COUNTS)
def test_more_servers_are_never_slower(
    gpu: str, workload: str, size: float, workers: int, model: ParameterServer
) -> None:
    servers = list(range(1, 17))
    table = ask(gpu, workload, size=size, workers=[workers] * 16, servers=servers)

    assert (np.diff(model.predict(table).value) >= -1e-12).all()
    assert (model.gain(table) >= -1e-12).all()


@given(gpu=GPUS, workload=WORKLOADS, size=SIZES, servers=COUNTS)
def test_more_workers_are_never_slower_and_never_better_than_in_proportion(
    gpu: str, workload: str, size: float, servers: int, model: ParameterServer
) -> None:
    workers = list(range(1, 65))
    table = ask(gpu, workload, size=size, workers=workers, servers=[servers] * 64)

    speed = model.predict(table).value

    assert (np.diff(speed) >= -1e-9 * speed[1:]).all()
    assert (np.diff(speed / np.array(workers)) <= 1e-12).all()


@given(gpu=GPUS, workload=WORKLOADS, sizes=st.tuples(SIZES, SIZES), workers=COUNTS)
def test_more_bytes_of_a_known_workload_are_never_faster(
    gpu: str, workload: str, sizes: tuple[float, float], workers: int, model: ParameterServer
) -> None:
    if workload == "unknown":  # it borrows from another workload on each side of the middle
        workload = "res15"
    fewer, more = (
        model.predict(ask(gpu, workload, size=size, workers=[workers], servers=[1])).value[0]
        for size in sorted(sizes)
    )

    assert more <= fewer * (1 + 1e-12)


SPEEDS = st.lists(
    st.tuples(
        st.sampled_from(["A", "B"]),
        st.sampled_from(["x", "y"]),
        st.integers(1, 9),
        st.integers(1, 3),
        st.floats(5.0, 6.0),
    ),
    min_size=1,
    max_size=10,
)


@settings(max_examples=20)  # each is a fit with its held-out fits
@given(drawn=SPEEDS, method=st.sampled_from(list(parameter_server.WAYS)))
def test_whatever_was_measured_answers_are_finite_and_the_model_comes_back(
    drawn: list[tuple[str, str, int, int, float]], method: str
) -> None:
    gpu, workload, workers, servers, each = (list(column) for column in zip(*drawn, strict=True))
    table = Table.of(
        gpu=gpu,
        workload=workload,
        workers=workers,
        servers=servers,
        bytes=[1e6 if name == "x" else 3e7 for name in workload],
        steps_per_s=[speed * number for speed, number in zip(each, workers, strict=True)],
    )

    model = parameter_server.fit(table, method=method)

    found = model.predict(table)
    assert np.isfinite(found.value).all()
    assert (found.value > 0).all()
    assert KIND.from_json(seal(KIND.name, model)) == model
