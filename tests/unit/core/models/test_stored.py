"""A stored model is checksummed JSON of one version; everything else is refused by name."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from ebbtide.core.models import kinds, stored
from ebbtide.core.models.stored import Model, StoredModelError
from ebbtide.core.models.table import Table
from support.plain_model import PLAIN

TABLE = Table.of(workload=["a", "a", "b"], seconds=[0.1, 0.2, 1 / 3])


def sealed() -> dict[str, Any]:
    return stored.seal("plain", PLAIN.methods["means"](TABLE))


def written(**changes: object) -> dict[str, Any]:
    """A stored model with other fields and a checksum that fits them."""
    body = {name: value for name, value in (sealed() | changes).items() if name != "checksum"}
    return {**body, "checksum": stored._checksum(body)}


def test_a_model_comes_back_as_it_was_to_the_last_bit() -> None:
    model = PLAIN.methods["means"](TABLE)

    again = PLAIN.from_json(stored.parse(json.dumps(stored.seal("plain", model))))

    assert again == model
    assert isinstance(again, Model)
    assert (again.predict(TABLE).value == model.predict(TABLE).value).all()


def test_b088_a_model_of_another_version_is_refused() -> None:
    for version in (0, 1, 99, "2", None):
        with pytest.raises(StoredModelError, match=f"version {version}, this reads version 2"):
            PLAIN.from_json(written(version=version))


def test_b088_a_truncated_model_is_refused() -> None:
    text = json.dumps(sealed())

    for length in (0, 1, len(text) // 2, len(text) - 1):
        with pytest.raises(StoredModelError, match="no JSON"):
            stored.parse(text[:length])


@pytest.mark.parametrize("other", [{}, [], "model", 3, None, {"version": 1, "method": "means"}])
def test_b088_a_model_without_metadata_is_refused(other: object) -> None:
    with pytest.raises(StoredModelError, match="no stored model"):
        PLAIN.from_json(other)


class Trap:
    """Runs code when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.mark,))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_b088_a_pickle_is_refused_and_nothing_in_it_runs(tmp_path: Path, protocol: int) -> None:
    mark = tmp_path / "it-ran"
    text = pickle.dumps(Trap(mark), protocol=protocol).decode("latin-1")

    with pytest.raises(StoredModelError, match="no JSON"):
        stored.parse(text)
    with pytest.raises(StoredModelError):
        PLAIN.from_json(text)

    assert not mark.exists()


def test_b088_one_changed_figure_is_damage() -> None:
    model = sealed()
    model["parameters"]["means"]["a"] *= 1.0000001

    with pytest.raises(StoredModelError, match="checksum does not fit"):
        PLAIN.from_json(model)


def test_a_model_without_its_checksum_is_damaged() -> None:
    model = sealed()
    del model["checksum"]

    with pytest.raises(StoredModelError, match="checksum"):
        PLAIN.from_json(model)


def test_a_model_of_another_kind_says_which_is_wanted() -> None:
    with pytest.raises(StoredModelError, match="a lifetime model; plain is wanted"):
        PLAIN.from_json(written(ebbtide="lifetime"))


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"quality": {}}, id="empty quality"),
        pytest.param({"quality": None}, id="no quality"),
        pytest.param({"quality": {"samples": "many"}}, id="wrong quality"),
        pytest.param({"parameters": None}, id="no parameters"),
        pytest.param({"parameters": [1, 2]}, id="list of parameters"),
        pytest.param({"parameters": {}}, id="empty parameters"),
        pytest.param({"parameters": {"means": 3, "overall": 1}}, id="wrong shape"),
        pytest.param({"parameters": {"means": {}, "overall": "x"}}, id="no number"),
    ],
)
def test_a_whole_file_with_other_fields_is_refused_too(changes: dict[str, object]) -> None:
    with pytest.raises(StoredModelError, match=r"field is missing|are not those of plain"):
        PLAIN.from_json(written(**changes))


def test_the_complaint_of_a_model_about_its_parameters_is_kept() -> None:
    def read(*_: object) -> Model:
        raise StoredModelError("made for sailing boats")

    picky = kinds.Kind(
        name="plain",
        inputs=PLAIN.inputs,
        target=PLAIN.target,
        group=PLAIN.group,
        methods=PLAIN.methods,
        read=read,
    )

    with pytest.raises(StoredModelError, match=r"^made for sailing boats$"):
        picky.from_json(sealed())


@pytest.mark.parametrize("text", ['{"a": NaN}', "[Infinity]", "-Infinity", "[" * 100_000])
def test_what_json_does_not_know_is_refused(text: str) -> None:
    with pytest.raises(StoredModelError, match="no JSON"):
        stored.parse(text)


@pytest.mark.parametrize("value", [np.nan, np.inf, np.float32(1), b"x"])
def test_a_model_that_is_no_plain_json_is_never_sealed(value: object) -> None:
    model = read_with(value)

    with pytest.raises(StoredModelError, match="plain, finite JSON"):
        stored.seal("plain", model)


def read_with(value: object) -> Model:
    fitted = PLAIN.methods["means"](TABLE)
    means: Any = {"a": value}
    return PLAIN.read("means", fitted.quality, {"means": means, "overall": 1.0})
