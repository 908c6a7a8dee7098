"""
Run parts of the test suite, one pytest each, and add up what they report.

Most parts wait for most of their time: for nodes, processes, time-outs. So they run beside those
that come after them, and what they print is shown when they are done; what only computes gives way
to them. At the end come the slowest tests and the sum: `N passed, N failed, N skipped`. A part
without a single test counts as failed: nothing may pass because it is missing.
An interrupt is left to pytest, which tears its fixtures down, so that no process of a test outlives
the run.
"""

import argparse
import contextlib
import fcntl
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from typing_extensions import override

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / ".run" / "tests"
TEAR_DOWN_SECONDS = 60
NEWS_SECONDS = 30
NUM_SLOWEST = 15
GIVE_WAY = ("nice", "-n", "15")
# Should this process be killed, its child is interrupted, and tears down.
DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "INT", "--") if shutil.which("setpriv") else ()
MOST_SECOND_CHANCES = 4
# What needs an API server and no nodes: all that can run on a cluster that is not ours to break.
ON_ANY_CLUSTER = "e2e/tests/api"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Tests and how pytest is to run them."""

    name: str
    folder: str = ""
    """Of tests."""
    command: tuple[str, ...] = ()
    """Instead of tests: what must exit with 0. It counts as one."""
    options: tuple[str, ...] = ()
    prepare: tuple[str, ...] = ()
    """The command that makes what only this part needs."""
    beside: bool = False
    """Begin it, and go on with the parts that follow."""
    waits: bool = False
    """Wait for those beside first: they and it would disturb each other."""
    yields: bool = False
    """It only computes: let it have what those beside leave of the processors."""
    second_chance: bool = False
    """Run its failures once more: these tests race real processes on a machine that others use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What one part, or all of them, came to."""

    num_passed: int = 0
    num_failed: int = 0
    num_skipped: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            num_passed=self.num_passed + other.num_passed,
            num_failed=self.num_failed + other.num_failed,
            num_skipped=self.num_skipped + other.num_skipped,
        )

    @override
    def __str__(self) -> str:
        return f"{self.num_passed} passed, {self.num_failed} failed, {self.num_skipped} skipped"


END_TO_END = ("-v", "-p", "no:xdist", "--timeout=300")
MAKE = ("make", "--no-print-directory")
SYSTEM = (*MAKE, "system", "controlplane")

# In the order of `all`. Those of `END_TO_END` have a control plane and a network of their own each;
# what is quick and often wrong is shown before them.
PARTS = (
    # Jobs whose plans rest on how fast they train: only what gives way runs beside them.
    Part(
        name="plans",
        folder="e2e/tests/plans",
        options=END_TO_END,
        prepare=SYSTEM,
        beside=True,
        second_chance=True,
    ),
    Part(name="checks", command=(*MAKE, "--keep-going", "lint", "types", "imports"), yields=True),
    Part(name="architecture", folder="tests/architecture", yields=True),
    # A few of them start processes and send them signals.
    Part(name="unit", folder="tests/unit", options=("-n", "2"), yields=True, second_chance=True),
    Part(name="laws", folder="tests/laws", options=("-n", "2"), yields=True),
    Part(name="handlers", folder="tests/handlers", yields=True),
    # How fast losses are noticed and made good: not distributed, and beside little.
    Part(
        name="timed",
        folder="tests/runtime",
        options=("-m", "timed", "--timeout=120"),
        waits=True,
        second_chance=True,
    ),
    # Half of its time it waits: for leases, silences, notices. Each of two has jobs of its own.
    Part(
        name="runtime",
        folder="tests/runtime",
        options=("-m", "not timed", "-n", "2", "--dist=worksteal", "--timeout=120"),
        second_chance=True,
    ),
    # So do these two, for machines that boot and go.
    Part(
        name="jobs",
        folder="e2e/tests/jobs",
        options=END_TO_END,
        prepare=SYSTEM,
        beside=True,
        second_chance=True,
    ),
    Part(
        name="e2e",
        folder="e2e/tests",
        options=(*END_TO_END, "--ignore=e2e/tests/jobs", "--ignore=e2e/tests/plans"),
        prepare=SYSTEM,
        second_chance=True,
    ),
)
NEED_NODES = frozenset({"jobs", "plans"})


def tally_of(report: Path) -> Tally:
    """The counts in pytest's JUnit report; a missing or broken report is one failure."""
    try:
        suites = ET.parse(report).getroot().iter("testsuite")  # noqa: S314 - our own pytest wrote it
    except (OSError, ET.ParseError):
        return Tally(num_failed=1)
    total = Tally()
    for suite in suites:
        num_bad = int(suite.get("failures", "0")) + int(suite.get("errors", "0"))
        num_skipped = int(suite.get("skipped", "0"))
        total += Tally(
            num_passed=int(suite.get("tests", "0")) - num_bad - num_skipped,
            num_failed=num_bad,
            num_skipped=num_skipped,
        )
    return total


