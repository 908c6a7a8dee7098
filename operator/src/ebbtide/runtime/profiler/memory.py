"""Memory at its peak: the GPU's by torch's own count, the process's as the kernel saw it."""

import resource
from pathlib import Path
from typing import Final

import torch

_KIBI: Final = 1024
_RESET_PEAK: Final = "5"  # what clears VmHWM, see proc(5)


class MemoryExceededError(MemoryError):
    """More was used than the limit that was given."""


class Peak:
    """The peak since `reset`, in bytes."""

    def __init__(self, device: torch.device) -> None:
        self._is_cuda = device.type == "cuda"

    def reset(self) -> None:
        """Forget peaks before now."""
        if self._is_cuda:
            torch.cuda.reset_peak_memory_stats()
        else:
            Path("/proc/self/clear_refs").write_text(_RESET_PEAK)

    def read(self) -> int:
        """Return the peak; of a GPU what torch's allocator held, parts that lay free included."""
        return torch.cuda.max_memory_reserved() if self._is_cuda else _status("VmHWM")


def _status(name: str) -> int:
    """Return one size of /proc/self/status in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * _KIBI
    raise OSError(f"/proc/self/status has no {name}")


def limit_memory(num_bytes: int) -> None:
    """
    Let this process hold at most so many bytes: what goes beyond is refused, not paged out.

    The kernel limits private memory alone, of which some is never touched; so the room left is
    counted from what is resident now.
    """
    room = num_bytes - _status("VmRSS")
    if room <= 0:
        held = _status("VmRSS")
        raise MemoryExceededError(
            f"the memory limit is {num_bytes} bytes, and the process holds {held} before it begins"
        )
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (_status("VmData") + room, hard))


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an error says that there is no memory left, on a GPU or off it."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    # torch has no class of its own for the CPU's memory.
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
