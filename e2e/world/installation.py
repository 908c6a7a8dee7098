"""
Ebbtide installed in a world: its kinds, its pools, and the operator as a process of ours.

The operator runs as it does in a cluster, from its own entry point, against the real API server;
being a process, it can also be killed at any moment and started again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import yaml

from world.api import ApiError
from world.build import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from world.world import World

ROOT: Final = Path(__file__).resolve().parents[2]
CRDS: Final = ROOT / "crds"
APPLY: Final = "application/apply-patch+yaml"
KINDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POOLS: Final = "/apis/ebbtide.dev/v1alpha1/capacitypools"
CONTENTS: Final = {"ghcr.io/ebbtide/*": {"/opt/ebbtide/examples": ROOT / "examples"}}
"""What our images hold, for the world's nodes."""
COORDINATOR_IMAGE: Final = "ghcr.io/ebbtide/ebbtide:0.1.0"
STOP_SECONDS: Final = 10.0
NOT_FOUND: Final = 404
LOG_TAIL: Final = 4_000

FAST: Final[Mapping[str, Any]] = {
    "capacityWaitSeconds": 12,
    "nodeLostSeconds": 3,
    "coordinatorGraceSeconds": 60,
    "imageWaitSeconds": 5,
    "finishGraceSeconds": 20,
    "zombieSeconds": 8,
    "failureDelaySeconds": 1,
    "failureDelayLimitSeconds": 4,
    "failureWindowSeconds": 2,
    "progressSeconds": 0.5,
    "regroupSeconds": 2,
}
"""The operator's delays for tests: the same rules, sooner."""


class Operator:
    """The operator as a process of ours: it can be killed at any moment and started again."""

    def __init__(
        self, kubeconfig: Path, folder: Path, *, settings: Mapping[str, Any] = FAST
    ) -> None:
        """Start nothing yet; `folder` takes its configuration and its log."""
        self.log = folder / "operator.log"
        self._config = folder / "operator.yaml"
        self._kubeconfig = kubeconfig
        self._settings = dict(settings)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it goes when we go."""
        self._config.write_text(
            yaml.safe_dump({**self._settings, "coordinatorImage": COORDINATOR_IMAGE})
        )
        command = [
            *die_with_parent(),
            sys.executable,
            "-m",
            "ebbtide.controller",
            f"--config={self._config}",
            f"--kubeconfig={self._kubeconfig}",
            "--listen=127.0.0.1",
            "--health-port=0",
            "--metrics-port=0",
            "--no-lease",
        ]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.log.parent,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
            )

    def kill(self) -> None:
        """End it as a lost node does: without a word."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """End it as Kubernetes does; it must obey."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            message = f"the operator did not stop within {STOP_SECONDS} s\n{self.tail()}"
            raise TimeoutError(message) from None

    @property
    def is_running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def tail(self) -> str:
        """Return the end of its log."""
        return self.log.read_text(errors="replace")[-LOG_TAIL:] if self.log.exists() else ""


class Installation:
    """Ebbtide in one world; an asynchronous context manager."""

    def __init__(
        self,
        world: World,
        *,
        settings: Mapping[str, Any] = FAST,
        kubeconfig: Path | None = None,
        operator: Operator | None = None,
    ) -> None:
        """
        Install nothing yet.

        `operator` is one that runs already, for this world and others; without it, one of our own
        is started, with `kubeconfig` where it is not the world's.
        """
        self.world = world
        self._owned = operator is None
        self.operator = operator or Operator(
            kubeconfig or world.kubeconfig, world.root, settings=settings
        )

    async def __aenter__(self) -> Self:
        """Install the kinds and the pools of the world, and start the operator."""
        await install_kinds(self.world)
        for pool in self.world.cloud.pools.values():
            if pool.gpu is not None:
                await self._apply(POOLS, pool.manifest(factor=self.world.cloud.pace.factor))
        if not self.operator.is_running:
            self.operator.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop our operator and take the pools away; the kinds stay for the next world."""
        if self._owned:
            await asyncio.to_thread(self.operator.stop)
        for pool in self.world.cloud.pools.values():
            with contextlib.suppress(ApiError):
                await self.world.api.request("DELETE", f"{POOLS}/{pool.name}")

    async def _apply(self, collection: str, body: dict[str, Any]) -> None:
        await apply(self.world, f"{collection}/{body['metadata']['name']}", body)


async def install_kinds(world: World) -> None:
    """Install the committed CRDs, and wait until the server serves them."""
    for file in sorted(CRDS.glob("*.yaml")):
        body = yaml.safe_load(file.read_text())
        path = f"{KINDS}/{body['metadata']['name']}"
        await apply(world, path, body)
        await world.until(path, _is_established, what="established")


async def apply(world: World, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Apply an object server-side, as `kubectl apply --server-side` does."""
    return await world.api.request(
        "PATCH", path, body, content_type=APPLY, fieldManager="world", force="true"
    )


def _is_established(found: dict[str, Any] | None) -> bool:
    conditions = (found or {}).get("status", {}).get("conditions") or []
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)
