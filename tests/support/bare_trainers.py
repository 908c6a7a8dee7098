"""
Processes for bare pods: workers that count steps with the job's real coordinator, without torch.

With them a bare job has members, reaches its last step and ends, at a tenth of what training costs.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import sys
from typing import TYPE_CHECKING, Any, Final

from ebbtide.wire.names import COORDINATOR_PORT, EXIT_DONE
from support.bare_status import TRAINER, container, terminated
from world.installation import ROOT
from world.training import INDEX_LABEL, JOB_LABEL, ROLE_LABEL

if TYPE_CHECKING:
    from pathlib import Path

    from world.api import Json
    from world.world import World

ATTEMPT_LABEL: Final = "ebbtide.dev/attempt"
STOP_SECONDS: Final = 5.0


class Trainers:
    """The processes of one job's workers, by the name of their pod."""

    def __init__(self, world: World, *, folder: Path, **options: Any) -> None:
        """Start nothing yet; `options` are those of the fake worker (support/fake_worker.py)."""
        self._world = world
        self._options = options
        self._log = folder / "trainers.log"
        self._folder = folder
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self.hangs: set[str] = set()
        """Pods that go on although their process has ended."""

    async def start(self, pod: Json) -> None:
        """Start the process of a pod once its coordinator has an address."""
        labels, name = pod["metadata"]["labels"], pod["metadata"]["name"]
        job, number = labels[JOB_LABEL], int(labels[INDEX_LABEL])
        identity = {
            "worker": name,
            "index": number,
            "attempt": int(labels[ATTEMPT_LABEL]),
            "local_rank": 0,
            "processes": 1,
            "address": f"127.0.0.{10 + number}",
            "store_port": 1,
        }
        settings = {
            "identity": identity,
            "coordinator": f"{await self._find_coordinator(job)}:{COORDINATOR_PORT}",
            "checkpoint": str(self._folder / f"{job}-checkpoint"),
            "token": await self._read_token(pod),
            **self._options,
        }
        with self._log.open("ab") as log:
            self._processes[name] = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "support.fake_worker",
                json.dumps(settings),
                stdout=log,
                stderr=log,
                env=os.environ | {"PYTHONPATH": f"{ROOT / 'operator/src'}:{ROOT / 'tests'}"},
            )

    async def end(self, pod: Json) -> Json | None:
        """Wait for a pod's own end and return the status that tells of it, if any does."""
        name = pod["metadata"]["name"]
        code = await self._processes[name].wait()
        if name in self.hangs:
            return None
        end = terminated(code, "Completed" if code == EXIT_DONE else "Error", "")
        phase = "Succeeded" if code == EXIT_DONE else "Failed"
        return {"phase": phase, "containerStatuses": [container(TRAINER, end)]}

    async def stop(self, name: str) -> None:
        """End a pod's process as a kubelet does: SIGTERM, then SIGKILL."""
        process = self._processes.get(name)
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    def kill(self, name: str) -> None:
        """Lose a pod's process with its machine."""
        process = self._processes.get(name)
        if process is not None and process.returncode is None:
            process.kill()

    async def close(self) -> None:
        """End every process."""
        for name in self._processes:
            self.kill(name)
        await asyncio.gather(*(process.wait() for process in self._processes.values()))

    async def _find_coordinator(self, job: str) -> str:
        selector = f"{JOB_LABEL}={job},{ROLE_LABEL}=coordinator"
        watch = self._world.api.watch(self._world.path("pods"), labelSelector=selector)
        async with contextlib.aclosing(watch) as events:
            async for kind, found in events:
                for pod in found if kind == "SYNC" else [found]:
                    status = pod["status"]
                    if status.get("phase") == "Running" and status.get("podIP"):
                        return str(status["podIP"])
        raise ConnectionError("the watch ended")

    async def _read_token(self, pod: Json) -> str:
        [name] = [
            volume["secret"]["secretName"]
            for volume in pod["spec"]["volumes"]
            if "secret" in volume
        ]
        path = f"{self._world.path('secrets')}/{name}"
        secret = await self._world.api.request("GET", path)
        return base64.b64decode(secret["data"]["token"]).decode()
