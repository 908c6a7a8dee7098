"""What a script's parameters are said to be, and what of it cannot be true."""

from typing import Any

import msgspec
import pytest
import torch
from torch import nn

from ebbtide.runtime.errors import UsageError
from ebbtide.runtime.paramserver.layout import (
    BLOCK,
    CARRIED,
    DENSE,
    FROZEN,
    Layout,
    compare,
    describe,
    find_tables,
    validate,
)


class Net(nn.Module):
    """A table, a dense layer, running statistics and a part that nobody trains."""

    def __init__(self, width: int = 30) -> None:
        super().__init__()
        self.table = nn.Embedding(17, 4, sparse=True)
        self.dense = nn.Linear(width, 50)
        self.norm = nn.BatchNorm1d(50)
        self.frozen = nn.Linear(3, 3)


def layout_of(net: Net, *, rate: float = 0.1) -> Layout:
    trained = [*net.dense.parameters(), *net.norm.parameters()]
    groups: list[dict[str, Any]] = [
        {"params": trained},
        {"params": net.table.parameters(), "lr": 0.5},
    ]
    optimizer = torch.optim.SGD(groups, lr=rate)
    return describe(net, optimizer, tables=find_tables(net), data={"seed": 1})


def test_dense_parameters_lie_end_to_end_and_tables_apart() -> None:
    layout = layout_of(Net())

    names = [entry.name for entry in layout.dense]
    assert names == [
        "dense.weight", "dense.bias", "norm.weight", "norm.bias", "frozen.weight", "frozen.bias",
    ]  # fmt: skip
    assert [entry.start for entry in layout.dense] == [0, 1500, 1550, 1600, 1650, 1659]
    assert layout.dense_size == 1662
    assert [entry.space for entry in layout.tables] == ["table:table.weight"]
    assert layout.spaces == {DENSE: 2, "table:table.weight": 17, CARRIED: 1}
    assert (layout.row_size(DENSE), layout.row_size("table:table.weight")) == (BLOCK, 4)


def test_each_parameter_knows_its_group_and_its_place_in_the_optimizers_state() -> None:
    places = {entry.name: (entry.group, entry.number) for entry in layout_of(Net()).entries}

    assert places["dense.weight"] == (0, 0)
    assert places["norm.bias"] == (0, 3)
    assert places["table.weight"] == (1, 4)
    assert places["frozen.weight"] == (FROZEN, FROZEN)


def test_running_statistics_are_carried_in_their_own_types() -> None:
    buffers = {buffer.name: buffer for buffer in layout_of(Net()).buffers}

    assert buffers["norm.running_mean"].dtype == "float32"
    assert buffers["norm.num_batches_tracked"].dtype == "int64"
    assert all(buffer.start % 64 == 0 for buffer in buffers.values())


def test_what_a_script_says_passes_the_check_and_survives_the_wire() -> None:
    layout = layout_of(Net())

    sent = msgspec.json.decode(msgspec.json.encode(layout), type=Layout)

    assert sent == layout
    assert validate(sent) == ""


def test_other_numbers_than_float32_are_refused_by_name() -> None:
    net = Net()
    net.dense.weight.data = net.dense.weight.data.double()

    with pytest.raises(UsageError, match=r"dense.weight is torch.float64: parameter servers hold"):
        layout_of(net)


def test_an_optimizer_of_another_model_is_refused() -> None:
    stranger = torch.optim.SGD([nn.Parameter(torch.zeros(2))], lr=0.1)

    with pytest.raises(UsageError, match="a parameter that is not the model's"):
        describe(Net(), stranger, tables=set(), data={})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param({"kind": "none"}, "'none' is no optimizer", id="kind"),
        pytest.param({"groups": ({"lr": 1.0},) * 2}, "a group of sgd has other fields", id="group"),
        pytest.param({"groups": ()}, r"group 1 of 0", id="no groups"),
    ],
)
def test_a_description_that_cannot_be_is_told(change: dict[str, object], why: str) -> None:
    layout = msgspec.structs.replace(layout_of(Net()), **change)

    assert why in validate(layout)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param({"shape": (-1,)}, "the shape is [-1]", id="negative"),
        pytest.param({"shape": (1,) * 40}, "the shape is", id="axes"),
        pytest.param({"start": 7}, "it begins at 7 instead of 0", id="start"),
        pytest.param({"group": 9}, "group 9 of 2", id="group"),
        pytest.param({"space": "elsewhere"}, "it is in a space elsewhere", id="space"),
        pytest.param({"shape": (1 << 41,)}, "the shape is", id="too large"),
    ],
)
def test_a_parameter_that_cannot_be_is_told(change: dict[str, object], why: str) -> None:
    layout = layout_of(Net())
    number = next(n for n, entry in enumerate(layout.entries) if entry.name == "dense.weight")
    entries = list(layout.entries)
    entries[number] = msgspec.structs.replace(entries[number], **change)

    found = validate(msgspec.structs.replace(layout, entries=tuple(entries)))

    assert found.startswith("dense.weight: ")
    assert why in found


def test_a_buffer_whose_size_is_not_its_shapes_is_told() -> None:
    layout = layout_of(Net())
    broken = msgspec.structs.replace(layout.buffers[0], size=1 << 50)

    found = validate(msgspec.structs.replace(layout, buffers=(broken,)))

    assert found == f"the buffer norm.running_mean is of {1 << 50} bytes at 0"


def test_two_scripts_that_differ_are_told_with_both_sides() -> None:
    theirs, ours = layout_of(Net()), layout_of(Net(width=31))

    assert compare(theirs, theirs) == ""
    assert compare(theirs, ours) == "dense.weight has the shape [50, 31] here and [50, 30] there"
    other_data = msgspec.structs.replace(theirs, data={"seed": 2})
    assert compare(theirs, other_data) == "the data is {'seed': 2} here and {'seed': 1} there"
    assert "the optimizer is adam here" in compare(
        theirs, msgspec.structs.replace(theirs, kind="adam")
    )


def test_a_rate_that_changes_is_no_other_model() -> None:
    assert compare(layout_of(Net()), layout_of(Net(), rate=0.3)) == ""
