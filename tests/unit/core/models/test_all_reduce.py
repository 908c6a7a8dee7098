import json
from pathlib import Path

import numpy as np
import pytest

from ebbtide.core.models.all_reduce import KIND, seconds_for
from ebbtide.core.models.all_reduce.calls import SYSTEM, TIME
from ebbtide.core.models.all_reduce.model import AllReduce, fit, late_in
from ebbtide.core.models.all_reduce.ring import ring_bound, ring_factor, seconds_at_bus
from ebbtide.core.models.quality import Errors, Quality, hold_out, leave_one_out
from ebbtide.core.models.stored import Model, seal
from ebbtide.core.models.table import DataError, Floats, Table
from ebbtide.data.shapes import all_reduce

DATA = Path(__file__).parents[3] / "data" / "ml-engineering-allreduce"
TABLE = all_reduce.read((DATA / "allreduce_bandwidth.csv").read_text(encoding="utf-8"))
GIB = 2.0**30
SIZES: Floats = np.exp2(np.arange(12, 32, 2, dtype=np.float64))


@pytest.fixture(scope="module")
def model() -> AllReduce:
    return fit(TABLE, method=KIND.default)


def make_table(**changed: object) -> Table:
    """Clusters of one GPU per node over 10 Gbit/s at four fifths of the ring's bound."""
    nodes = np.repeat([2.0, 4.0, 8.0], len(SIZES))
    size = np.tile(SIZES, 3)
    seconds = 50e-6 * nodes + ring_bound(size, nodes, np.full(len(size), 10.0)) / 0.8
    columns: dict[str, object] = {
        "system": ["cloud"] * len(size),
        "gpus_per_node": [1] * len(size),
        "nodes": nodes,
        "nic_gbps": [10] * len(size),
        "bytes": size,
        "time_s": seconds,
    }
    return Table.of(**(columns | changed))  # type: ignore[arg-type]  # columns of several types


def join(one: Table, other: Table) -> Table:
    columns = {name: [*one.cells[name], *other.cells[name]] for name in one.cells}
    return Table.of(**columns)


def ask(**changed: object) -> Table:
    columns: dict[str, object] = {
        "system": ["cloud"],
        "gpus_per_node": [1],
        "nodes": [4],
        "nic_gbps": [10],
        "bytes": [1e8],
    }
    return Table.of(**(columns | changed))  # type: ignore[arg-type]  # columns of several types


# ---------------------------------------------------------------- bandwidths and bounds


@pytest.mark.parametrize(
    ("size", "members", "bus", "milliseconds"),
    [
        pytest.param(4 * GIB, 32, 377.34, 22.05, id="four-nodes"),
        pytest.param(4 * GIB, 8, 740.64, 10.15, id="one-node"),
    ],
)
def test_a_bus_bandwidth_gives_a_time(
    size: float, members: float, bus: float, milliseconds: float
) -> None:
    found = seconds_at_bus(np.array([size]), np.array([members]), np.array([bus]))

    assert found[0] * 1000 == pytest.approx(milliseconds, abs=0.005)


@pytest.mark.parametrize(
    ("machines", "bus", "algorithm"),
    [(1, 230.77, 131.87), (2, 57.17, 30.49), (3, 31.77, 16.575), (4, 29.61, 15.28)],
)
def test_bus_and_algorithm_bandwidth_of_eight_gpus_a_machine_agree(
    machines: int, bus: float, algorithm: float
) -> None:
    factor = ring_factor(np.array([8.0 * machines]))[0]

    assert bus / factor == pytest.approx(algorithm, abs=0.01)


@pytest.mark.parametrize(
    ("nodes", "nic_gbps", "seconds"), [(2, 10, 0.460), (8, 10, 0.805), (4, 25, 0.276)]
)
def test_the_gradients_of_vgg19_take_a_ring_so_long(
    nodes: int, nic_gbps: float, seconds: float
) -> None:
    found = ring_bound(np.array([574_668_960.0]), np.array([nodes]), np.array([nic_gbps]))

    assert found[0] == pytest.approx(seconds, abs=0.0005)


# ---------------------------------------------------------------- what it answers


def mape_of(model: Model) -> float:
    assert isinstance(model.quality.errors, Errors)
    return model.quality.errors.mape


def test_predicts_sizes_left_out_better_than_its_alternatives(model: AllReduce) -> None:
    others = [KIND.methods[name](TABLE) for name in KIND.methods if name != model.method]

    assert mape_of(model) < 0.08
    assert all(mape_of(model) < mape_of(other) for other in others)


