"""What a training script of a test does to itself at a step, and proof that it did."""

import os
import signal
import time
from pathlib import Path
from typing import Final

import msgspec

from ebbtide.wire import names
from support.processes import FAULTS, FIRED, Fault

_ACTIONS: Final = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "terminate": signal.SIGTERM}


class Faults:
    """What this process was told to do to itself."""

    def __init__(self) -> None:
        told = msgspec.json.decode(os.environ.get(FAULTS, "[]"), type=list[Fault])
        rank = int(os.environ.get(names.ENV_LOCAL_RANK, "0"))
        self._left = [fault for fault in told if fault.local_rank == rank]

    def pass_by(self, step: int, where: str) -> None:
        """Do what is due at this place of this step, once."""
        for fault in [each for each in self._left if (each.step, each.where) == (step, where)]:
            self._left.remove(fault)
            with Path(os.environ[FIRED]).open("a") as fired:
                fired.write(f"{fault.worker}:{step}:{fault.action}\n")
            self._do(fault)

    def _do(self, fault: Fault) -> None:
        match fault.action:
            case "raise":
                raise RuntimeError(f"told to fail at step {fault.step}")
            case "exit":
                os._exit(fault.code)
            case "wait":
                time.sleep(fault.seconds)
            case action:
                os.kill(os.getpid(), _ACTIONS[action])
