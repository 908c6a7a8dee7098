"""
The process behind `world.kubelet.warm`: it imports once, then forks one container per request.

    python -m world.kubelet.forking DESCRIPTOR MODULE

What setpriv, unshare and the shell do for a cold container happens here after the fork. The child
is made a child of the kubelet's process (CLONE_PARENT), which therefore sees it end as any other.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import platform
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from typing import TYPE_CHECKING, Any, Final, NoReturn

from world.kubelet.warm import LONGEST_MESSAGE

if TYPE_CHECKING:
    from collections.abc import Sequence

# <linux/sched.h>, <sys/prctl.h>, <sys/mount.h>
CLONE_NEWNS: Final = 0x00020000
CLONE_NEWUTS: Final = 0x04000000
CLONE_NEWPID: Final = 0x20000000
CLONE_PARENT: Final = 0x00008000
SYS_CLONE: Final = {"x86_64": 56, "aarch64": 220}
PR_SET_PDEATHSIG: Final = 1
MS_NOSUID: Final = 2
MS_NODEV: Final = 4
MS_NOEXEC: Final = 8
MS_REC: Final = 0x4000
MS_PRIVATE: Final = 1 << 18
FIRST_FREE: Final = 3
LAST_DESCRIPTOR: Final = 4096

# Holding the interpreter's lock through the call: the child of a clone inherits a whole one.
libc: Final = ctypes.PyDLL(None, use_errno=True)


def main(descriptor: int, module: str) -> None:
    """Answer requests until the other side hangs up."""
    # What our side needed to find this program is nothing that a container has on its path.
    ours = os.environ.pop("PYTHONPATH", "")
    package = module.rpartition(".")[0]
    sys.path[1:] = [path for path in sys.path[1:] if path != ours]
    importlib.import_module(f"{package}.preload").preload()
    with socket.socket(fileno=descriptor) as channel:
        channel.send(b"ready")
        while True:
            message, descriptors, _, _ = socket.recv_fds(channel, LONGEST_MESSAGE, 2)
            if not message:
                return
            pid = _clone()
            if pid == 0:
                _contain(json.loads(message), module=module, log=descriptors[0], say=descriptors[1])
            for each in descriptors:
                os.close(each)
            channel.send(str(pid).encode())


def _clone() -> int:
    """Fork a child of our parent's."""
    number = SYS_CLONE[platform.machine()]
    return _checked(libc.syscall(number, CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0))


def _contain(request: dict[str, Any], *, module: str, log: int, say: int) -> NoReturn:
    """Be what unshare is for a cold container: make the namespaces, and end as PID 1 ends."""
    code = 1
    try:
        _checked(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
        os.setsid()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        _checked(libc.unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWPID))
        pid = os.fork()
        if pid == 0:
            _be_first(request, module=module, log=log, say=say)
        os.closerange(FIRST_FREE, LAST_DESCRIPTOR)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            if number != signal.SIGKILL:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            os.kill(os.getpid(), number)
        code = os.waitstatus_to_exitcode(status)
    except BaseException:  # noqa: BLE001 -- nothing may return into the parent's loop
        traceback.print_exc()
    os._exit(code & 0xFF)


def _be_first(request: dict[str, Any], *, module: str, log: int, say: int) -> NoReturn:
    """Be PID 1: let the script set the container up, then run the module in its place."""
    code: object = 1
    try:
        _set_up(request, log=log, say=say)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        tempfile.tempdir = None  # what was the answer outside is none in here
        sys.path[0] = request["folder"]
        sys.argv = [module, *request["command"][3:]]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001 -- the interpreter's own last resort, which a fork lacks
        traceback.print_exc()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(_status(code))


def _set_up(request: dict[str, Any], *, log: int, say: int) -> None:
    _checked(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
    _mount(None, "/", None, MS_REC | MS_PRIVATE)
    _mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    shell = ["/bin/sh", "-c", request["script"], "sh", *request["command"]]
    done = subprocess.run(shell, stdin=say, env=request["environment"], check=False)
    os.closerange(FIRST_FREE, LAST_DESCRIPTOR)
    if done.returncode:
        os._exit(done.returncode)


def _mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
    words = [text.encode() if text is not None else None for text in (source, target, kind)]
    _checked(libc.mount(*words, ctypes.c_ulong(flags), None))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _status(code: object) -> int:
    """Return what a shell sees for an argument of sys.exit."""
    match code:
        case None:
            return 0
        case int():
            return code & 0xFF
        case _:
            sys.stderr.write(f"{code}\n")
            return 1


def run(arguments: Sequence[str]) -> None:
    """Read the command line."""
    descriptor, module = arguments
    main(int(descriptor), module)


if __name__ == "__main__":
    run(sys.argv[1:])