def test_the_interval_holds_nine_of_ten_sizes_left_out(model: AllReduce) -> None:
    assert model.quality.coverage is not None
    assert 0.85 <= model.quality.coverage <= 0.95


@pytest.mark.parametrize("method", KIND.methods)
@pytest.mark.parametrize("nodes", [2, 4, 8, 64])
def test_no_answer_is_below_the_bound_of_the_ring(method: str, nodes: int) -> None:
    sizes = np.geomspace(10, 1e12, 30)
    asked = make_table(nodes=[nodes] * 30, bytes=sizes)

    found = fit(make_table(), method=method).predict(asked)

    bound = ring_bound(sizes, np.full(30, float(nodes)), np.full(30, 10.0))
    assert (found.value >= bound).all()
    assert (found.low >= bound).all()


def test_a_network_that_adds_by_itself_lowers_the_bound_of_its_system_alone() -> None:
    seconds = ring_bound(SIZES, np.full(10, 8.0), np.full(10, 10.0)) * 0.6
    rows = make_table(
        system=["switch"] * 10,
        gpus_per_node=[1] * 10,
        nodes=[8] * 10,
        nic_gbps=[10] * 10,
        bytes=SIZES,
        time_s=seconds,
    )

    found = fit(rows, method=KIND.default).predict(rows)

    # 20 us to start, which these times do not have, show in the smallest sizes.
    assert found.value[-3:] == pytest.approx(seconds[-3:], rel=0.05)


def test_marks_what_lies_beyond_the_measurements() -> None:
    model = fit(make_table(), method=KIND.default)

    def beyond(**changed: object) -> bool:
        return bool(model.predict(ask(**changed)).beyond[0])

    assert not beyond()
    assert beyond(nodes=[16])
    assert beyond(gpus_per_node=[2])
    assert beyond(nic_gbps=[25])
    assert beyond(bytes=[1e12])
    assert beyond(bytes=[1])


def test_an_interval_is_wider_beyond_the_measurements(model: AllReduce) -> None:
    asked = ask(
        system=["8xB200"] * 2,
        gpus_per_node=[8] * 2,
        nodes=[4, 16],
        nic_gbps=[3200] * 2,
        bytes=[1e9] * 2,
    )

    found = model.predict(asked)

    known, beyond = found.high / found.value
    assert beyond > known > 1


def test_nine_of_ten_end_within_the_late_time(model: AllReduce) -> None:
    found = model.predict(TABLE)

    late = late_in(model, found)["p90"]

    assert (late >= found.value).all()
    assert (late <= found.high).all()
    assert (TABLE.cells["time_s"].astype(float) <= late).mean() >= 0.9


def test_one_gpu_takes_no_time_and_several_some() -> None:
    model = fit(make_table(), method=KIND.default)
    sizes = np.array([1e6, 1e8])

    alone = seconds_for(model, sizes, system="cloud", gpus=1, nodes=1, nic_gbps=10)
    four = seconds_for(model, sizes, system="cloud", gpus=1, nodes=4, nic_gbps=10)

    assert alone.tolist() == [0, 0]
    assert (four > 0).all()


@pytest.mark.parametrize("method", KIND.methods)
def test_what_was_stored_answers_exactly_the_same(method: str) -> None:
    fitted = KIND.methods[method](TABLE)

    read = KIND.from_json(json.loads(json.dumps(seal(KIND.name, fitted))))

    assert read.method == method
    assert read.quality == fitted.quality
    for name in ("value", "low", "high", "beyond"):
        ours: Floats = getattr(fitted.predict(TABLE), name)
        assert (getattr(read.predict(TABLE), name) == ours).all()
    assert seal(KIND.name, read) == seal(KIND.name, fitted)


def test_a_stored_model_of_no_system_is_refused() -> None:
    empty = fit(make_table(), method=KIND.default).parameters() | {"systems": {}}

    with pytest.raises(ValueError, match="no system: nothing to ask"):
        KIND.read(KIND.default, Quality(samples=0, split="none"), empty)


# ---------------------------------------------------------------- systems never measured


