"""Sums between GPUs: how they are waited for and ended; with a GPU, the real thing."""

from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from ebbtide.runtime import nccl
from ebbtide.runtime.building import Built, Seat
from ebbtide.runtime.collective import Group
from ebbtide.runtime.errors import CollectiveBroken


class FakeWork:
    """Completes at the n-th look, or never."""

    def __init__(self, *, looks: float) -> None:
        self.looks = looks
        self.waited = False

    def is_completed(self) -> bool:
        self.looks -= 1
        return self.looks < 0

    def wait(self) -> None:
        self.waited = True


class FakeBackend:
    """Doubles every tensor, as a sum over two equal ranks does."""

    def __init__(self, *, looks: float = 2) -> None:
        self.looks = looks
        self.works: list[FakeWork] = []
        self.num_aborts = 0

    def allreduce(self, tensors: list[Tensor], options: Any) -> FakeWork:
        for tensor in tensors:
            tensor.mul_(2)
        self.works.append(FakeWork(looks=self.looks))
        return self.works[-1]

    def abort(self) -> None:
        self.num_aborts += 1
        if self.num_aborts > 1:
            raise RuntimeError("aborted already")


def test_a_sum_is_over_when_every_gpu_is_done_and_not_before() -> None:
    backend = FakeBackend(looks=3)
    tensors = [torch.ones(2), torch.ones(3)]

    nccl.Nccl(backend, is_over=lambda: False).sum_up(tensors, None)

    assert [work.looks for work in backend.works] == [-1, -1]
    assert all(work.waited for work in backend.works)
    assert [tensor.sum().item() for tensor in tensors] == [4, 6]


def test_a_sum_that_never_ends_is_left_when_its_generation_is_over() -> None:
    backend = FakeBackend(looks=float("inf"))
    answers = iter([False, False, True])

    with pytest.raises(RuntimeError, match="generation ended"):
        nccl.Nccl(backend, is_over=lambda: next(answers)).sum_up([torch.ones(1)], None)


def test_what_was_aborted_can_be_aborted_again() -> None:
    backend = FakeBackend()
    gpus = nccl.Nccl(backend, is_over=lambda: False)

    gpus.abort()
    gpus.abort()

    assert backend.num_aborts == 2


class OnlyCpu:
    """A gloo that must not see a tensor of the GPU."""

    def allreduce(self, tensors: list[Tensor], options: Any) -> FakeWork:
        assert all(tensor.device.type == "cpu" for tensor in tensors)
        return FakeWork(looks=0)


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A group of two whose GPU is torch's `meta` device."""
    made = Group("127.0.0.1", gpu=torch.device("meta"))
    backend = FakeBackend()
    gpus = nccl.Nccl(backend, is_over=lambda: made.is_broken(1))
    built = Built(store=None, gloo=OnlyCpu(), gpus=gpus)
    monkeypatch.setattr("ebbtide.runtime.building.Building.wait", lambda _: built)
    made.form(Seat(generation=1, rank=0, world=2, store=("127.0.0.1", 1), addresses=frozenset()))
    yield made, backend
    made.close()


def test_tensors_of_the_gpu_go_through_nccl_and_the_others_through_gloo(group: Any) -> None:
    made, backend = group

    made.sum_up([torch.ones(1), torch.ones(1, device="meta")])

    assert len(backend.works) == 1


def test_a_broken_generation_aborts_what_the_gpus_do(group: Any) -> None:
    made, backend = group
    backend.looks = float("inf")

    made.break_(1)

    with pytest.raises(CollectiveBroken):
        made.sum_up([torch.ones(1, device="meta")])
    made.close()
    assert backend.num_aborts >= 1


@pytest.mark.gpu
def test_one_gpu_is_summed_with_itself_and_aborted() -> None:
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    store: Any = dist.HashStore  # type: ignore[attr-defined]  # exported, not declared
    gpus = nccl.connect(store(), rank=0, world=1, device=device, is_over=lambda: False)
    options = dist.AllreduceOptions()
    options.timeout = timedelta(seconds=30)
    tensor = torch.full((4,), 3.0, device=device)

    gpus.sum_up([tensor], options)

    assert tensor.tolist() == [3.0] * 4
    gpus.abort()
