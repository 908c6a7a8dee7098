"""What the loop hands out: a rank's share of one step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self

import torch
from torch.utils.data import Dataset, TensorDataset, default_collate

from ebbtide.runtime.errors import CollectiveBroken, UsageError
from ebbtide.runtime.sharding import Indices, Order

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType


class MapStyle(Protocol):
    """A data set with a length and samples by number."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Any: ...


class Batch:
    """
    One rank's share of a step.

    `x` and `y` are its first and second part, or it is unpacked like a tuple, or read by key when
    the samples are mappings. As `with step as batch:` it swallows `CollectiveBroken` and nothing
    else: the same step then comes again.
    """

    def __init__(self, value: Any) -> None:
        self.value = value
        self.scoped = False

    @property
    def x(self) -> Any:
        """The first part; the whole batch when it has only one."""
        return self.value[0] if isinstance(self.value, list | tuple) else self.value

    @property
    def y(self) -> Any:
        """The second part."""
        return self.value[1]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.value)

    def __len__(self) -> int:
        return len(self.value)

    def __getitem__(self, key: Any) -> Any:
        return self.value[key]

    def keys(self) -> Any:
        """The keys of a batch of mappings, so that `model(**batch)` works."""
        return self.value.keys()

    def __enter__(self) -> Self:
        self.scoped = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self.scoped = False
        return isinstance(error, CollectiveBroken)


class Shard:
    """A data set with its order: gives the samples of any step and share."""

    def __init__(self, dataset: MapStyle, *, seed: int) -> None:
        if not hasattr(dataset, "__len__") or not _gives_by_number(dataset):
            raise UsageError(
                f"shard() takes a data set with a length and samples by number, and a "
                f"{type(dataset).__name__} has not both: a stream cannot be divided exactly"
            )
        if len(dataset) == 0:
            raise UsageError("shard() was given an empty data set")
        self.dataset = dataset
        self.order = Order(seed=seed, samples=len(dataset))

    def fetch(self, indices: Indices) -> Batch:
        """Return the samples at these indices as one batch."""
        if isinstance(self.dataset, TensorDataset):
            rows = torch.from_numpy(indices)
            return Batch(tuple(tensor[rows] for tensor in self.dataset.tensors))
        samples = [self.dataset[int(index)] for index in indices]
        return Batch(default_collate(samples))


def _gives_by_number(dataset: object) -> bool:
    """Tell whether it has samples by number; torch's base class only seems to."""
    found = getattr(type(dataset), "__getitem__", None)
    return found is not None and found is not Dataset.__getitem__
