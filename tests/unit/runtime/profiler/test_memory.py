"""Memory: its peak, its limit, and how the lack of it is told."""

import os
import signal
from collections.abc import Callable

import pytest
import torch

from ebbtide.runtime.profiler.memory import (
    MemoryExceededError,
    Peak,
    is_out_of_memory,
    limit_memory,
)

CPU = torch.device("cpu")
BIG = 200 << 20


def test_the_peak_stays_when_memory_was_given_back() -> None:
    peak = Peak(CPU)

    peak.reset()
    before = peak.read()
    held = torch.ones(BIG // 4)
    del held

    assert BIG * 0.9 < peak.read() - before < BIG * 1.5
    peak.reset()
    assert peak.read() < before + BIG * 0.5


def in_a_fork(work: Callable[[], int]) -> int:
    """Run something that leaves the process changed; its result is an exit code."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(work())
        finally:
            os._exit(99)
    _, status = os.waitpid(pid, 0)
    assert not os.WIFSIGNALED(status), signal.Signals(os.WTERMSIG(status)).name
    return os.waitstatus_to_exitcode(status)


def allocate(num_bytes: int) -> int:
    try:
        torch.ones(num_bytes // 4)
    except (RuntimeError, MemoryError) as error:
        return 1 if is_out_of_memory(error) else 2
    return 0


def test_what_goes_beyond_the_limit_is_refused_and_known_for_what_it_is() -> None:
    def work(num_bytes: int) -> int:
        peak = Peak(CPU)
        peak.reset()
        limit_memory(peak.read() + BIG)
        return allocate(num_bytes)

    assert in_a_fork(lambda: work(BIG // 4)) == 0
    assert in_a_fork(lambda: work(4 * BIG)) == 1


def test_a_limit_that_is_used_up_already_is_named() -> None:
    def work() -> int:
        try:
            limit_memory(1 << 20)
        except MemoryExceededError as error:
            return 0 if "the memory limit is 1048576 bytes" in str(error) else 3
        return 4

    assert in_a_fork(work) == 0


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (MemoryError(), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("shapes cannot be multiplied"), False),
        (ValueError("can't allocate memory"), False),
    ],
)
def test_only_the_lack_of_memory_is_taken_for_it(error: Exception, *, expected: bool) -> None:
    assert is_out_of_memory(error) is expected