def failures_in(report: Path) -> list[str]:
    """The names of the tests that failed, by pytest's JUnit report."""
    try:
        cases = ET.parse(report).getroot().iter("testcase")  # noqa: S314 - our own pytest wrote it
    except (OSError, ET.ParseError):
        return []
    return [
        case.get("name", "?")
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]


def slowest(parts: Iterable[Part]) -> list[str]:
    """A line for each of the tests that took longest, with set-up and tear-down."""
    found = []
    for report in (
        REPORTS / f"{part.name}{kind}" for part in parts for kind in (".first.xml", ".xml")
    ):
        with contextlib.suppress(OSError, ET.ParseError):  # tallied as a failure already
            cases = ET.parse(report).getroot().iter("testcase")  # noqa: S314 -- our own pytest wrote it
            found += [
                (float(case.get("time", "0")), report.stem, case.get("name")) for case in cases
            ]
    found.sort(key=lambda each: -each[0])
    return [f"  {seconds:6.1f} s  {part}: {name}" for seconds, part, name in found[:NUM_SLOWEST]]


def judged(tally: Tally, *, status: int) -> Tally:
    """The tally, with one failure more where pytest failed and no test says so."""
    if status != 0 and tally.num_failed == 0:
        return tally + Tally(num_failed=1)
    return tally


def command_for(part: Part, *, coverage: bool, extra: list[str]) -> list[str]:
    """The command line of one part, mostly of pytest."""
    priority = GIVE_WAY if part.yields else ()
    if part.command:
        return [*priority, *part.command]
    report = REPORTS / f"{part.name}.xml"
    # What failed last is remembered by part: two may run at once.
    cache = REPORTS / f"{part.name}.cache"
    options = [*part.options, f"--junit-xml={report}", "-o", f"cache_dir={cache}"]
    runner = ["-m", "pytest"]
    if coverage:  # a distributed worker may be ended before it has written what it measured
        runner = ["-m", "coverage", "run", "-m", "pytest"]
        options += ["-n", "0"]
    return [*priority, sys.executable, *runner, part.folder, *options, *extra]


