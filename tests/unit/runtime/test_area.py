"""The memory that a state is copied into."""

import os

import pytest
import torch

from ebbtide.runtime import area
from ebbtide.runtime.area import Area
from ebbtide.runtime.layouts import lay_out


def test_a_copy_is_what_was_there_and_stays_so() -> None:
    tree = {"a": torch.arange(5), "b": torch.ones(2, 3).t(), "c": torch.zeros(0), "d": 1.5}
    layout, tensors = lay_out(tree)
    made = Area(layout.slots, num_bytes=layout.num_bytes)

    area.copy(zip(tensors, made.parts(), strict=True))
    before = [tensor.clone() for tensor in tensors]
    for tensor in tensors:
        tensor.zero_()

    assert all(map(torch.equal, made.parts(), before))


def test_the_file_is_the_header_and_then_the_tensors() -> None:
    layout, tensors = lay_out({"a": torch.arange(4, dtype=torch.uint8)})
    made = Area(layout.slots, num_bytes=layout.num_bytes)
    area.copy(zip(tensors, made.parts(), strict=True))

    made.put_header(layout)

    file = b"".join(os.pread(made.memory, end - start, start) for start, end in made.ranges())
    assert file == layout.preface + bytes([0, 1, 2, 3])
    assert len(layout.preface) % 64 == 0


def test_a_header_of_another_length_takes_the_place_of_the_last() -> None:
    small, tensors = lay_out({"a": torch.arange(4), "note": ""})
    large, _ = lay_out({"a": torch.arange(4), "note": "x" * 1000})
    made = Area(small.slots, num_bytes=small.num_bytes)
    made.populate()
    area.copy(zip(tensors, made.parts(), strict=True))

    for layout in (large, small):
        made.put_header(layout)
        start, end = made.ranges()[0]
        assert os.pread(made.memory, end - start, start) == layout.preface
        assert os.fstat(made.memory).st_size == end


@pytest.mark.parametrize(
    ("other", "fits"),
    [
        pytest.param({"a": torch.zeros(4), "rate": 0.2}, True, id="other numbers"),
        pytest.param({"a": torch.zeros(5), "rate": 0.1}, False, id="another shape"),
        pytest.param({"a": torch.zeros(4, dtype=torch.half)}, False, id="another type"),
        pytest.param({"b": torch.zeros(4)}, False, id="another name"),
    ],
)
def test_an_area_fits_states_of_the_same_tensors(other: dict[str, object], *, fits: bool) -> None:
    layout, _ = lay_out({"a": torch.ones(4), "rate": 0.1})

    assert Area(layout.slots, num_bytes=layout.num_bytes).fits(lay_out(other)[0]) is fits
