"""
The other side of a rehearsal: starts the script, gives orders, and says in words what went wrong.

No torch here: the command line imports this. A process that runs out of memory dies, and the next
order starts another one.
"""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final, NoReturn, Self

from ebbtide.runtime import commands, reaping
from ebbtide.runtime.errors import UsageError
from ebbtide.runtime.profiler.meeting import reach
from ebbtide.runtime.profiler.orders import (
    Done,
    FromScript,
    Joined,
    Looping,
    Measure,
    Measured,
    OutOfMemory,
    ToScript,
)
from ebbtide.wire.frames import Decoder, FrameError, encode
from ebbtide.wire.names import ENV_PROFILE

LOOK_SECONDS: Final = 0.2
END_SECONDS: Final = 10.0
READ_BYTES: Final = 1 << 16
MOST_QUOTED: Final = 4000  # bytes of the script's last words
KILLED: Final = -signal.SIGKILL
ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


class ScriptError(Exception):
    """The script can't be measured; the text says why, with the script's last words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What a script said of itself before its first step."""

    joined: Joined
    looping: Looping


class Session:
    """Processes of one script, one after another; none outlives it."""

    def __init__(
        self, words: Sequence[str], *, patience: float, look: Callable[[], None] = lambda: None
    ) -> None:
        """
        Prepare to run a command; `look` is called a few times a second while it is waited for.

        After `patience` seconds without a word from the script it counts as stuck.
        """
        if not words:
            raise UsageError("no command is given: end with -- python train.py")
        self._words = _command(words)
        self._patience = patience
        self._look = look
        self._folder = Path(tempfile.mkdtemp(prefix="ebbtide-profile-"))
        self._keeper = _start_keeper(self._folder)
        self._log = self._folder / "output"
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._decoder = Decoder(FromScript)
        self._heard: list[FromScript] = []
        self._usual: dict[signal.Signals, Any] = {}
        self.script: Script | None = None

    def __enter__(self) -> Self:
        """Until the end, a closed terminal or a time-out ends the script before this process."""
        if threading.current_thread() is threading.main_thread():
            self._usual = {number: signal.signal(number, _end_by) for number in ENDING}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.close()
            else:
                self._clear()  # nobody waits for a last step
        finally:
            for number, usual in self._usual.items():
                signal.signal(number, usual)

    def start(self) -> Script:
        """Start the script, unless it runs, and wait until it is in its loop."""
        if self._connection is not None and self.script is not None:
            return self.script
        path = self._folder / "socket"
        path.unlink(missing_ok=True)
        leash = partial(reaping.end_with, os.getpid())
        with socket.socket(socket.AF_UNIX) as listener, self._log.open("wb") as log:
            with reach(path) as address:
                listener.bind(address)
            listener.listen(1)
            try:
                self._process = subprocess.Popen(  # noqa: S603 -- the command that the user gave
                    self._words,
                    env={**os.environ, ENV_PROFILE: str(path)},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    preexec_fn=leash,  # noqa: PLW1509 -- one system call; our thread only draws
                )
            except OSError as error:
                raise ScriptError(f"{self._words[0]}: {error.strerror}") from error
            self._await(listener, "call ebbtide.runtime.join()")
            self._connection, _ = listener.accept()
        self._decoder = Decoder(FromScript)
        self._heard = []
        joined = self._hear(Joined, "join")
        looping = self._hear(Looping, "enter the loop over job.steps()")
        self.script = Script(joined=joined, looping=looping)
        return self.script

    def measure(self, order: Measure) -> Measured | OutOfMemory:
        """Let the script carry out one order; it is started anew if it died of the last one."""
        self.start()
        try:
            self._send(order)
            heard = self._hear(Measured | OutOfMemory, f"take steps of {order.batch} samples")
        except ScriptError:
            if self._code() != KILLED:
                raise
            heard = OutOfMemory(batch=order.batch)  # the kernel's way of saying it
        if isinstance(heard, OutOfMemory):
            self._end()
        found: Measured | OutOfMemory = heard
        return found

    def close(self) -> None:
        """End the script and remove all traces of it."""
        if self._connection is not None:
            with contextlib.suppress(ScriptError, subprocess.TimeoutExpired):
                self._send(Done())
                if self._process is not None:
                    self._process.wait(END_SECONDS)
        self._clear()

    # ------------------------------------------------------------ inside

    def _clear(self) -> None:
        self._end()
        self._keeper.communicate()

    def _end(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _send(self, message: ToScript) -> None:
        if self._connection is None:
            raise ScriptError("the script does not run")
        try:
            self._connection.sendall(encode(message))
        except OSError as error:
            raise self._explain("listen") from error

    def _hear(self, kinds: Any, what: str) -> Any:
        connection = self._connection
        if connection is None:
            raise ScriptError("the script does not run")
        while not self._heard:
            self._await(connection, what)
            try:
                data = connection.recv(READ_BYTES)
                self._heard += self._decoder.feed(data)
            except (OSError, FrameError) as error:
                raise ScriptError(
                    f"the script said something else than a measure: {error}"
                ) from error
            if not data:
                raise self._explain(what)
        found = self._heard.pop(0)
        if not isinstance(found, kinds):
            raise ScriptError(f"the script did not {what}, it said {type(found).__name__}")
        return found

    def _await(self, readable: socket.socket, what: str) -> None:
        """Wait until there is something to read, or the script has ended."""
        until = time.monotonic() + self._patience
        while True:
            ready, _, _ = select.select([readable], [], [], LOOK_SECONDS)
            if ready:
                return
            self._look()
            if self._process is not None and self._process.poll() is not None:
                # It may have spoken and ended since we looked.
                if select.select([readable], [], [], 0)[0]:
                    return
                raise self._explain(what)
            if time.monotonic() > until:
                raise ScriptError(
                    f"the script did not {what} within {self._patience:.0f} s; it is given longer"
                    f" by --patience{self._quote()}"
                )

    def _code(self) -> int | None:
        if self._process is None:
            return None
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(END_SECONDS)
        return None

    def _explain(self, what: str) -> ScriptError:
        code = self._code()
        if code is None:
            how = "broke off the connection"
        elif code < 0:
            how = f"was ended by {signal.Signals(-code).name}"
        elif code == 0:
            how = "came to its end"
        else:
            how = f"failed with exit code {code}"
        return ScriptError(f"the script {how} and did not {what}{self._quote()}")

    def _quote(self) -> str:
        """The script's last words."""
        with contextlib.suppress(OSError), self._log.open("rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - MOST_QUOTED))
            lines = log.read().decode(errors="replace").rstrip().splitlines()[-20:]
            if lines:
                return "; its last words:\n" + "\n".join(f"  {_show(line)}" for line in lines)
        return "; it printed nothing"


def _start_keeper(folder: Path) -> subprocess.Popen[bytes]:
    """Start what removes the folder once we close its input, or end in whatever way."""
    return subprocess.Popen(  # noqa: S603 -- the words are ours, the folder is no word of them
        ["/bin/sh", "-c", 'read -r _; rm -rf -- "$0"', str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # what is sent to the whole group, or typed, is not meant for it
    )


def _end_by(number: int, _frame: FrameType | None) -> NoReturn:
    """Leave by way of all that clears up, with the code of a process that a signal ended."""
    raise SystemExit(128 + number)


def _show(line: str) -> str:
    """Return a line as a terminal may be given it: what would steer one is written out."""
    return "".join(
        each if each.isprintable() or each == "\t" else each.encode("unicode_escape").decode()
        for each in line
    )


def _command(words: Sequence[str]) -> list[str]:
    """`python x.py` means this interpreter, as it does in a worker."""
    if isinstance(commands.parse(words), commands.Program):
        return list(words)
    return [sys.executable, *words[1:]]
