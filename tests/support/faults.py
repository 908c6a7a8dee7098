"""
What a training script of a test does to itself at a step, and proof that it did.

The script itself passes by "compute", "applied" and "done". `watch` lets it pass by the phases that
lie inside the runtime: each is reached by the very call that begins it.
"""

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ebbtide.wire import names
from support.processes import ANY, FAULTS, FIRED, Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor, nn

    from ebbtide.runtime.job import Job

FLAT: Final = 2
"""Broadcasts before the state itself: its sizes, and what is in it."""
_ACTIONS: Final = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "terminate": signal.SIGTERM}


class Faults:
    """What this process was told to do to itself."""

    def __init__(self) -> None:
        told = msgspec.json.decode(os.environ.get(FAULTS, "[]"), type=list[Fault])
        rank = int(os.environ.get(names.ENV_LOCAL_RANK, "0"))
        self._left = [fault for fault in told if fault.local_rank == rank]

    def pass_by(self, step: int, where: str) -> None:
        """Do what is due at this place of this step, once."""
        for fault in [
            each for each in self._left if (each.where, each.step) in {(where, step), (where, ANY)}
        ]:
            self._left.remove(fault)
            with Path(os.environ[FIRED]).open("a") as fired:
                fired.write(f"{fault.worker}:{step}:{fault.action}\n")
            self._do(fault)

    def watch(self, job: "Job", model: "nn.Module") -> None:
        """Pass by forward, backward, collective, transfer, checkpoint and join, too."""
        from ebbtide.runtime.collective import Group  # noqa: PLC0415 -- torch comes with the script
        from ebbtide.runtime.staging import Saver  # noqa: PLC0415 -- torch comes with the script

        model.register_forward_hook(lambda *_: self.pass_by(job.step, "forward"))
        model.register_full_backward_hook(lambda *_: self.pass_by(job.step, "backward"))
        sum_up, broadcast, form, begin = (
            Group.sum_up, Group.broadcast, Group.form, Saver.begin,
        )  # fmt: skip
        broadcasts = 0

        def sum_in_two(group: Group, tensors: "Sequence[Tensor]") -> None:
            sum_up(group, tensors[:1])  # the others are in the middle of it
            self.pass_by(job.step, "collective")
            sum_up(group, tensors[1:])

        def broadcast_counted(group: Group, *args: Any, **keywords: Any) -> None:
            nonlocal broadcasts
            if broadcasts == FLAT:
                self.pass_by(job.step, "transfer")
            broadcasts += 1
            broadcast(group, *args, **keywords)

        def form_watched(group: Group, seat: Any) -> None:
            nonlocal broadcasts
            broadcasts = 0
            self.pass_by(job.step, "join")
            form(group, seat)

        def begin_watched(saver: Saver, *args: Any, **keywords: Any) -> None:
            begin(saver, *args, **keywords)
            self.pass_by(job.step, "checkpoint")  # it is being copied and written

        replaced: dict[str, tuple[type, Callable[..., None]]] = {
            "sum_up": (Group, sum_in_two),
            "broadcast": (Group, broadcast_counted),
            "form": (Group, form_watched),
            "begin": (Saver, begin_watched),
        }
        for name, (kind, function) in replaced.items():
            setattr(kind, name, function)

    def _do(self, fault: Fault) -> None:
        match fault.action:
            case "raise":
                raise RuntimeError(f"told to fail at step {fault.step}")
            case "exit":
                os._exit(fault.code)
            case "wait":
                time.sleep(fault.seconds)
            case "notice":  # as a kubelet does: to the first process
                os.kill(os.getppid(), signal.SIGTERM)
            case action:
                os.kill(os.getpid(), _ACTIONS[action])
