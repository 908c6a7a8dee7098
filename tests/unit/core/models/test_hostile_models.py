"""Stored models whose checksum fits and whose parameters no fit wrote: an error, or an answer."""

import copy
import json
import random
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, TypeAlias

import numpy as np
import pytest

from ebbtide.core.models import kinds, stored
from ebbtide.core.models.kinds import Kind
from ebbtide.core.models.stored import StoredModelError
from ebbtide.core.models.table import DataError, Table

Path: TypeAlias = tuple[str | int, ...]

VALUES: Final[tuple[Any, ...]] = (
    0,
    -1.0,
    1e308,
    -1e308,
    1e-320,
    10**400,
    True,
    None,
    "x",
    "9" * 400,
    [],
    {},
    [1.0],
)
MOST: Final = 24
"""Places that are changed in one model; fewer where it is large, and reading it slow."""
LARGE: Final = 100_000

NAMES: Final = ["a", "b", "c", "d"] * 3
NUMBERS: Final = np.arange(1.0, 13.0)
SAMPLES: Final[dict[str, Table]] = {
    "step-time": Table.of(
        gpu=["K80"] * 6 + ["P100"] * 6,
        workload=NAMES,
        flops=[1e9, 2e9, 3e9, 4e9] * 3,
        tensors=[10, 30, 20, 40] * 3,
        params=[1e6, 2e6, 3e6, 4e6] * 3,
        local_batch=[8] * 4 + [16] * 8,
        step_time_s=0.02 * NUMBERS,
    ),
    "all-reduce": Table.of(
        system=["s"] * 12,
        gpus_per_node=[4] * 12,
        nodes=[1, 2] * 6,
        nic_gbps=[100] * 12,
        bytes=1e6 * 2**NUMBERS,
        time_s=1e-3 * 2**NUMBERS,
    ),
    "iteration": Table.of(
        workload=["a"] * 12,
        placement=["1", "2", "1-1", "2-2"] * 3,
        local_batch=[8] * 4 + [16] * 4 + [32] * 4,
        step_time_s=0.1 + 0.01 * NUMBERS,
        sync_time_s=[0, 0.01, 0.02, 0.03] * 3,
    ),
    "parameter-server": Table.of(
        gpu=["K80"] * 6 + ["P100"] * 6,
        workload=NAMES,
        workers=[1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3],
        servers=[1] * 12,
        bytes=[1e6, 2e6, 3e6, 4e6] * 3,
        steps_per_s=NUMBERS,
    ),
    "checkpoint": Table.of(
        workload=NAMES,
        size_mb=[1, 3, 2, 4] * 3,
        tensors=[5, 5, 8, 9] * 3,
        duration_s=[1, 3, 2, 4] * 3,
    ),
    "lifetime": Table.of(
        pool=NAMES,
        zone=["x", "y"] * 6,
        gpu=["K80"] * 12,
        start_hour=NUMBERS,
        lifetime_h=NUMBERS,
        revoked=[1] * 11 + [0],
    ),
}
CASES: Final = [(name, method) for name in kinds.MODULES for method in kinds.find(name).methods]


@cache
def written(name: str, method: str) -> str:
    kind = kinds.find(name)
    return json.dumps(stored.seal(name, kind.methods[method](SAMPLES[name])))


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every place of some JSON; the first and last of a list stand for all of it."""
    yield path
    if isinstance(value, dict):
        for name, item in value.items():
            # what is inside of trees is the library's, which checks it
            yield from places(item, (*path, name)) if name != "trees" else ()
    elif isinstance(value, list):
        for index in {0, len(value) - 1} if value else ():
            yield from places(value[index], (*path, index))


def change(model: dict[str, Any], path: Path, value: object) -> object:
    """Return the model with another value at a place, and a checksum that fits it."""
    changed = copy.deepcopy(model)
    inner: Any = changed
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    body = {name: item for name, item in changed.items() if name != "checksum"}
    return stored.parse(json.dumps({**body, "checksum": stored._checksum(body)}))


def answer(kind: Kind, hostile: object) -> bool:
    """Whether a model was believed; what it then says must be in order."""
    try:
        found = kind.ask(kind.from_json(hostile), SAMPLES[kind.name])
    except (StoredModelError, DataError):
        return False
    assert (found.low > 0).all()
    assert (found.low <= found.value).all()
    assert (found.value <= found.high).all()
    assert np.isfinite(found.high).all()
    return True


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("name", "method"), CASES)
def test_parameters_that_no_fit_wrote_give_an_error_or_an_answer_in_order(
    name: str, method: str
) -> None:
    model = json.loads(written(name, method))
    most = MOST // 6 if len(written(name, method)) > LARGE else MOST
    found = [path for path in places(model) if path[:1] in {("parameters",), ("quality",)}]
    chance = random.Random(1)
    for path in chance.sample(found, min(len(found), most)):
        for value in chance.sample(VALUES, 3):
            answer(kinds.find(name), change(model, path, value))


@pytest.mark.parametrize(("name", "method"), CASES)
def test_every_method_comes_back_from_json_and_answers_the_same(name: str, method: str) -> None:
    kind = kinds.find(name)
    model = kind.methods[method](SAMPLES[name])
    again = kind.from_json(stored.parse(written(name, method)))

    assert stored.seal(name, again) == json.loads(written(name, method))
    assert (again.predict(SAMPLES[name]).value == model.predict(SAMPLES[name]).value).all()


def test_an_answer_that_is_none_names_its_row_and_says_what_to_do() -> None:
    kind = kinds.find("checkpoint")
    hostile = change(
        json.loads(written("checkpoint", "linear")), ("parameters", "seen", "floor_s"), 1e300
    )

    with pytest.raises(StoredModelError, match=r"row 2: the model has no sensible .*: fit it anew"):
        kind.ask(kind.from_json(hostile), SAMPLES["checkpoint"])
