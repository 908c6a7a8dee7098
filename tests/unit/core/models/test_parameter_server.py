"""Clusters with parameter servers: saturation, what was never sampled, and bad samples."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ebbtide.core.models import parameter_server, stored
from ebbtide.core.models.clusters import GPU, SERVERS, SPEED, WORKERS, WORKLOAD, Clusters
from ebbtide.core.models.parameter_server import KIND, ParameterServer
from ebbtide.core.models.quality import Errors
from ebbtide.core.models.table import DataError, Floats, Table
from ebbtide.data.shapes import cluster_speed

DATA = Path(__file__).resolve().parents[3] / "data" / "cm-dare"
SPEEDS_TEXT = (DATA / "derived" / "cluster_speed.csv").read_text(encoding="utf-8")
MEASURED = cluster_speed.read(SPEEDS_TEXT)
RUNS_TEXT = (DATA / "icac19" / "training_runs_resnet32_64k_steps.csv").read_text(encoding="utf-8")
FEW = MEASURED.take(MEASURED.numbers(WORKERS) <= 4)
MANY = MEASURED.take(MEASURED.numbers(WORKERS) > 4)
METHODS = list(parameter_server.WAYS)
BYTES = cluster_speed.bytes_of("res32")


@pytest.fixture(scope="module")
def model() -> ParameterServer:
    return parameter_server.fit(MEASURED)


@pytest.fixture(scope="module")
def from_few() -> dict[str, ParameterServer]:
    return {method: parameter_server.fit(FEW, method=method) for method in METHODS}


def ask(
    gpu: str = "P100",
    workload: str = "res32",
    *,
    workers: Sequence[float] = (1,),
    servers: float = 1,
    size: float = BYTES,
) -> Table:
    number = len(workers)
    return Table.of(
        gpu=[gpu] * number,
        workload=[workload] * number,
        workers=list(workers),
        servers=[servers] * number,
        bytes=[size] * number,
    )


def samples(speeds: Sequence[object], **changes: Sequence[object]) -> Table:
    """One series of res32 on 1, 2, ... workers, some columns changed."""
    number = len(speeds)
    columns: dict[str, Sequence[object]] = {
        "gpu": ["P100"] * number,
        "workload": ["res32"] * number,
        "workers": list(range(1, number + 1)),
        "servers": [1] * number,
        "bytes": [BYTES] * number,
        "steps_per_s": list(speeds),
    }
    return Table.of(**{**columns, **changes})


def errors(model: ParameterServer, gpu: str, servers: int) -> float:
    mine = (MANY.texts(GPU) == gpu) & (MANY.numbers(SERVERS) == servers)
    held = MANY.take(mine)
    measured = held.numbers(SPEED)
    return float(np.abs(model.predict(held).value / measured - 1).mean() * 100)


def singles(table: Table) -> Floats:
    """What one worker of the same series does, for each row."""
    keys = list(zip(table.texts(GPU), table.texts(WORKLOAD), table.numbers(SERVERS), strict=True))
    alone = table.numbers(WORKERS) == 1
    own = dict(
        zip(
            (key for key, is_one in zip(keys, alone, strict=True) if is_one),
            table.numbers(SPEED)[alone],
            strict=True,
        )
    )
    return np.array([own[key] for key in keys])


# ---------------------------------------------------------------- how good


@pytest.mark.parametrize(
    ("gpu", "servers", "bar"), [("P100", 1, 12.0), ("P100", 2, 16.0), ("K80", 1, 9.0)]
)
def test_five_to_eight_workers_follow_from_one_to_four(
    gpu: str, servers: int, bar: float, from_few: dict[str, ParameterServer]
) -> None:
    found = errors(from_few["shared-knee"], gpu, servers)

    assert found <= bar
    assert found < errors(from_few["p-norm"], gpu, servers)


def test_the_sum_of_speeds_is_far_off_where_a_server_saturates(
    from_few: dict[str, ParameterServer],
) -> None:
    assert errors(from_few["linear-sum"], "P100", 1) > 60
    assert errors(from_few["linear-sum"], "K80", 1) < 4


def test_runs_of_other_years_and_gpus_follow_too() -> None:
    both = cluster_speed.read_all(SPEEDS_TEXT, RUNS_TEXT)
    few = both.numbers(WORKERS) <= 4
    runs = cluster_speed.read_runs(RUNS_TEXT)
    held = runs.take(runs.numbers(WORKERS) > 4)

    found = parameter_server.fit(both.take(few)).predict(held)

    assert np.abs(found.value / held.numbers(SPEED) - 1).mean() < 0.05


def test_measured_speeds_lie_in_the_interval(from_few: dict[str, ParameterServer]) -> None:
    found = from_few["shared-knee"].predict(MANY)
    measured = MANY.numbers(SPEED)

    assert found.beyond.all()
    assert ((found.low <= measured) & (measured <= found.high)).mean() >= 0.85


def test_a_fit_knows_how_wrong_it_was_on_numbers_of_workers_it_had_not_seen(
    model: ParameterServer,
) -> None:
    quality = model.quality

    assert (quality.samples, quality.split) == (96, "leave-one-out:workers")
    assert isinstance(quality.errors, Errors)
    assert quality.errors.mape < 0.04
    assert list(quality.by_group) == [str(number) for number in range(1, 9)]


# ---------------------------------------------------------------- checks of the data


def test_check_11_k80_clusters_are_linear() -> None:
    k80 = MEASURED.take(MEASURED.texts(GPU) == "K80")
    off = np.abs(1 - k80.numbers(SPEED) / (k80.numbers(WORKERS) * singles(k80)))

    assert off.max() <= 0.085
    assert off[k80.texts(WORKLOAD) == "res32"].max() <= 0.01


def test_check_13_a_second_server_gains_what_was_measured() -> None:
    full = MEASURED.take((MEASURED.texts(GPU) == "P100") & (MEASURED.numbers(WORKERS) == 8))
    one, two = (full.take(full.numbers(SERVERS) == servers) for servers in (1, 2))
    gains = dict(
        zip(one.texts(WORKLOAD), two.numbers(SPEED) / one.numbers(SPEED) * 100 - 100, strict=True)
    )

    expected = {"res15": 70.4, "res32": 75.3, "shakesmall": 27.1, "shakebig": 0.3}
    assert gains == pytest.approx(expected, abs=0.1)


def test_check_13_no_gain_is_predicted_for_k80_and_a_large_one_for_small_models(
    model: ParameterServer,
) -> None:
    k80 = MEASURED.take(MEASURED.texts(GPU) == "K80")

    assert model.gain(k80).max() < 0.035
    gains = [
        float(model.gain(ask(workload=name, workers=[8], size=cluster_speed.bytes_of(name)))[0])
        for name in ("res15", "res32", "shakesmall", "shakebig")
    ]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 0.6
    assert gains[-1] < 0.01


def test_check_14_mixed_clusters_fall_short_of_their_sum() -> None:
    single = {"K80": 4.545, "P100": 11.81, "V100": 14.43}
    runs = cluster_speed.read_runs(RUNS_TEXT)

    def on_demand(workers: int) -> float:
        mine = (runs.texts(GPU) == "K80") & (runs.numbers(WORKERS) == workers)
        mine &= runs.numbers(SERVERS) == 1
        return float(1 / (1 / runs.take(mine).numbers(SPEED)).mean())

    assert on_demand(4) == pytest.approx(4 * single["K80"], rel=0.02)
    assert on_demand(8) == pytest.approx(8 * single["K80"], rel=0.04)
    short = [
        100 * (1 - mixed.speed / sum(single[gpu] * n for gpu, n in mixed.workers.items()))
        for mixed in cluster_speed.read_mixed(RUNS_TEXT)
    ]
    assert short == pytest.approx([9.5, 16.0, 19.6], abs=0.5)


def test_check_14_mixed_clusters_are_predicted_from_clusters_of_one_kind() -> None:
    model = parameter_server.fit(cluster_speed.read_all(SPEEDS_TEXT, RUNS_TEXT))

    for mixed in cluster_speed.read_mixed(RUNS_TEXT):
        found = model.predict_mixed(mixed.workers, workload="res32", servers=1, size=BYTES)
        assert found.value[0] == pytest.approx(mixed.speed, rel=0.08)
        assert not found.beyond[0]


# ---------------------------------------------------------------- what is asked


def test_a_mixed_cluster_of_one_kind_is_a_plain_cluster(model: ParameterServer) -> None:
    mixed = model.predict_mixed({"P100": 6, "K80": 0}, workload="res32", servers=1, size=BYTES)

    plain = model.predict(ask(workers=[6]))
    assert mixed.value == pytest.approx(plain.value)


def test_a_mixed_cluster_without_workers_is_no_question(model: ParameterServer) -> None:
    with pytest.raises(DataError, match="without workers"):
        model.predict_mixed({"P100": 0}, workload="res32", servers=1, size=BYTES)


def test_more_workers_or_other_servers_than_sampled_are_beyond(model: ParameterServer) -> None:
    assert model.predict(ask(workers=[1, 8, 9])).beyond.tolist() == [False, False, True]
    assert model.predict(ask(workers=[2], servers=3)).beyond.all()
    assert model.predict(ask(workers=[2], size=BYTES / 2)).beyond.all()


def test_b090_an_unknown_gpu_is_taken_for_the_slowest_known(model: ParameterServer) -> None:
    unknown = model.predict(ask("H999", workers=[1, 4]))

    assert unknown.beyond.all()
    assert unknown.value == pytest.approx(model.predict(ask("K80", workers=[1, 4])).value)


def test_b090_an_unknown_workload_is_never_faster_than_its_nearest(model: ParameterServer) -> None:
    smaller, larger = (
        model.predict(ask(workload="new", workers=[1, 2], size=size)) for size in (1e5, 3e8)
    )

    assert smaller.beyond.all()
    assert (
        smaller.value
        <= model.predict(ask(workload="res15", workers=[1, 2], size=2775272)).value * 1.001
    ).all()
    big = model.predict(ask(workload="shakebig", workers=[1, 2], size=104817448)).value
    assert (larger.value < big / 2).all()


def test_b090_from_sixteen_workers_to_more_is_flagged_and_never_better_than_linear() -> None:
    workers = np.arange(1, 17)
    speeds = 1 / (1 / (10.0 * workers) ** 4 + 1 / 90.0**4) ** 0.25
    for method in METHODS:
        model = parameter_server.fit(samples(speeds.tolist()), method=method)

        found = model.predict(ask(workers=[1, 16, 24, 64]))

        assert found.beyond.tolist() == [False, False, True, True]
        each = found.value / [1, 16, 24, 64]
        assert (np.diff(each) <= 1e-9).all()


def test_a_worker_speed_that_is_known_from_elsewhere_is_used(model: ParameterServer) -> None:
    table = ask(workload="new", workers=[1, 1, 50], size=BYTES)
    told = Table(
        {**table.cells, "worker_steps_per_s": np.array([7.0, "-", 7.0], dtype=object)}, table.rows
    )

    found = model.predict(told)

    assert found.value[0] == pytest.approx(7.0, rel=0.01)
    assert found.beyond.tolist() == [False, True, True]
    assert found.value[2] < 60


def test_questions_give_the_same_answers_together_and_alone(model: ParameterServer) -> None:
    sizes = [2e6, 2e7, 9e7, 1e9]
    one = [model.predict(ask(workload="new", workers=[4], size=size)).value[0] for size in sizes]

    table = Table.of(
        gpu=["P100"] * 4, workload=["new"] * 4, workers=[4] * 4, servers=[1] * 4, bytes=sizes
    )
    assert model.predict(table).value.tolist() == one


def test_b090_every_method_answers_ten_thousand_questions_with_sense() -> None:
    chance = np.random.Generator(np.random.PCG64(7))
    number = 10_000
    table = Table.of(
        gpu=chance.choice(["K80", "P100", "never seen"], number),
        workload=chance.choice(["res15", "res32", "shakebig", "new"], number),
        workers=chance.integers(1, 200, number),
        servers=chance.integers(1, 20, number),
        bytes=10 ** chance.uniform(3, 12, number),
    )
    for method in METHODS:
        found = parameter_server.fit(FEW, method=method).predict(table)
        assert np.isfinite(found.value).all()
        assert (found.value > 0).all()
        assert ((found.low <= found.value) & (found.value <= found.high)).all()


@pytest.mark.parametrize("method", METHODS)
def test_a_stored_model_comes_back_exactly(
    method: str, from_few: dict[str, ParameterServer]
) -> None:
    model = from_few[method]

    again = KIND.from_json(json.loads(json.dumps(stored.seal(KIND.name, model))))

    assert again == model
    assert (again.predict(MANY).value == model.predict(MANY).value).all()


def test_a_stored_model_without_series_or_of_no_method_is_refused(model: ParameterServer) -> None:
    nothing = replace(model, series=())
    guess = replace(model, method="guess")

    for broken in (nothing, guess):
        with pytest.raises(stored.StoredModelError, match="nothing to ask"):
            KIND.from_json(stored.seal(KIND.name, broken))


# ---------------------------------------------------------------- few and bad samples


@pytest.mark.parametrize("method", METHODS)
def test_one_row_gives_a_model_with_a_wide_interval_and_no_errors(method: str) -> None:
    model = parameter_server.fit(samples([11.4]), method=method)

    found = model.predict(ask(workers=[1, 2]))
    assert model.quality.errors is None
    assert found.value[0] == pytest.approx(11.4, rel=0.05)
    assert found.low[0] < 0.6 * found.value[0]
    assert found.beyond.tolist() == [False, True]


def test_repeats_of_a_cluster_count_once() -> None:
    once = parameter_server.fit(samples([10.0, 20.0]))
    often = parameter_server.fit(
        samples([10.0, 20.0, 5.0, 20.0], workers=[1, 2, 1, 1])  # 1 worker: 10, 5 and 20
    )

    assert often.quality.samples == 4
    assert often.predict(ask(workers=[1, 2])).value == pytest.approx(
        once.predict(ask(workers=[1, 2])).value
    )


def test_one_bad_reading_does_not_rule() -> None:
    speeds = [11.4, 22.8, 34.1, 44.0, 4.4, 45.0, 45.1, 45.2]

    found = parameter_server.fit(samples(speeds)).predict(ask(workers=[4, 5, 8])).value

    assert found == pytest.approx([44.0, 45.0, 45.2], rel=0.1)


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        pytest.param(samples([]), "there are no rows", id="empty"),
        pytest.param(samples([11.4, float("nan")]), "column steps_per_s, row 3: nan", id="NaN"),
        pytest.param(samples([0.0, 22.0]), "row 2: 0.0 is not a number of steps/s above", id="0"),
        pytest.param(samples([-1.0]), "row 2: -1.0", id="negative"),
        pytest.param(samples([11.4, 83_000.0, 34.0]), "row 3: 83000 with 2 workers", id="ms"),
        pytest.param(samples([11.4, 22.8, 0.034]), "row 4: 0.034 with 3 workers", id="thousand"),
        pytest.param(samples([83_000_000.0]), "at most 1e\\+06", id="absurd"),
        pytest.param(samples([11.4], bytes=[7.4]), "column bytes, row 2: 7.4", id="megabytes"),
        pytest.param(
            samples([11.4, 22.8, 34.0], bytes=[7_430_888, 7_430, 7_430_888]),
            "column bytes, row 3: 7430 where other rows of res32",
            id="mixed sizes",
        ),
        pytest.param(samples([11.4], workers=[0]), "column workers, row 2: 0", id="no workers"),
        pytest.param(samples([11.4], workers=[1.5]), "is not a whole number", id="half a worker"),
        pytest.param(samples([11.4], servers=[0]), "column servers, row 2: 0", id="no servers"),
        pytest.param(samples([11.4], gpu=["-"]), "column gpu, row 2: empty", id="no GPU"),
        pytest.param(
            samples([11.4], workload=[" "]), "column workload, row 2: empty", id="no name"
        ),
        pytest.param(samples(["fast"]), "row 2: 'fast' is not a number", id="words"),
    ],
)
def test_samples_without_sense_are_refused_by_column_and_row(table: Table, complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        parameter_server.fit(table)


def test_a_missing_column_is_named() -> None:
    table = samples([11.4])
    cells = {name: values for name, values in table.cells.items() if name != "servers"}

    with pytest.raises(DataError, match="no column servers"):
        parameter_server.fit(Table(cells, table.rows))


def test_samples_are_put_in_order_and_averaged() -> None:
    clusters = Clusters.of(samples([40.0, 10.0, 90.0], workers=[2, 1, 2]))

    assert clusters.workers.tolist() == [1, 2]
    assert clusters.speed == pytest.approx([10.0, 60.0])


@pytest.mark.parametrize(
    "names",
    [
        pytest.param([("K80", "res32"), ("P100", "shakebig")], id="GPU and workload known apart"),
        pytest.param([("K80", ""), ("P100", "")], id="GPU type"),
        pytest.param([("", "res15"), ("", "shakesmall")], id="workload"),
    ],
)
def test_an_interval_about_what_was_never_sampled_is_honest(names: list[tuple[str, str]]) -> None:
    inside: list[bool] = []
    for gpu, workload in names:
        held = np.isin(MEASURED.texts(GPU), [gpu] if gpu else ["K80", "P100"])
        held &= (MEASURED.texts(WORKLOAD) == workload) | (workload == "")
        asked = MEASURED.take(held)
        answer = parameter_server.fit(MEASURED.take(~held)).predict(asked)
        assert answer.beyond.all()
        inside.extend((answer.low <= asked.numbers(SPEED)) & (asked.numbers(SPEED) <= answer.high))

    assert np.mean(inside) >= 0.9


def test_a_known_gpu_type_brings_its_speed_to_a_workload_measured_on_another() -> None:
    held = (MEASURED.texts(GPU) == "P100") & (MEASURED.texts(WORKLOAD) == "res32")
    asked = MEASURED.take(held)

    found = parameter_server.fit(MEASURED.take(~held)).predict(asked).value

    assert np.abs(found / asked.numbers(SPEED) - 1).mean() < 0.25


def test_the_less_is_known_of_a_series_the_wider_is_its_interval(model: ParameterServer) -> None:
    rows = [ask(), ask(servers=3), ask("V100"), ask(workload="new")]
    known, servers, gpu, workload = (
        float((model.predict(row).high / model.predict(row).low)[0]) for row in rows
    )

    assert known < servers < gpu
    assert known < workload


def test_nothing_held_out_says_that_a_new_gpu_type_may_be_ten_times_as_fast() -> None:
    found = parameter_server.fit(samples([11.4, 22.8])).predict(ask("V100"))

    assert found.high / found.value == pytest.approx([10.0])
