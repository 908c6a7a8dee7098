"""What the loop hands out reads like what data loaders give."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import IterableDataset, TensorDataset
from typing_extensions import override

from ebbtide.runtime.batches import Batch, Shard
from ebbtide.runtime.errors import CollectiveBroken, UsageError

ROWS = np.array([2, 0])


class Records:
    """A data set of mappings."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"ids": torch.tensor([index, index]), "mask": float(index)}


def test_tensors_are_taken_by_row() -> None:
    data = TensorDataset(torch.arange(3) * 10, torch.arange(3))

    batch = Shard(data, seed=0).fetch(ROWS)

    assert batch.x.tolist() == [20, 0]
    assert batch.y.tolist() == [2, 0]
    first, second = batch
    assert (first.tolist(), second.tolist()) == ([20, 0], [2, 0])
    assert len(batch) == 2


def test_mappings_are_collated_and_read_by_key() -> None:
    batch = Shard(Records(), seed=0).fetch(ROWS)

    assert batch["ids"].tolist() == [[2, 2], [0, 0]]
    assert set({**batch.value}) == set(batch.keys()) == {"ids", "mask"}


def test_single_values_are_x() -> None:
    batch = Shard([1.0, 2.0, 3.0], seed=0).fetch(ROWS)

    assert batch.x.tolist() == [3.0, 1.0]


def test_the_scope_swallows_a_broken_collective_and_nothing_else() -> None:
    batch = Batch((1, 2))

    with batch as inner:
        assert inner is batch
        assert batch.scoped
        raise CollectiveBroken("a member is gone")
    assert not batch.scoped
    with pytest.raises(ValueError, match="mine"), batch:
        raise ValueError("mine")


@pytest.mark.parametrize(
    ("data", "complaint"), [([], "empty"), (iter([1]), "a length and samples by number")]
)
def test_what_cannot_be_divided_is_refused(data: Any, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        Shard(data, seed=0)


def test_a_stream_that_claims_a_length_is_refused_before_the_loop() -> None:
    class Stream(IterableDataset[int]):
        def __len__(self) -> int:
            return 3

        @override
        def __iter__(self) -> Iterator[int]:
            return iter(range(3))

    with pytest.raises(UsageError, match="a Stream has not both"):
        Shard(Stream(), seed=0)
