"""Laws of step time, checkpoint and start-up models, for whatever samples."""

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.core.models import checkpoint, start_up, step_time
from ebbtide.core.models.batch_curve import Curve, fit_curve
from ebbtide.core.models.stored import seal
from ebbtide.core.models.table import DataError, Table

GPUS = ("A", "B")
FEW = settings(max_examples=25)  # a fit takes tens of milliseconds


@st.composite
def samples(draw: st.DrawFn) -> Table:
    """A few workloads on one or two GPU types; times spread around what work would cost."""
    rows = []
    for number in range(draw(st.integers(1, 7))):
        flops = draw(st.floats(1e8, 1e11))
        tensors = draw(st.integers(1, 500))
        for gpu in draw(st.sampled_from([GPUS, GPUS[:1], GPUS[1:]])):
            for batch in draw(st.lists(st.sampled_from([8, 16, 32, 64]), min_size=1, max_size=4)):
                luck = draw(st.floats(0.3, 3))
                seconds = luck * (1e-3 + flops * batch / 2e12 + 2e-4 * tensors)
                rows.append((gpu, f"w{number}", flops, 1e6, tensors, batch, seconds))
    columns = ("gpu", "workload", "flops", "params", "tensors", "local_batch", "step_time_s")
    return Table.of(**dict(zip(columns, zip(*rows, strict=True), strict=True)))


def asked(table: Table, *, workload: str, flops: list[float], batch: int = 16) -> Table:
    number = len(flops)
    return Table.of(
        gpu=[table.cells["gpu"][0]] * number,
        workload=[workload] * number,
        flops=flops,
        params=[1e6] * number,
        tensors=[50] * number,
        local_batch=[batch] * number,
    )


@FEW
@given(
    table=samples(),
    flops=st.lists(st.floats(1e6, 1e14), min_size=2, max_size=6),
    workload=st.sampled_from(["new", "w0", "w1"]),
    batch=st.sampled_from([1, 16, 48, 4096]),
)
def test_more_flops_are_never_faster(
    table: Table, flops: list[float], workload: str, batch: int
) -> None:
    model = step_time.KIND.methods["physical"](table)

    found = model.predict(asked(table, workload=workload, flops=sorted(flops), batch=batch))

    assert np.all(np.diff(found.value) >= -1e-9 * found.value[1:])


@FEW
@given(
    table=samples(),
    flops=st.lists(st.floats(1e6, 1e14), min_size=1, max_size=6),
    workload=st.sampled_from(["new", "w0", "w1"]),
    method=st.sampled_from(list(step_time.KIND.methods)),
)
def test_step_times_are_positive_inside_their_interval_and_come_back_from_json(
    table: Table, flops: list[float], workload: str, method: str
) -> None:
    known = dict.fromkeys(table.cells["gpu"], "A100")  # the agnostic ones need a peak
    table = Table(
        {**table.cells, "gpu": np.array([known[g] for g in table.cells["gpu"]], dtype=object)},
        table.rows,
    )
    try:
        model = step_time.KIND.methods[method](table)
    except DataError as error:
        assert "needs two workloads" in str(error)  # noqa: PT017 -- a stated refusal is an answer
        return
    questions = asked(table, workload=workload, flops=flops)

    found = model.predict(questions)
    again = step_time.KIND.from_json(json.loads(json.dumps(seal("step-time", model))))

    assert np.all(np.isfinite(found.value) & (found.value > 0))
    assert np.all((found.low <= found.value) & (found.value <= found.high))
    assert np.array_equal(again.predict(questions).value, found.value)
    assert seal("step-time", again) == seal("step-time", model)


@given(
    points=st.lists(st.tuples(st.integers(1, 4096), st.floats(1e-4, 1e3)), min_size=1, max_size=12),
    batch=st.lists(st.floats(0.5, 1e5), min_size=1, max_size=20),
)
def test_a_curve_is_positive_for_any_batch(
    points: list[tuple[int, float]], batch: list[float]
) -> None:
    curve = fit_curve(*(np.array(part, dtype=np.float64) for part in zip(*points, strict=True)))

    found = curve.at(np.array(batch))

    assert np.all(np.isfinite(found) & (found > 0))
    assert Curve.from_json(json.loads(json.dumps(curve.to_json()))) == curve


@FEW
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from("abcdefg"), st.floats(1, 1e4), st.integers(1, 900), st.floats(1, 50)
        ),
        min_size=1,
        max_size=15,
    ),
    sizes=st.lists(st.floats(1e-3, 1e6), min_size=2, max_size=8),
    method=st.sampled_from(list(checkpoint.KIND.methods)),
)
def test_checkpoints_take_positive_time_and_larger_ones_no_less_of_it(
    rows: list[tuple[str, float, int, float]], sizes: list[float], method: str
) -> None:
    names = ("workload", "size_mb", "tensors", "duration_s")
    table = Table.of(**dict(zip(names, zip(*rows, strict=True), strict=True)))
    model = checkpoint.KIND.methods[method](table)
    questions = Table.of(size_mb=sorted(sizes), tensors=[20] * len(sizes))

    found = model.predict(questions)
    again = checkpoint.KIND.from_json(json.loads(json.dumps(seal("checkpoint", model))))

    assert np.all(np.isfinite(found.value) & (found.value > 0))
    assert np.all((found.low <= found.value) & (found.value <= found.high))
    assert np.array_equal(again.predict(questions).value, found.value)
    if method.startswith("physical"):
        assert np.all(np.diff(found.value) >= -1e-9 * found.value[1:])


@given(
    rows=st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["x", "y"]), st.floats(0.1, 1e4)),
        min_size=1,
        max_size=20,
    )
)
def test_starts_are_positive_and_lie_inside_their_interval(
    rows: list[tuple[str, str, float]],
) -> None:
    pools, stages, seconds = zip(*rows, strict=True)
    model = start_up.fit(Table.of(pool=pools, stage=stages, seconds=seconds))

    for pool in ("a", "new"):
        found = model.total(dict.fromkeys(set(stages), pool))
        assert 0 < found.low <= found.high < float("inf")
        assert 0 < found.value < float("inf")
    stored = json.loads(json.dumps(seal("start-up", model)))
    assert seal("start-up", start_up.KIND.from_json(stored)) == stored
