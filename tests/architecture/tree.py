"""What the architecture tests look at: the files of the repository."""

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PRODUCT = "operator/src/ebbtide"
SOURCES = (PRODUCT, "e2e/world", "examples", "scripts")
TESTS = ("tests", "e2e/tests")


@cache
def tracked() -> tuple[Path, ...]:
    """Every file that is, or with the next commit may be, in the repository."""
    listing = subprocess.run(
        [
            "git",
            "-c",
            "safe.directory=*",
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    paths = (ROOT / name for name in sorted(set(listing.split("\0")) - {""}))
    return tuple(path for path in paths if path.is_file())


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def files(*folders: str, suffix: str = "") -> list[Path]:
    """The tracked files below these folders."""
    prefixes = tuple(f"{folder}/" for folder in folders)
    return [
        path
        for path in tracked()
        if path.name.endswith(suffix) and relative(path).startswith(prefixes)
    ]


def python_files() -> list[Path]:
    return [path for path in tracked() if path.suffix == ".py"]
