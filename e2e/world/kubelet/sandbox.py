"""
How a container is cut off from the machine: pure text for a shell and for mount(8).

Its root shows the machine (see `views`), so that the programs of the machine serve as its image,
and nothing that it writes outside its volumes outlives it: what it writes goes to a tmpfs that only
the container's mount namespace knows.
"""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from world.kubelet.views import View, lay_out, quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# setpriv: die with the process (more exactly the thread) that started us. unshare --kill-child:
# when unshare dies, PID 1 dies, and with PID 1 the kernel ends every process of the container.
ISOLATE: Final = (
    *(shutil.which("setpriv") or "setpriv", "--pdeathsig=KILL"),
    *(shutil.which("unshare") or "unshare", "--mount", "--pid", "--uts", "--fork"),
    *("--kill-child", "--mount-proc", "--propagation=private"),
)
BEGUN: Final = "begun"
"""The word by which the script says that all is set up and the command starts now."""
NOT_FOUND: Final = "notfound"
HOST: Final = "/.host"
DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
GPU_DEVICES: Final = ("nvidia*", "dri", "infiniband")
# Kinds of file systems that hold nothing a container needs, or that it gets anew.
SKIPPED_FILE_SYSTEMS: Final = frozenset(
    [
        "autofs",
        "binfmt_misc",
        "bpf",
        "cgroup",
        "cgroup2",
        "configfs",
        "debugfs",
        "devpts",
        "devtmpfs",
        "fusectl",
        "hugetlbfs",
        "mqueue",
        "nsfs",
        "overlay",
        "proc",
        "pstore",
        "ramfs",
        "securityfs",
        "squashfs",
        "sysfs",
        "tracefs",
    ]
)
LOCKED_OPTIONS: Final = {
    "nosuid": os.ST_NOSUID,
    "nodev": os.ST_NODEV,
    "noexec": os.ST_NOEXEC,
}
SKIPPED_FOLDERS: Final = ("/proc", "/sys", "/dev")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A file or folder of the machine, to be seen in a container."""

    source: Path
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """Everything about one run of a container except its command and environment."""

    folder: Path
    """An empty folder of the machine, for the private tmpfs."""
    table: Path
    """Where the list of mounts is written for mount(8)."""
    hostname: str
    working_folder: str
    mounts: Sequence[Mount] = field(default_factory=tuple)
    view: View = View.OVERLAY


def submounts(mountinfo: str) -> list[str]:
    """Return the mount points of /proc/self/mountinfo that an overlay of / does not show."""
    found: set[str] = set()
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        point = _unescape(before.split(" ")[4])
        if after.split(" ")[0] in SKIPPED_FILE_SYSTEMS or point == "/":
            continue
        if not any(_is_within(point, folder) for folder in SKIPPED_FOLDERS):
            found.add(point)
    return sorted(
        point
        for point in found
        if not any(point != other and _is_within(point, other) for other in found)
    )


def mount_table(sandbox: Sandbox, *, shared: Iterable[str], devices: Iterable[Path]) -> str:
    """Return the lines for mount(8): devices first, then what is shared, then the volumes."""
    lines = [_line("tmpfs", "/dev/shm", "tmpfs", "mode=1777")]  # noqa: S108 - in the container
    lines += [_bind(str(device), str(device)) for device in devices]
    lines.append(_bind("/sys", "/sys"))
    if sandbox.view is View.OVERLAY:  # the other views have shown these already
        lines += [_bind(point, point) for point in shared]
    for mount in sandbox.mounts:
        source = mount.source.resolve()
        options = ["ro"] if mount.read_only else []
        if options and sandbox.view is not View.OVERLAY:
            options += _locked_options(source)
        lines.append(_bind(str(source), mount.target, *options))
    return "".join(f"{line}\n" for line in lines)


def script(
    sandbox: Sandbox, *, shared: Iterable[str], devices: Sequence[Path], becomes: bool = True
) -> str:
    """
    Return the shell program that sets up the container and becomes its command, or ends.

    Standard input is a pipe on which it says how that went: BEGUN, NOT_FOUND or an error.
    """
    folder, table = (shlex.quote(str(path)) for path in (sandbox.folder, sandbox.table))
    hostname, work = shlex.quote(sandbox.hostname), shlex.quote(sandbox.working_folder)
    folders = ["/dev/shm", "/dev/pts"]  # noqa: S108 - in the container
    folders += [str(device) for device in devices if device.is_dir()]
    files = [str(device) for device in devices if not device.is_dir()]
    for mount in sandbox.mounts:
        (folders if mount.source.is_dir() else files).append(mount.target)
    targets = [*folders, *files, sandbox.working_folder]
    folders += [str(Path(file).parent) for file in files]
    return f"""
exec 3>&0 </dev/null
fail() {{ printf '%s\\n' "$*" >&3; exit 128; }}
try() {{ said=$("$@" 2>&1 3>&-) || fail "$said"; }}
host_path=$PATH
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
unset LD_PRELOAD
cd {folder} || fail "no folder for the container"
try mount -t tmpfs -o mode=755 tmpfs {folder}
cd {folder}
mkdir upper work root
{lay_out(sandbox.view, submounts=shared, targets=targets)}
cd root
mkdir -p .host proc sys dev
cp {table} .mounts
try mount --rbind /proc proc
try mount -t tmpfs -o mode=755 tmpfs dev
try pivot_root . .host
cd /
try mkdir -p {quote(folders)}
for file in {quote(files)}; do [ -e "$file" ] || : >"$file" || fail "cannot make $file"; done
ln -s /proc/self/fd /dev/fd
ln -s /proc/self/fd/0 /dev/stdin
ln -s /proc/self/fd/1 /dev/stdout
ln -s /proc/self/fd/2 /dev/stderr
try mount --all --fstab /.mounts
{{ echo {hostname} >/proc/sys/kernel/hostname; }} 2>/dev/null || try hostname {hostname}
umount -l {HOST} && rmdir {HOST}
rm -f /.mounts
mkdir -p {work}
cd {work} || fail "no working directory"
PATH=$host_path
unset host_path said file path name from to count folder target more OLDPWD
command -v -- "$1" >/dev/null || {{ echo {NOT_FOUND} >&3; exit 128; }}
echo {BEGUN} >&3
{'exec "$@" 3>&-' if becomes else ""}
"""


def device_files(folder: Path = Path("/dev")) -> list[Path]:
    """Return the devices that a container sees, the GPUs among them."""
    found = [folder / name for name in DEVICES]
    for pattern in GPU_DEVICES:
        found += sorted(folder.glob(pattern))
    return [path for path in found if path.exists()]


def _locked_options(source: Path) -> list[str]:
    """Return what a remount must repeat in a user namespace: there it may take no option away."""
    flags = os.statvfs(source).f_flag
    return [name for name, flag in LOCKED_OPTIONS.items() if flags & flag]


def _bind(source: str, target: str, *options: str) -> str:
    return _line(f"{HOST}{source}", target, "none", ",".join(["rbind", *options]))


def _line(source: str, target: str, kind: str, options: str) -> str:
    return f"{_escape(source)} {_escape(target)} {kind} {options} 0 0"


def _escape(path: str) -> str:
    for letter in "\\ \t\n#":
        path = path.replace(letter, f"\\{ord(letter):03o}")
    return path


def _unescape(path: str) -> str:
    for letter in " \t\n#\\":
        path = path.replace(f"\\{ord(letter):03o}", letter)
    return path


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
