"""The list of what a first step pulls in: what is taken for one, and where it is kept."""

from pathlib import Path

import msgspec
import pytest

from ebbtide.runtime import needs
from ebbtide.runtime.needs import Needs
from ebbtide.wire import names


def make(**changes: object) -> Needs:
    given = {"found_with": needs.versions(), "modules": ("json",), "sources": ("/a.py",)}
    return msgspec.convert({**given, **changes}, Needs)


def test_a_list_comes_back_from_where_it_was_kept(tmp_path: Path) -> None:
    where = [tmp_path / "image" / "preload.json", tmp_path / "volume" / "preload.json"]

    assert needs.store(make(), where) == where

    assert needs.load(where[1:]) == make()
    assert [path.name for path in where[0].parent.iterdir()] == ["preload.json"]


def test_a_place_that_takes_nothing_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    where = [tmp_path / "file" / "preload.json", tmp_path / "preload.json"]

    assert needs.store(make(), where) == where[1:]
    assert needs.load(where) == make()


def test_nothing_is_kept_where_nothing_was_stored(tmp_path: Path) -> None:
    assert needs.load([tmp_path / "preload.json"]) is None


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"[1, 2", id="cut short"),
        pytest.param(b'{"found_with": 1, "modules": [], "sources": []}', id="other types"),
        pytest.param(b'{"found_with": "", "modules": [7], "sources": []}', id="no names"),
        pytest.param(b" " * (needs.MAX_BYTES + 1), id="too long"),
        pytest.param(needs.encode(make(found_with="python 2.7")), id="other versions"),
    ],
)
def test_what_is_no_list_of_these_versions_is_refused_and_passed_over(
    data: bytes, tmp_path: Path
) -> None:
    (tmp_path / "first").write_bytes(data)
    needs.store(make(), [tmp_path / "second"])

    with pytest.raises(ValueError, match=r"."):
        needs.decode(data)
    assert needs.load([tmp_path / "first", tmp_path / "second"]) == make()


@pytest.mark.parametrize(
    ("checkpoints", "last"),
    [
        pytest.param("/checkpoints", "/checkpoints/.preload.json", id="mounted"),
        pytest.param("s3://bucket/key", None, id="no folder"),
        pytest.param("", None, id="unknown"),
    ],
)
def test_a_list_is_kept_in_the_image_and_on_the_jobs_volume(
    checkpoints: str, last: str | None
) -> None:
    image, *volume = needs.places({names.ENV_CHECKPOINT_PATH: checkpoints})

    assert image.parts[-3:] == ("share", "ebbtide", "preload.json")
    assert [str(path) for path in volume] == ([] if last is None else [last])
