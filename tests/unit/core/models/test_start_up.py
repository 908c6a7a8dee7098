"""How long nodes and training processes take to start, by stage and pool."""

import json
from pathlib import Path

import numpy as np
import pytest

from ebbtide.core.models import start_up
from ebbtide.core.models.start_up import KIND, NODE_STAGES, StartUpModel
from ebbtide.core.models.stored import seal
from ebbtide.core.models.table import DataError, Table
from ebbtide.data.shapes import cm_dare

DATA = Path(__file__).resolve().parents[3] / "data" / "cm-dare"
STARTS = cm_dare.read_start_ups(
    {
        path.stem: path.read_text(encoding="utf-8")
        for path in sorted((DATA / "raw" / "startup_time").glob("*.csv"))
    }
)
REPLACEMENTS = cm_dare.read_replacements(
    (DATA / "derived" / "worker_replacement.csv").read_text(encoding="utf-8")
)
MEASURED = {
    "pre_east_k80": (1.58, 41.35, 37.73),
    "pre_east_p100": (1.72, 48.78, 41.38),
    "pre_west_k80": (2.01, 43.52, 40.30),
    "pre_west_p100": (2.17, 48.11, 40.10),
    "on_demand_east_k80": (2.44, 32.75, 40.37),
    "on_demand_east_p100": (1.49, 28.52, 40.33),
    "on_demand_west_k80": (2.14, 27.92, 38.56),
    "on_demand_west_p100": (1.92, 28.49, 38.77),
}


def mean(table: Table, pool: str, stage: str) -> float:
    here = (table.texts(start_up.POOL) == pool) & (table.texts(start_up.STAGE) == stage)
    return float(table.take(here).numbers(start_up.SECONDS).mean())


def samples(*rows: tuple[str, str, object]) -> Table:
    pool, stage, seconds = zip(*rows, strict=True)
    return Table.of(pool=pool, stage=stage, seconds=seconds)


def node(pool: str) -> dict[str, str]:
    return dict.fromkeys(NODE_STAGES, pool)


def test_check_18_means_of_stages() -> None:
    for pool, expected in MEASURED.items():
        found = [mean(STARTS, pool, stage) for stage in NODE_STAGES]
        assert found == pytest.approx(expected, abs=0.01)
        assert found[0] < 3


def test_check_18_staging_is_what_spot_nodes_wait_for() -> None:
    for place in ("east_k80", "east_p100", "west_k80", "west_p100"):
        more = [
            mean(STARTS, f"pre_{place}", stage) - mean(STARTS, f"on_demand_{place}", stage)
            for stage in NODE_STAGES
        ]
        assert max(more) == more[1]


def test_check_19_a_cold_start_costs_a_minute_more_than_a_warm_one() -> None:
    names = ("res15", "res32", "shakesmall", "shakebig")
    warm = [mean(REPLACEMENTS, name, "warm") for name in names]
    cold = [mean(REPLACEMENTS, name, "cold") for name in names]

    assert all(59.5 < c - w < 61.0 for c, w in zip(cold, warm, strict=True))
    assert warm == sorted(warm)


def test_a_pool_with_many_samples_answers_by_its_own_mean() -> None:
    model = start_up.fit(STARTS)

    for pool, expected in MEASURED.items():
        found = model.total(node(pool))
        assert found.value == pytest.approx(sum(expected), rel=0.03)
        assert found.low < sum(expected) < found.high
        assert not found.beyond


def test_a_new_pool_is_the_mean_of_all_with_a_wider_interval() -> None:
    model = start_up.fit(STARTS)

    new, known = model.total(node("asia_v100")), model.total(node("pre_west_k80"))

    assert new.beyond
    assert 68 < new.value < 92
    assert new.high / new.low > 1.2 * known.high / known.low


def test_pools_never_seen_lie_in_the_interval_nine_times_of_ten() -> None:
    quality = start_up.fit(STARTS).quality

    assert quality.samples == 300
    assert quality.split == "leave-one-out:pool"
    assert quality.coverage is not None
    assert 0.85 <= quality.coverage <= 0.96


def test_few_samples_are_drawn_towards_the_stage() -> None:
    others = [(f"p{n}", "staging", 40 + n) for n in range(5) for _ in range(10)]

    once = start_up.fit(samples(*others, ("new", "staging", 80)))
    often = start_up.fit(samples(*others, *[("new", "staging", 80)] * 10))

    def value(model: StartUpModel) -> float:
        return model.total({"staging": "new"}).value

    assert 42 < value(once) < value(often) <= 80.1


def test_a_whole_replacement_is_the_sum_of_node_and_process() -> None:
    model = start_up.fit(
        Table.of(
            **{
                name: [*STARTS.cells[name], *REPLACEMENTS.cells[name]]
                for name in ("pool", "stage", "seconds")
            }
        )
    )

    cold = model.total({**node("pre_east_k80"), "cold": "res32"})
    warm = model.total([("warm", "res32")])

    assert cold.value == pytest.approx(80.65 + 78.7, rel=0.02)
    assert warm.value == pytest.approx(19.0, rel=0.02)
    assert cold.low < cold.value < cold.high


def test_one_row_knows_little() -> None:
    model = start_up.fit(samples(("a", "booting", 40)))

    own, other = model.total({"booting": "a"}), model.total({"booting": "b"})

    assert own.value == pytest.approx(40, rel=0.06)
    assert own.low < 30
    assert own.high > 55
    assert other.high / other.low > own.high / own.low
    assert model.quality.errors is None


def test_copies_of_one_row_are_no_proof_that_it_is_exact() -> None:
    found = start_up.fit(samples(*[("a", "booting", 40)] * 30)).total({"booting": "a"})

    assert found.low < 39.6
    assert found.high > 40.4


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        pytest.param(("a", "booting", 0), "column seconds, row 2: 0 is not", id="zero"),
        pytest.param(("a", "booting", -3), "column seconds, row 2: -3 is not", id="negative"),
        pytest.param(("a", "booting", "nan"), "column seconds, row 2: 'nan'", id="NaN"),
        pytest.param(("a", "booting", 90_000), "at most 86400", id="more than a day"),
        pytest.param(("", "booting", 3), "column pool, row 2: empty", id="no pool"),
    ],
)
def test_samples_without_sense_are_refused(row: tuple[str, str, object], complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        start_up.fit(samples(row))


def test_a_stage_never_measured_is_refused() -> None:
    model = start_up.fit(STARTS)

    with pytest.raises(DataError, match="row 2: 'dancing' is unknown; measured were: prov"):
        model.total({"dancing": "pre_east_k80"})


def test_a_model_comes_back_from_json_as_it_was() -> None:
    model = start_up.fit(STARTS)
    text = json.dumps(seal(KIND.name, model), allow_nan=False)

    again = KIND.from_json(json.loads(text))

    assert json.dumps(seal(KIND.name, again)) == text
    assert isinstance(again, StartUpModel)
    assert again.total(node("pre_east_k80")) == model.total(node("pre_east_k80"))


def test_forecasts_come_row_by_row() -> None:
    found = start_up.fit(STARTS).predict(
        Table.of(pool=["pre_east_k80", "new"], stage=["booting", "booting"])
    )

    assert found.beyond.tolist() == [False, True]
    assert np.all(found.low < found.value)
    assert np.all(found.value < found.high)
