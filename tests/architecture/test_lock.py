"""The dependencies are locked with hashes, and the lock is the one of pyproject.toml."""

import re
import tomllib

from packaging.requirements import Requirement

from architecture.tree import ROOT

LOCK = (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8")
BOOTSTRAP = (ROOT / "requirements" / "bootstrap.txt").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def entries(lock: str) -> dict[str, tuple[str, int]]:
    """Name -> (version, number of hashes)."""
    found = re.findall(r"^([A-Za-z0-9_.-]+)==([^\s;]+)((?:.*\\\n)+.*)", lock, flags=re.MULTILINE)
    return {name: (version, rest.count("--hash=sha256:")) for name, version, rest in found}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_each_locked_package_has_hashes() -> None:
    locked = entries(LOCK)

    assert len(locked) == len(re.findall(r"^[A-Za-z0-9]", LOCK, flags=re.MULTILINE))
    assert [name for name, (_, num_hashes) in locked.items() if num_hashes == 0] == []


def test_the_lock_says_nothing_of_the_index_it_was_made_with() -> None:
    assert [line for line in (LOCK + BOOTSTRAP).splitlines() if line.startswith("-")] == []
    assert "://" not in LOCK + BOOTSTRAP


def test_the_lock_answers_each_requirement() -> None:
    locked = entries(LOCK)
    extras = PROJECT["optional-dependencies"].values()
    wanted = [*PROJECT["dependencies"], *(line for lines in extras for line in lines)]

    unanswered = [
        line
        for line in wanted
        if (requirement := Requirement(line)).name != PROJECT["name"]
        if not requirement.specifier.contains(
            locked.get(normal(requirement.name), ("0", 0))[0], prereleases=True
        )
    ]
    assert unanswered == []


def test_the_installer_is_the_locked_one() -> None:
    assert entries(BOOTSTRAP) == {"uv": entries(LOCK)["uv"]}
