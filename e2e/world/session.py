"""
What all worlds of a process share: the network namespace and one control plane in it.

    with Session.open(root) as session:                 # before any thread or event loop
        async with World(session, pools=[...]) as world:
            ...

Starting it costs four seconds and 0.6 GB; worlds on it, one after the other, cost next to nothing.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Self

from world.build import find_or_build
from world.controlplane import ControlPlane, Settings
from world.network import CONTROL_PLANE_ADDRESS, Network, enter

if TYPE_CHECKING:
    import types
    from collections.abc import Iterator
    from pathlib import Path


class Session:
    """A running control plane and the network around it; a context manager."""

    def __init__(self, *, network: Network, settings: Settings) -> None:
        """Start nothing yet."""
        self.network = network
        self.control_plane = ControlPlane(settings)
        self._worlds = itertools.count()

    @classmethod
    @contextlib.contextmanager
    def open(cls, root: Path) -> Iterator[Self]:
        """Find or build the control plane, enter the namespace, and start it."""
        binary = find_or_build()  # first: a build may need the network of the machine
        network = enter()
        settings = Settings(binary=binary, root=root, advertise_address=CONTROL_PLANE_ADDRESS)
        with cls(network=network, settings=settings) as session:
            yield session

    def __enter__(self) -> Self:
        """Start the control plane, and let the outside reach it."""
        self.control_plane.start()
        try:
            self.network.forward_to(self.control_plane.port)
            self.outside_kubeconfig = self.control_plane.write_kubeconfig(
                "outside",
                "admin",
                ["system:masters"],
                server=f"https://127.0.0.1:{self.network.outside_port}",
            )
            addresses = [f"10.77.{number}.1" for number in range(1, 255)]
            self.serving = self.control_plane.write_serving_pair("kubelet", addresses)
        except BaseException:
            self.control_plane.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        """Stop the control plane."""
        self.network.stop_forwarding()
        self.control_plane.stop()

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, for processes inside the namespace."""
        return self.control_plane.kubeconfig

    def make_tag(self) -> str:
        """Return a part for node names that no other world on this session has."""
        number = next(self._worlds)
        return f"w{number}-" if number else ""
