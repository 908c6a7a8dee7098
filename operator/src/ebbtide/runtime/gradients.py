"""
One reduction per step: gradients and running statistics, weighted by share, and a vote.

The gradient of the global batch is the sum of the ranks' gradients, each times its share of the
samples; a plain mean is wrong as soon as shares differ. Nothing is written back until everything
arrived, so a broken collective leaves the step as if it had not happened. The vote rides along:
how many ranks want this generation to end, and how many of them are leaving.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import torch
from torch import Tensor
from torch.nn import Parameter

from ebbtide.runtime.errors import UsageError

BUCKET_BYTES: Final = 25 * (1 << 20)
_PENDING: Final = 0
_LEAVING: Final = 1
_USED: Final = 2  # and up: one per parameter


class Summing(Protocol):
    """What a `Group` can do."""

    def sum_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its sum over all ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Votes:
    """What the ranks said with this step's gradients."""

    pending: int
    leaving: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bucket:
    flat: Tensor
    slots: tuple[tuple[int, Tensor], ...]  # number of the tensor, its place in `flat`


class Reducer:
    """Holds the flat buffers of one model's gradients and running statistics."""

    def __init__(self, parameters: Iterable[Parameter], statistics: Iterable[Tensor]) -> None:
        self._parameters = [each for each in parameters if each.requires_grad]
        self._statistics = [each for each in statistics if each.is_floating_point()]
        if not self._parameters:
            raise UsageError("the model has no parameter to train")
        self._gradients = _bucketize(self._parameters)
        self._running = _bucketize(self._statistics)
        self._vote = torch.zeros(_USED + len(self._parameters))
        self._by_rows: set[int] = set()  # whose gradients the script makes sparse
        self.reduced = frozenset(id(each) for each in self._parameters)

    @property
    def num_bytes(self) -> int:
        """How many bytes of gradients one step reduces."""
        return sum(bucket.flat.numel() * bucket.flat.element_size() for bucket in self._gradients)

    @property
    def num_tensors(self) -> int:
        """How many parameters have gradients."""
        return len(self._parameters)

    def is_finite(self) -> bool:
        """Tell whether the gradients that were last reduced are finite, on every rank alike."""
        return all(bool(bucket.flat.isfinite().all()) for bucket in self._gradients)

    @torch.no_grad()
    def reduce(self, group: Summing, *, weight: float, pending: bool, leaving: bool) -> Votes:
        """Sum over all ranks; then every rank holds the same gradients and statistics."""
        self._vote[_PENDING] = pending
        self._vote[_LEAVING] = leaving
        gradients = [self._gradient(number, weight) for number in range(len(self._parameters))]
        _fill(self._gradients, gradients, weight)
        _fill(self._running, self._statistics, weight)
        buckets = [*self._gradients, *self._running]
        group.sum_up([*(bucket.flat for bucket in buckets), self._vote])
        used = self._vote[_USED:].tolist()
        for bucket in self._gradients:
            for number, place in bucket.slots:
                self._store(number, place, used=used[number] > 0)
        for bucket in self._running:
            for number, place in bucket.slots:
                self._statistics[number].copy_(place)
        return Votes(pending=int(self._vote[_PENDING]), leaving=int(self._vote[_LEAVING]))

    def _gradient(self, number: int, weight: float) -> Tensor | None:
        gradient = self._parameters[number].grad
        if gradient is not None and gradient.layout == torch.sparse_coo:
            self._by_rows.add(number)
            gradient = gradient.to_dense()
        self._vote[_USED + number] = gradient is not None and weight > 0
        return gradient

    def _store(self, number: int, place: Tensor, *, used: bool) -> None:
        parameter = self._parameters[number]
        if not used:
            parameter.grad = (
                None  # used by nobody: the optimizer must pass it over, as in one process
            )
        elif number in self._by_rows:
            parameter.grad = _rows_of(place)
        elif parameter.grad is None:
            parameter.grad = place.clone()
        else:
            parameter.grad.copy_(place)


def _rows_of(dense: Tensor) -> Tensor:
    """Return a sparse gradient of the rows that are not all zero, as optimizers for those want."""
    rows = dense.flatten(1).any(dim=1).nonzero().squeeze(1)
    return torch.sparse_coo_tensor(
        rows.unsqueeze(0), dense[rows], dense.shape, is_coalesced=True, check_invariants=False
    )


def _bucketize(tensors: Sequence[Tensor]) -> list[_Bucket]:
    """Group tensors of one type and device, in order, into flat buffers of bounded size."""
    groups: list[list[int]] = []
    kinds: dict[tuple[torch.dtype, torch.device], tuple[int, int]] = {}  # kind: (group, bytes)
    for number, tensor in enumerate(tensors):
        kind = (tensor.dtype, tensor.device)
        size = tensor.numel() * tensor.element_size()
        at, filled = kinds.get(kind, (-1, 0))
        if at < 0 or filled + size > BUCKET_BYTES:
            at, filled = len(groups), 0
            groups.append([])
        groups[at].append(number)
        kinds[kind] = (at, filled + size)
    return [_lay_out(tensors, numbers) for numbers in groups]


def _lay_out(tensors: Sequence[Tensor], numbers: Sequence[int]) -> _Bucket:
    first = tensors[numbers[0]]
    total = sum(tensors[number].numel() for number in numbers)
    flat = torch.zeros(total, dtype=first.dtype, device=first.device)
    slots, start = [], 0
    for number in numbers:
        tensor = tensors[number]
        slots.append((number, flat[start : start + tensor.numel()].view(tensor.shape)))
        start += tensor.numel()
    return _Bucket(flat=flat, slots=tuple(slots))


def _fill(buckets: Sequence[_Bucket], tensors: Sequence[Tensor | None], weight: float) -> None:
    for bucket in buckets:
        for number, place in bucket.slots:
            tensor = tensors[number]
            if tensor is None or weight == 0:
                place.zero_()  # a rank without samples adds nothing, whatever it computed
            else:
                place.copy_(tensor)
        if weight != 1:
            bucket.flat.mul_(weight)
