"""State goes through bytes and comes back the same; damage is an error, never a crash."""

import math
from collections import Counter
from typing import Any

import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.runtime.layouts import LayoutError, lay_out, outline, read_header, read_prefix
from ebbtide.runtime.trees import copy_tree, num_bytes, tensors_of
from support.packing import Packed, pack, unpack

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
DTYPES = st.sampled_from(
    [torch.float32, torch.float64, torch.int64, torch.bool, torch.bfloat16, torch.complex64]
)


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    return torch.arange(math.prod(shape)).reshape(shape).to(draw(DTYPES))


TREES = st.recursive(
    SCALARS | tensors(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=4)
    ),
    max_leaves=12,
)


def equal(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        same = list(one) == list(other)
        return same and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, float) and math.isnan(one):
        return math.isnan(other)
    return bool(one == other)


@given(tree=TREES)
def test_what_is_packed_is_unpacked_the_same(tree: Any) -> None:
    packed = pack(tree)

    assert equal(unpack(packed), tree)


@given(tree=TREES)
def test_what_is_packed_is_what_safetensors_reads(tree: Any) -> None:
    packed = pack(tree)
    layout, tensors = lay_out(tree)

    read = safetensors.torch.load(layout.preface + packed.flat.numpy().tobytes())

    assert set(read) == {slot.name for slot in layout.slots}
    for slot, tensor in zip(layout.slots, tensors, strict=True):
        assert equal(read[slot.name], tensor)


@given(tree=TREES)
def test_an_outline_is_the_tree_without_its_tensors(tree: Any) -> None:
    seen = outline(read_header(pack(tree).header))

    assert tensors_of(seen) == []
    if isinstance(tree, dict):
        assert list(seen) == list(tree)


@given(tree=TREES)
def test_a_copy_is_equal_and_shares_nothing(tree: Any) -> None:
    copied = copy_tree(tree)

    assert equal(copied, tree)
    assert num_bytes(copied) == num_bytes(tree)
    assert not {id(each) for each in tensors_of(copied)} & {id(each) for each in tensors_of(tree)}


@given(tree=TREES, place=st.integers(0, 10_000), value=st.integers(0, 255))
def test_a_damaged_header_gives_a_tree_or_an_error_of_ours(
    tree: Any, place: int, value: int
) -> None:
    packed = pack(tree)
    damaged = bytearray(packed.header)
    damaged[place % len(damaged)] = value

    try:
        unpack(Packed(header=bytes(damaged), flat=packed.flat))
    except LayoutError:
        return


def test_counters_stay_counters() -> None:
    assert unpack(pack({"milestones": Counter({5: 1})}))["milestones"] == Counter({5: 1})


META = b'"__metadata__": {"ebbtide": "[\\"v\\", 1]"}'


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"{}", id="no metadata"),
        pytest.param(b"\xff", id="no text"),
        pytest.param(b'{"__metadata__": {"ebbtide": "["}}', id="half a description"),
        pytest.param(b"[" * 60_000, id="deep"),
        pytest.param(
            b'{%s, "x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}' % META,
            id="too small a place",
        ),
        pytest.param(
            b'{%s, "x": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}}' % META,
            id="a gap",
        ),
        pytest.param(
            b'{%s, "x": {"dtype": "F32", "shape": [-2], "data_offsets": [0, -8]}}' % META,
            id="a negative shape",
        ),
        pytest.param(
            b'{%s, "x": {"dtype": "F99", "shape": [2], "data_offsets": [0, 8]}}' % META,
            id="no such type",
        ),
        pytest.param(
            b'{%s, "x": {"dtype": "F32", "shape": [true], "data_offsets": [0, 4]}}' % META,
            id="a shape of truth",
        ),
    ],
)
def test_a_header_that_cannot_be_true_is_refused(header: bytes) -> None:
    with pytest.raises(LayoutError):
        read_header(header)


@pytest.mark.parametrize("prefix", [b"", b"\0" * 8, b"\xff" * 8, b"\1" * 7])
def test_a_length_that_cannot_be_is_refused(prefix: bytes) -> None:
    with pytest.raises(LayoutError, match="header of"):
        read_prefix(prefix)


def test_names_that_would_meet_are_kept_apart() -> None:
    tree = {"a": {"b": torch.zeros(1)}, "a.b": torch.ones(1), "__metadata__": torch.ones(2)}

    layout, _ = lay_out(tree)

    assert {slot.name for slot in layout.slots} == {"a.b", "a.b#2", "__metadata__#2"}
    assert equal(unpack(pack(tree)), tree)


def test_views_that_are_not_contiguous_keep_their_order() -> None:
    tree = {"t": torch.arange(12).reshape(3, 4).t()}

    assert equal(unpack(pack(tree)), tree)


@pytest.mark.parametrize(
    ("tree", "place"),
    [
        pytest.param({"a": {"b": object()}}, r"a\.b is a object", id="object"),
        pytest.param({"a": [1, {2}]}, r"a\.1 is a set", id="set"),
        pytest.param({("t",): 1}, "key of type tuple", id="key"),
        pytest.param({"s": torch.zeros(2, 2).to_sparse()}, r"s is a tensor", id="sparse"),
    ],
)
def test_what_cannot_be_said_is_named_with_its_place(tree: Any, place: str) -> None:
    with pytest.raises(LayoutError, match=place):
        pack(tree)
