"""How the steps go: what the coordinator hears of them, and one line now and then for a reader."""

import time
from typing import Any, Final

from ebbtide.runtime.membership import Membership, Timings
from ebbtide.runtime.reporting import say

LINE_SECONDS: Final = 10.0
TELL_SECONDS: Final = 0.2


class Telemetry:
    """The running figures of one process."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._loss: Any = None
        self._told_at = 0.0
        self._line_at = time.monotonic()
        self._line_step = -1

    def log(self, loss: Any) -> None:
        """Note the newest loss; it is read only when it is told, since reading may wait."""
        self._loss = loss.detach() if hasattr(loss, "detach") else loss

    def end_step(
        self, timings: Timings, *, step: int, steps: int, is_first: bool, members: int
    ) -> None:
        """Note that a step is applied; the first rank prints a line now and then."""
        now = time.monotonic()
        if now - self._told_at < TELL_SECONDS and step < steps:
            self._membership.progress(step=step)
            return
        self._told_at = now
        self._membership.progress(step=step, timings=timings, loss=self._read_loss())
        if is_first and (now - self._line_at >= LINE_SECONDS or step == steps):
            self._print_line(now, step=step, steps=steps, members=members)

    def restart_line(self, step: int) -> None:
        """Measure the printed rate from here: the members changed."""
        self._line_at, self._line_step = time.monotonic(), step

    def _print_line(self, now: float, *, step: int, steps: int, members: int) -> None:
        rate = (step - self._line_step) / max(1e-9, now - self._line_at)
        loss = self._read_loss()
        shown = "" if loss is None else f", loss {loss:.4f}"
        say(f"step {step} of {steps}, {rate:.1f} steps/s{shown}, {members} members")
        self.restart_line(step)

    def _read_loss(self) -> float | None:
        return None if self._loss is None else float(self._loss)
