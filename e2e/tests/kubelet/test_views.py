"""However a container sees the machine, it finds there what it needs and leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from world.kubelet.detection import find_view
from world.kubelet.views import View

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.kubelet.conftest import Bench
    from world.kubelet import Kubelet
    from world.session import Session

every_view = pytest.mark.parametrize("view", list(View), indirect=True)

NOBODY: Final = 65534
OPEN_TO_ALL: Final = "/tmp"  # noqa: S108 -- what is made in it is closed again
REPOSITORY: Final = Path(__file__).resolve().parents[3]
SECONDS: Final = 150.0
# In a mount namespace of its own: where a closed folder hides what the user needs, only that is
# left in it. Arguments: an empty folder, the closed folders, "--", what is needed, "--", a command.
REVEAL: Final = """
set -e
mount --rbind / "$1"
host=$1
shift
while [ "$1" != -- ]; do mount -t tmpfs -o mode=755 tmpfs "$1"; shift; done
shift
while [ "$1" != -- ]; do
  [ -e "$1" ] || { mkdir -p "$1"; mount --rbind "$host$1" "$1"; }
  shift
done
shift
exec "$@"
"""

READS: Final = """
set -e
hostname
test "$(cat /proc/1/comm)" = sh
echo x >/dev/null
test "$(head -c 3 /dev/urandom | wc -c)" = 3
echo shared >/dev/shm/word; cat /dev/shm/word
grep -c "$HOSTNAME" /etc/hosts
echo reason >/dev/termination-log
cat /usr/share/ebbtide-test/new/in
! touch /usr/share/ebbtide-test/fixed/in 2>/dev/null
test -d /sys/kernel
python -c 'import aiohttp; print(aiohttp.__name__)'
"""


@every_view
async def test_a_container_finds_what_it_needs(bench: Bench, node: Kubelet) -> None:
    for name in ("new", "fixed"):
        (bench.root / name).mkdir()
        (bench.root / name / "in").write_text(f"{name}\n", encoding="utf-8")
    base = "/usr/share/ebbtide-test"  # a folder that is not there, in one that is not the user's
    mounts = [
        {"name": "new", "mountPath": f"{base}/new"},
        {"name": "fixed", "mountPath": f"{base}/fixed", "readOnly": True},
    ]
    volumes = [
        {"name": name, "hostPath": {"path": str(bench.root / name)}} for name in ("new", "fixed")
    ]
    container = {"volumeMounts": mounts}

    await bench.pod(
        node, "reader", READS, container=container, spec={"volumes": volumes, "hostname": "named"}
    )

    pod = await bench.ended("reader")
    log = await bench.log("reader")
    assert log == "named\nshared\n1\nnew\naiohttp\n"
    state = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (state["exitCode"], state["message"]) == (0, "reason\n")
    assert not Path(base).exists()


@every_view
async def test_what_a_container_writes_ends_with_it(
    bench: Bench, node: Kubelet, namespace: str
) -> None:
    places = ("/tmp", "/var/tmp", "/run", "/root", "/dev/shm", "")  # noqa: S108 - in the container
    files = [f"{place}/{namespace}" for place in places]
    everywhere = [*files, f"/usr/{namespace}", f"{bench.root}/{namespace}"]
    script = f"""
    for file in {" ".join(files)}; do echo word >$file && cat $file; done
    for file in {" ".join(everywhere)}; do touch $file; done 2>/dev/null; true
    """

    await bench.pod(node, "writer", script)

    await bench.ended("writer")
    assert await bench.log("writer") == "word\n" * len(places)
    assert [file for file in everywhere if os.access(file, os.F_OK)] == []


async def test_the_world_has_the_best_view_as_root() -> None:
    initial = Path("/proc/self/uid_map").read_text(encoding="ascii").split()
    assert (find_view() is View.OVERLAY) == (initial == ["0", "0", str(2**32 - 1)])


# ------------------------------------------------------------------------ an ordinary user


@pytest.fixture
def user_folder() -> Iterator[Path]:
    """A folder that belongs to nobody, if there is somebody else to be; else to us."""
    # Not among the other temporary files: into a folder of pytest's nobody else may look.
    with tempfile.TemporaryDirectory(prefix="ebbtide-user-", dir=OPEN_TO_ALL) as folder:
        if is_mapped(NOBODY):
            os.chown(folder, NOBODY, NOBODY)
        yield Path(folder)


def is_mapped(user: int) -> bool:
    """Tell whether a user exists in this user namespace: in that of a user only he does."""
    lines = Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
    ranges = [tuple(map(int, line.split())) for line in lines]
    return any(first <= user < first + count for first, _, count in ranges)


def closed_folders(needed: Sequence[Path]) -> list[Path]:
    """Return the outermost folders that keep others from what is needed."""
    chains = [[*reversed(path.parents), path] for path in needed]
    found = [
        next((folder for folder in chain if not folder.stat().st_mode & 0o001), None)
        for chain in chains
    ]
    return sorted({folder for folder in found if folder is not None})


def run_as_user(program: Path, *, binary: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program of the tests as nobody; as we are, when that is an ordinary user."""
    command = [sys.executable, str(program), str(binary), str(folder)]
    if is_mapped(NOBODY):
        needed = [Path(sys.prefix), Path(sys.base_prefix), REPOSITORY, binary.parent]
        host = folder / "host"
        host.mkdir()
        command = [
            *("unshare", "--mount", "--propagation=private", "sh", "-c", REVEAL, "sh", str(host)),
            *(*map(str, closed_folders(needed)), "--", *map(str, needed), "--"),
            *("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
            *command,
        ]
    return subprocess.run(
        command,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(map(str, [REPOSITORY / "e2e"])),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(folder),
        },
        cwd="/",
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.timeout(SECONDS + 10)
def test_an_ordinary_user_has_a_world_too(session: Session, user_folder: Path) -> None:
    binary = session.control_plane.settings.binary
    program = Path(__file__).with_name("user_world.py")

    run = run_as_user(program, binary=binary, folder=user_folder)

    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["user"] == (NOBODY if is_mapped(NOBODY) else 0)
    assert found["log"] == "one\n" + 5 * "gone\n" + "written\n"
    assert (found["code"], found["faults"]) == (82, [])
    assert found["view"] in {View.PIECES.name, View.SHARED.name}
    assert (user_folder / "volume" / "file").read_text(encoding="utf-8") == "kept\n"
