"""
One network namespace for the whole world, its addresses, and partitions by drop rules.

The process that runs the world enters the namespace itself, before it has threads or an event
loop; what it starts later is inside too. In there node N is 10.77.N.1 and its pods 10.77.N.2 and
up, all on `lo`, and the API server listens on 127.0.0.1. The way in from outside is a listening
socket that was made before.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from world.forwarder import Forwarder
from world.netlink import add_address, raise_loopback, remove_address

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
CONTROL_PLANE_ADDRESS = "10.77.0.1"
FIRST_SUBNET = 1
LAST_SUBNET = 254
COMMAND_SECONDS = 10.0
SYSTEM_PATH = "/usr/sbin:/sbin"

REFUSED = """\
the kernel refused a {kind} namespace ({error}).
The local world needs one, so that nodes have addresses and partitions of their own. Ways on:
  - run it as root, or
  - allow user namespaces:  sysctl -w kernel.unprivileged_userns_clone=1
    (and, where AppArmor restricts them, kernel.apparmor_restrict_unprivileged_userns=0), or
  - inside a container:  add --cap-add SYS_ADMIN --cap-add NET_ADMIN and a seccomp profile
    that allows unshare and mount."""

NO_MOUNTS = """\
mount and PID namespaces are refused: {error}
Pods need them for their volumes and to end as a whole. Run as root; inside a container:
add --cap-add SYS_ADMIN and --security-opt seccomp=unconfined,apparmor=unconfined."""

NO_NFT = """\
the program `nft` is missing; partitions of the data path are drop rules in it.
Install it:  apt-get install nftables   (as root; `e2e/setup-system.sh` does so)"""


class NetworkError(RuntimeError):
    """The network of the world cannot be had; the message says how to go on."""


@dataclass(slots=True)
class Network:
    """The namespace that this process is in, as entered by `enter`."""

    listener: socket.socket
    _free: list[int] = field(default_factory=lambda: [*range(FIRST_SUBNET, LAST_SUBNET + 1)])
    _cut: set[int] = field(default_factory=set)
    _forwarder: Forwarder | None = None

    @property
    def outside_port(self) -> int:
        """The port on the machine's own 127.0.0.1 that leads to the API server."""
        return int(self.listener.getsockname()[1])

    def forward_to(self, port: int) -> None:
        """Pass connections from outside on to 127.0.0.1:port in here."""
        self.stop_forwarding()
        self._forwarder = Forwarder(self.listener, ("127.0.0.1", port))
        self._forwarder.start()

    def stop_forwarding(self) -> None:
        """Pass nothing on any more."""
        if self._forwarder is not None:
            self._forwarder.stop()
            self._forwarder = None

    def take_subnet(self) -> int:
        """Reserve the N of a node's 10.77.N.x; the one that has been free longest."""
        if not self._free:
            message = f"all {LAST_SUBNET} subnets are taken: too many nodes at once"
            raise NetworkError(message)
        number = self._free.pop(0)
        self.add(node_address(number))
        return number

    def release_subnet(self, number: int) -> None:
        """Give a node's subnet back, with its address and any partition."""
        self.heal(number)
        self.remove(node_address(number))
        self._free.append(number)

    def add(self, address: str) -> None:
        """Give `lo` an address, as the kubelet asks for a pod."""
        add_address(address)

    def remove(self, address: str) -> None:
        """Take an address from `lo`."""
        remove_address(address)

    def partition(self, number: int) -> None:
        """Drop all that goes between a node's subnet and the rest; connections hang, as in life."""
        self._cut.add(number)
        self._write_rules()

    def heal(self, number: int) -> None:
        """Let a node's packets pass again."""
        if number in self._cut:
            self._cut.discard(number)
            self._write_rules()

    def _write_rules(self) -> None:
        """Replace the table in one transaction, so that no packet sees half of it."""
        rules = "\n".join(
            f"ip saddr 10.77.{n}.0/24 ip daddr != 10.77.{n}.0/24 drop\n"
            f"ip daddr 10.77.{n}.0/24 ip saddr != 10.77.{n}.0/24 drop"
            for n in sorted(self._cut)
        )
        chain = f"chain out {{\ntype filter hook output priority 0;\n{rules}\n}}"
        script = f"table inet world\ndelete table inet world\ntable inet world {{\n{chain}\n}}\n"
        run = subprocess.run(
            [find_nft(), "-f", "-"],
            input=script,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        if run.returncode:
            message = f"nft refused the drop rules of {sorted(self._cut)}: {run.stderr.strip()}"
            raise NetworkError(message)


def node_address(number: int) -> str:
    """Return the address of node N."""
    return f"10.77.{number}.1"


def find_nft() -> str:
    """Return the path of `nft`, which is rarely on a user's PATH."""
    found = shutil.which("nft") or shutil.which("nft", path=SYSTEM_PATH)
    if found is None:
        raise NetworkError(NO_NFT)
    return found


def enter() -> Network:
    """Move this process into a network namespace of its own; once, before any thread exists."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    if os.geteuid() == 0:
        _unshare(CLONE_NEWNET, "network")
    else:
        _unshare_as_user()
    _try_mounts()
    raise_loopback()
    add_address(CONTROL_PLANE_ADDRESS)
    return Network(listener=listener)


def _unshare_as_user() -> None:
    """Become root of a user namespace: the right to make networks and mounts comes with it."""
    user, group = os.geteuid(), os.getegid()
    _unshare(CLONE_NEWUSER | CLONE_NEWNET, "user")
    process = Path("/proc/self")
    (process / "setgroups").write_text("deny")
    (process / "uid_map").write_text(f"0 {user} 1")
    (process / "gid_map").write_text(f"0 {group} 1")


def _try_mounts() -> None:
    """Find out now, not at the first pod, whether pods can have mounts of their own."""
    options = ("--mount", "--propagation=private", "--pid", "--fork", "--mount-proc")
    try:
        run = subprocess.run(
            ["unshare", *options, "true"],
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
    except FileNotFoundError as error:
        message = "the program `unshare` is missing: apt-get install util-linux"
        raise NetworkError(message) from error
    if run.returncode:
        raise NetworkError(NO_MOUNTS.format(error=run.stderr.strip()))


def _unshare(flags: int, kind: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags) == 0:
        return
    number = ctypes.get_errno()
    if number == errno.EINVAL and flags & CLONE_NEWUSER:
        message = "a user namespace can be entered only by a process without other threads"
        raise NetworkError(message)
    raise NetworkError(REFUSED.format(kind=kind, error=os.strerror(number)))