@pytest.mark.parametrize("method", KIND.methods)
def test_a_system_that_was_never_measured_is_answered_by_the_others(method: str) -> None:
    fast = make_table(system=["fast"] * 30)
    slow = make_table(system=["slow"] * 30, time_s=fast.numbers(TIME) * 4)
    model = fit(join(fast, slow), method=method)

    between = model.predict(ask(system=["third"]))

    low, high = (model.predict(ask(system=[name])) for name in ("fast", "slow"))
    assert low.value[0] < between.value[0] < high.value[0]
    assert between.beyond.all()
    assert not low.beyond.any()
    assert between.low[0] <= low.value[0]
    assert between.high[0] >= high.value[0]
    assert late_in(model, between)["p90"] == between.high


def test_where_one_system_was_measured_another_may_be_ten_times_off() -> None:
    model = fit(make_table(), method=KIND.default)

    found = model.predict(ask(system=["third"]))

    assert found.high[0] >= 10 * found.value[0]
    bound = ring_bound(np.array([1e8]), np.array([4.0]), np.array([10.0]))
    assert found.low[0] == pytest.approx(max(found.value[0] / 10, bound[0]))


def test_only_systems_with_several_nodes_speak_for_several_nodes() -> None:
    alone = make_table(
        system=["alone"] * 30, gpus_per_node=[8] * 30, nodes=[1] * 30, time_s=np.full(30, 1.0)
    )
    with_cloud = fit(join(alone, make_table()), method=KIND.default)
    cloud = fit(make_table(), method=KIND.default)

    asked = ask(system=["third"])

    assert with_cloud.predict(asked).value == pytest.approx(cloud.predict(asked).value)


def test_real_systems_that_were_held_out_lie_in_their_intervals() -> None:
    systems = TABLE.texts(SYSTEM)
    held = hold_out(
        TABLE, leave_one_out(systems), lambda known: fit(known, method=KIND.default).predict
    )

    measured = TABLE.take(held.rows).numbers(TIME)
    inside = (held.forecast.low <= measured) & (measured <= held.forecast.high)
    assert held.forecast.beyond.all()
    assert np.mean(np.abs(held.forecast.value / measured - 1)) < 0.6
    assert inside.mean() >= 0.85


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        pytest.param({"time_s": 0}, "column time_s, row 5: 0 is not", id="zero"),
        pytest.param({"time_s": -1}, "column time_s, row 5", id="negative"),
        pytest.param({"time_s": float("nan")}, "column time_s, row 5", id="nan"),
        pytest.param({"time_s": 83_000}, "at most 3600", id="milliseconds"),
        pytest.param({"time_s": 1e-6}, "impossible over 10 Gbit/s", id="faster-than-light"),
        pytest.param({"bytes": "many"}, "column bytes, row 5: 'many'", id="text"),
        pytest.param({"nodes": 1.5}, "whole number", id="half-a-node"),
        pytest.param({"nic_gbps": "-"}, "need a network", id="no-network"),
        pytest.param({"nodes": 1}, "at least two are needed", id="one-gpu"),
        pytest.param({"system": ""}, "column system, row 5", id="no-name"),
    ],
)
def test_refuses_bad_samples_and_names_the_place(
    changed: dict[str, object], complaint: str
) -> None:
    table = make_table()
    for name, value in changed.items():
        cells = table.cells[name].copy()
        cells[3] = value
        table = Table({**table.cells, name: cells}, table.rows)

    with pytest.raises(DataError, match=complaint):
        KIND.methods[KIND.default](table)


@pytest.mark.parametrize("method", KIND.methods)
def test_refuses_an_empty_table(method: str) -> None:
    with pytest.raises(DataError, match="no rows"):
        KIND.methods[method](TABLE.take(np.zeros(len(TABLE), dtype=bool)))


@pytest.mark.parametrize("method", KIND.methods)
def test_one_row_gives_finite_answers_and_no_errors_of_its_own(method: str) -> None:
    model = KIND.methods[method](make_table().take(np.array([25])))

    found = model.predict(make_table())
    assert model.quality.errors is None
    assert model.quality.split == "none"
    assert np.isfinite(found.high).all()
    assert (found.value > 0).all()


def test_knots_are_limited_where_sizes_are_many() -> None:
    size = np.geomspace(1e3, 1e9, 200)
    table = make_table(
        system=["cloud"] * 200,
        gpus_per_node=[1] * 200,
        nodes=[2] * 200,
        nic_gbps=[10] * 200,
        bytes=size,
        time_s=1e-4 + ring_bound(size, np.full(200, 2.0), np.full(200, 10.0)) / 0.8,
    )

    model = fit(table, method=KIND.default)

    assert len(model.systems["cloud"].knots) == 48
    assert mape_of(model) < 0.02
