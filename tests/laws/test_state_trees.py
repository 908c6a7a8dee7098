"""State goes through bytes and comes back the same; damage is an error, never a crash."""

import math
from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.runtime.trees import (
    Packed,
    TreeError,
    copy_tree,
    measure,
    num_bytes,
    pack,
    tensors_of,
    unpack,
)

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
DTYPES = st.sampled_from([torch.float32, torch.float64, torch.int64, torch.bool, torch.bfloat16])


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

    assert measure(packed.header) == packed.flat.numel()
    assert equal(unpack(packed), tree)


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
    except TreeError:
        return


def test_counters_stay_counters() -> None:
    assert unpack(pack({"milestones": Counter({5: 1})}))["milestones"] == Counter({5: 1})


@pytest.mark.parametrize("header", [b"", b"[]", b'{"bytes": -1}', b'{"bytes": "x"}', b"\xff"])
def test_a_header_without_a_size_is_refused(header: bytes) -> None:
    with pytest.raises(TreeError):
        measure(header)


def test_a_tensor_outside_of_the_buffer_is_refused() -> None:
    header = b'{"bytes": 64, "tree": ["x", "float32", [1000], 0]}'

    with pytest.raises(TreeError, match="outside of 64"):
        unpack(Packed(header=header, flat=torch.zeros(64, dtype=torch.uint8)))


@pytest.mark.parametrize(
    ("tree", "place"),
    [
        pytest.param({"a": {"b": object()}}, r"state\['a'\]\['b'\] is a object", id="object"),
        pytest.param({"a": [1, {2}]}, r"state\['a'\]\[1\] is a set", id="set"),
        pytest.param({("t",): 1}, "key of type tuple", id="key"),
        pytest.param(
            {"s": torch.zeros(2, 2).to_sparse()}, r"state\['s'\] is a tensor", id="sparse"
        ),
    ],
)
def test_what_cannot_be_said_is_named_with_its_place(tree: Any, place: str) -> None:
    with pytest.raises(TreeError, match=place):
        pack(tree)
