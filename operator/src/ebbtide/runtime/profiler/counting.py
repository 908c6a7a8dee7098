"""Floating-point operations of whatever runs meanwhile, by torch's own counter."""

from typing import Any

from torch.utils.flop_counter import FlopCounterMode


class FlopCount:
    """
    Counts from `begin` to `end`, in the loop's body too.

    Matrix products, convolutions and attention count, forward and backward; what works on single
    elements does not.
    """

    def __init__(self) -> None:
        self._mode: Any = None

    def begin(self) -> None:
        """Count from now on."""
        self._mode = FlopCounterMode(display=False)
        self._mode.__enter__()

    def end(self) -> int:
        """Stop; return how many there were."""
        if self._mode is None:
            return 0
        mode, self._mode = self._mode, None
        mode.__exit__(None, None, None)
        return int(mode.get_total_flops())