class Beside:
    """A part that runs while others do, in a process of its own."""

    def __init__(self, part: Part, *, command: tuple[str, ...] = ()) -> None:
        """Begin, with another command where one is given; what it prints is kept for the end."""
        self._part = part
        self._log = REPORTS / f"{part.name}.log"
        self._began = time.time()
        own = (*DIE_WITH_PARENT, sys.executable, __file__, part.name)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command or own,
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                # A terminal's interrupt is passed on, so that it comes once.
                start_new_session=True,
            )

    @property
    def seconds(self) -> float:
        """How long it took, by what it printed last: it may have ended before it is looked at."""
        return self._log.stat().st_mtime - self._began

    def finish(self) -> Tally:
        """Wait for the end, show what was printed, and return the tally."""
        while self._process.poll() is None:
            lines = self._log.read_text(errors="replace").splitlines()
            print(f"waiting for {self._part.name}: {lines[-1] if lines else ''}", flush=True)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(NEWS_SECONDS)
        text = self._log.read_text(errors="replace")
        print(text, end="", flush=True)
        found = re.findall(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", text, flags=re.MULTILINE)
        if not found:
            return Tally(num_failed=1)
        num_passed, num_failed, num_skipped = map(int, found[-1])
        tally = Tally(num_passed=num_passed, num_failed=num_failed, num_skipped=num_skipped)
        return judged(tally, status=self._process.returncode)

    def stop(self) -> None:
        """Let it tear down what it has, if it still runs."""
        if self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(TEAR_DOWN_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def run(command: list[str]) -> int:
    """Run to the end; an interrupt or a request to stop gives pytest time to tear down."""
    child = subprocess.Popen(command, cwd=ROOT)
    asked_to_stop = []

    def pass_on(number: int, _frame: object) -> None:
        asked_to_stop.append(number)
        child.send_signal(signal.SIGINT)

    former = signal.signal(signal.SIGTERM, pass_on)
    try:
        status = child.wait()
    except KeyboardInterrupt:
        # The terminal interrupted the child as well; it is tearing down.
        try:
            child.wait(TEAR_DOWN_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        raise
    finally:
        signal.signal(signal.SIGTERM, former)
    if asked_to_stop:
        raise KeyboardInterrupt
    return status


def on_own_cluster() -> bool:
    """Whether the user brings the cluster, so that none need be built here."""
    return os.environ.get("EBBTIDE_CLUSTER") == "current"


def is_prepared(part: Part) -> bool:
    """Make what only this part needs, one part at a time; tell whether it is there."""
    if not part.prepare:
        return True
    with (REPORTS / "prepare.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # let go of when the file is closed
        return run(list(part.prepare)) == 0


def run_part(part: Part, *, coverage: bool, extra: list[str]) -> Tally:
    """Run one part and give its tally."""
    print(f"\n== {part.name}: {part.folder or shlex.join(part.command)}", flush=True)
    if part.command:
        status = run(command_for(part, coverage=coverage, extra=extra))
        return Tally(num_passed=int(status == 0), num_failed=int(status != 0))
    if not any((ROOT / part.folder).rglob("test_*.py")):
        print(f"{part.folder} holds no test: that counts as a failure", flush=True)
        return Tally(num_failed=1)
    if not is_prepared(part):
        print(f"{part.folder} could not be prepared: that counts as a failure", flush=True)
        return Tally(num_failed=1)
    report = REPORTS / f"{part.name}.xml"
    first = report.with_suffix(".first.xml")
    for former in (report, first):
        former.unlink(missing_ok=True)
    command = command_for(part, coverage=coverage, extra=extra)
    status = run(command)
    tally = judged(tally_of(report), status=status)
    if not part.second_chance or not 0 < tally.num_failed <= MOST_SECOND_CHANCES:
        return tally
    unsteady = failures_in(report)
    print(f"\n== {part.name}: once more what failed: {', '.join(unsteady)}", flush=True)
    report.rename(first)
    status = run([*command, "--last-failed", "--last-failed-no-failures=none"])
    again = judged(tally_of(report), status=status)
    settled = [name for name in unsteady if name not in failures_in(report)]
    if again.num_failed == 0 and again.num_passed == tally.num_failed:
        print(f"UNSTEADY, passed only the second time: {', '.join(settled)}", flush=True)
        return replace(tally, num_passed=tally.num_passed + again.num_passed, num_failed=0)
    return tally


def selected(names: list[str]) -> list[Part]:
    """The parts of these names, in the order of `PARTS`; `all` is every one."""
    parts = [part for part in PARTS if "all" in names or part.name in names]
    if on_own_cluster():
        return [
            replace(part, folder=ON_ANY_CLUSTER, prepare=()) if part.name == "e2e" else part
            for part in parts
            if part.name not in NEED_NODES
        ]
    return parts


def run_parts(parts: list[Part], *, coverage: bool, extra: list[str]) -> Tally:
    """Run the parts, those that go beside others with them, and print a line for each."""
    lines: list[str] = []
    total = Tally()
    beside: list[Beside] = []
    waiting: list[tuple[Part, Beside]] = []

    def note(part: Part, tally: Tally, seconds: float) -> None:
        nonlocal total
        lines.append(f"  {part.name:14}{tally}  ({seconds:.0f} s)")
        total += tally

    def finish() -> None:
        while waiting:
            part, other = waiting.pop(0)
            note(part, other.finish(), other.seconds)

    try:
        for part in parts:
            if part.waits:
                finish()
            started = time.monotonic()
            if part.beside and len(parts) > 1:
                print(f"\n== {part.name}: {part.folder}, beside what follows", flush=True)
                waiting.append((part, Beside(part)))
                beside.append(waiting[-1][1])
                continue
            tally = run_part(part, coverage=coverage, extra=extra)
            note(part, tally, time.monotonic() - started)
        finish()
    finally:
        for other in beside:
            other.stop()
    print("\nslowest:\n" + "\n".join(slowest(parts)))
    print("\n" + "\n".join(lines))
    print(total)
    return total


def main() -> int:
    """Run what the command line names and print the sum."""
    parser = argparse.ArgumentParser(description="Run parts of the test suite.")
    parser.add_argument("parts", nargs="+", choices=[*(part.name for part in PARTS), "all"])
    parser.add_argument("--coverage", action="store_true", help="measure branch coverage")
    arguments = parser.parse_args()
    # Started in the background of a shell, Python and its children would not hear an interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    REPORTS.mkdir(parents=True, exist_ok=True)
    (ROOT / ".run" / "coverage").mkdir(parents=True, exist_ok=True)
    extra = shlex.split(os.environ.get("ARGS", ""))

    total = run_parts(selected(arguments.parts), coverage=arguments.coverage, extra=extra)
    return 1 if total.num_failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
