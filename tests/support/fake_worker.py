"""
A worker process without torch: a real `Membership` around a loop that only counts.

Run as a program with one JSON object as its argument. It prints one JSON object per event. State is
the number of steps; a checkpoint is a file that holds it.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from ebbtide.runtime.membership import Identity, Leave, Membership, MustLeave
from ebbtide.wire.messages import Form, Released
from ebbtide.wire.names import EXIT_LEFT

CHILD_SECONDS = 20.0


class FakeWorker:
    """Counts steps for as long as it may."""

    def __init__(self, options: dict[str, Any]) -> None:
        """Read the options: identity, coordinator, token, pause, save_every, checkpoint, grace."""
        self._pause: float = options.get("pause", 0.01)
        self._save_every: int = options.get("save_every", 0)
        self._file = Path(options["checkpoint"])
        self._error: str = options.get("checkpoint_error", "")
        self._refuses_to_save: bool = options.get("refuses_to_save", False)
        self._break_at: int = options.get("break_at", -1)
        self._is_first = options["identity"]["local_rank"] == 0
        self._keeps_child: bool = options.get("keeps_child", False)
        self._notice: float = options.get("notice", 10.0)
        self._step = 0
        self._holds = False
        self._generation = 0
        self._broken = 0
        self._break = threading.Event()
        self._membership = Membership(
            Identity(**options["identity"]),
            token=options["token"].encode(),
            coordinator=options["coordinator"],
            on_break=self._on_break,
            grace=options.get("grace", 30.0),
        )

    def run(self) -> int:
        """Work until released or told to go; return the exit code."""
        signal.signal(signal.SIGTERM, self._on_term)
        try:
            self._membership.start()
        except MustLeave as order:
            say("must-leave", reason=order.leave.reason)
            return EXIT_LEFT
        say("welcome")
        if self._keeps_child:
            keep_child()
        self._idle()
        while True:
            match self._membership.wait_for_form(timeout=0.05):
                case Form() as form:
                    self._train(form)
                case Released():
                    say("released", step=self._step)
                    self._membership.close()
                    return 0
                case Leave() as leave:
                    return self._leave(leave)
                case None:
                    self._finish()

    def _on_term(self, *_: object) -> None:
        thread = threading.Thread(
            target=self._membership.request_leave,
            kwargs={"reason": "SIGTERM", "seconds": self._notice},
        )
        thread.start()

    def _on_break(self, generation: int) -> None:
        self._broken = generation
        self._break.set()

    def _idle(self) -> None:
        seen = int(self._file.read_text()) if self._file.exists() else -1
        self._membership.idle(
            generation=self._generation,
            step=self._step,
            holds_state=self._holds,
            checkpoint_step=seen,
            checkpoint_error=self._error,
        )

    def _train(self, form: Form) -> None:
        self._generation = form.generation
        self._step, self._holds = form.step, True
        self._break.clear()
        say("form", generation=form.generation, step=form.step, source=form.source)
        self._membership.formed(generation=form.generation, step=form.step)
        steps = self._membership.work.steps
        while self._step < steps:
            if self._break.wait(self._pause) and self._broken == form.generation:
                say("broken", generation=form.generation, at=time.time())
                self._idle()
                return
            if self._step == self._break_at:
                self._break_at = -1
                self._membership.broken(generation=form.generation, error="broken on purpose")
                self._idle()
                return
            self._step += 1
            self._membership.progress(step=self._step, loss=1.0 / self._step)
            if self._membership.reform_pending(form.generation):
                say("boundary", generation=form.generation, step=self._step)
                self._idle()
                return
            is_due = self._save_every and self._step % self._save_every == 0
            if self._membership.save_requested() or is_due:
                self._save()
        self._membership.reached(step=self._step)

    def _finish(self) -> None:
        if self._holds and self._step >= self._membership.work.steps:
            self._save()

    def _save(self) -> bool:
        if not self._is_first or self._refuses_to_save or not self._membership.duty():
            return False
        fresh = self._file.with_name(f"{self._file.name}-{os.getpid()}")
        fresh.write_text(str(self._step))
        fresh.replace(self._file)
        say("saved", step=self._step, at=time.time())
        self._membership.committed(step=self._step, seconds=0.001, num_bytes=1)
        return True

    def _leave(self, leave: Leave) -> int:
        saved = self._step if leave.save and self._save() else -1
        say("left", reason=leave.reason, save=leave.save, saved=saved, step=self._step)
        self._membership.left(step=self._step, saved_step=saved)
        return EXIT_LEFT


def keep_child() -> None:
    """Fork a process that holds a copy of every connection, as a data loader's workers do."""
    pid = os.fork()
    if pid == 0:
        time.sleep(CHILD_SECONDS)
        os._exit(0)
    say("child", pid=pid)


def say(event: str, **fields: Any) -> None:
    """Print one event."""
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(FakeWorker(json.loads(sys.argv[1])).run())
