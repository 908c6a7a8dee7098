"""The commands that lay out a container's root; what they do is tried in e2e/tests/kubelet."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from world.kubelet import sandbox
from world.kubelet.views import View, lay_out, quote


def test_an_overlay_on_the_root_needs_to_know_nothing() -> None:
    text = lay_out(View.OVERLAY, submounts=["/home"], targets=["/volume"])

    assert "lowerdir=/," in text
    assert "/home" not in text


@pytest.mark.parametrize("view", [View.PIECES, View.SHARED])
def test_the_commands_are_a_program_whatever_the_paths_are(view: View) -> None:
    odd = "/a b/$(touch x)/'q'"

    text = lay_out(view, submounts=["/home/user", odd], targets=[odd])

    subprocess.run(["sh", "-n", "-c", text], check=True, timeout=10)
    assert f"place {odd}" not in text
    assert quote([odd]) in text


@pytest.mark.parametrize(
    ("path", "view", "crowded"),
    [
        ("/srv", View.PIECES, True),
        ("/srv/a b", View.PIECES, True),
        ("/srv/a b/data", View.PIECES, False),
        ("/usr", View.PIECES, False),
        ("/usr", View.SHARED, True),
    ],
)
def test_a_folder_with_mounts_below_it_takes_no_overlay(
    path: str, view: View, *, crowded: bool
) -> None:
    text = lay_out(view, submounts=["/srv/a b/data"], targets=[])
    (function,) = [line for line in text.splitlines() if line.startswith("crowded()")]

    run = subprocess.run(
        ["sh", "-c", f'{function}\ncrowded "$1"', "sh", path], check=False, timeout=10
    )

    assert (run.returncode == 0) == crowded


def test_a_read_only_mount_keeps_the_options_that_a_user_may_not_take_away() -> None:
    box = sandbox.Sandbox(
        folder=Path("/run/stage"),
        table=Path("/run/table"),
        hostname="worker-0",
        working_folder="/",
        mounts=[sandbox.Mount(source=Path("/proc"), target="/seen", read_only=True)],
        view=View.PIECES,
    )

    options = sandbox.mount_table(box, shared=[], devices=[]).split()[-3].split(",")

    flags = os.statvfs("/proc").f_flag
    assert options[:2] == ["rbind", "ro"]
    assert ("nosuid" in options) == bool(flags & os.ST_NOSUID)
    assert ("noexec" in options) == bool(flags & os.ST_NOEXEC)
