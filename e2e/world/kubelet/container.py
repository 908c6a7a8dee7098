"""One container of a pod: pulled, started, watched, and started again where its pod says so."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import aiohttp

from world.api import ApiError
from world.kubelet import clock, sandbox, volumes
from world.kubelet.environment import environment, image_folders
from world.kubelet.errors import NotYetError, PullError, StoppedError, UnsupportedError
from world.kubelet.probes import Prober
from world.kubelet.process import START_ERROR, Process
from world.kubelet.sources import expand
from world.kubelet.views import SCRATCH

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from pathlib import Path

    from world.kubelet.clock import Clock
    from world.kubelet.images import ImageStore
    from world.kubelet.sources import Sources
    from world.kubelet.status import ContainerRecord

Json: TypeAlias = dict[str, Any]
Found = TypeVar("Found")

FIRST_BACKOFF: Final = 1.0
"""Seconds; a real kubelet starts at 10."""
LONGEST_BACKOFF: Final = 300.0
MISSING_SECONDS: Final = 0.5
"""Between two looks for something that a container names and that is not there."""
PULL_ERROR_SECONDS: Final = 0.3
"""How long ErrImagePull is shown before ImagePullBackOff."""
MESSAGE_BYTES: Final = 4096
LOG_MESSAGE_BYTES: Final = 2048
LOG_MESSAGE_LINES: Final = 80


@dataclass(slots=True, kw_only=True)
class Surroundings:
    """What a container shares with its pod."""

    sources: Sources
    store: ImageStore
    hosts: Path
    clock: Clock
    changed: Callable[[], None]
    """Called after each change of a record, so that the status gets written."""
    stopping: asyncio.Event
    """Set when no container of the pod may start any more."""
    volumes: Mapping[str, Path] = field(default_factory=dict)
    """Filled in when they are laid out."""

    async def pause(self, seconds: float) -> None:
        """Wait, or raise StoppedError when the pod stops."""
        await self.unless_stopped(asyncio.sleep(seconds))

    async def unless_stopped(self, work: Coroutine[Any, Any, Found]) -> Found:
        """Do something, or raise StoppedError when the pod stops meanwhile."""
        task = asyncio.ensure_future(work)
        stop = asyncio.ensure_future(self.stopping.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            if self.stopping.is_set():
                raise StoppedError
            return task.result()
        finally:
            for waiting in (task, stop):
                waiting.cancel()
            await asyncio.gather(task, stop, return_exceptions=True)

    async def until_found(
        self, make: Callable[[], Coroutine[Any, Any, Found]], missing: Callable[[str], None]
    ) -> Found:
        """Do something again and again until everything that it needs is there."""
        while True:
            try:
                return await self.unless_stopped(make())
            except NotYetError as error:
                missing(str(error))
            except ApiError as error:
                if not error.is_passing:
                    raise
            except (aiohttp.ClientError, TimeoutError):
                pass  # the API server is away, and will be back
            await self.pause(MISSING_SECONDS)


class Container:
    """Runs a container as often as wanted, and keeps its record."""

    def __init__(
        self, spec: Json, record: ContainerRecord, around: Surroundings, *, grace: float
    ) -> None:
        """Do nothing yet; `grace` counts when a probe has the container killed."""
        self.spec = spec
        self.record = record
        self._around = around
        self._grace = grace
        self._context = around.sources.context
        self._folder = self._context.folder / "containers" / record.name
        self._process: Process | None = None

    def log(self, run: int) -> Path:
        """Return the log of a run, counted as restartCount counts."""
        return self._folder / f"{run}.log"

    def terminate(self) -> None:
        """Ask the container to end."""
        if self._process is not None:
            self._process.terminate()

    def kill(self) -> None:
        """End the container, whatever it does."""
        if self._process is not None:
            self._process.kill()

    async def reaped(self) -> None:
        """Wait until no process of the container is left."""
        if self._process is not None:
            await self._process.end()

    async def keep(self, *, restarts: Callable[[int], bool]) -> None:
        """Run the container until its end is one that calls for no other run, or the pod stops."""
        backoff = 0.0
        code = self.record.exit_code if self.record.ended else None
        while code is None or restarts(code):
            ended = self.record.state
            try:
                if code is not None:
                    self.record.last_state = ended
                    await self._back_off(backoff)
                    self.record.restart_count += 1
                    backoff = min(max(2 * backoff, FIRST_BACKOFF), LONGEST_BACKOFF)
                code = await self._run()
            except StoppedError:
                if code is not None:
                    self.record.state = ended
                return
            except UnsupportedError as error:
                self._could_not_start(str(error), reason="CreateContainerConfigError")
                return

    async def _back_off(self, seconds: float) -> None:
        """Wait before another run; the first one comes at once."""
        if not seconds:
            return
        name = f"{self._context.name}_{self._context.namespace}({self._context.uid})"
        what = f"restarting failed container={self.record.name} pod={name}"
        self._wait_for("CrashLoopBackOff", f"back-off {seconds:g}s {what}")
        await self._around.pause(seconds)

    async def _run(self) -> int:
        """Run the container once and return its exit code."""
        await self._pull()
        variables = await self._around.until_found(
            lambda: environment(self.spec, self._around.sources),
            lambda message: self._wait_for("CreateContainerConfigError", message),
        )
        words = [*(self.spec.get("command") or []), *(self.spec.get("args") or [])]
        command = [expand(word, variables) for word in words]
        if not command:
            return self._could_not_start("no command specified")  # no image is ever looked into
        started = clock.to_seconds(self._around.clock())
        process = self._process = self._start(command, variables)
        try:
            return await self._follow(process, command, variables, started=started)
        finally:
            process.kill()  # matters only when we are cancelled

    async def _follow(
        self, process: Process, command: list[str], variables: dict[str, str], *, started: str
    ) -> int:
        said = await process.begin()
        record = self.record
        record.container_id = f"process://{self._context.uid[:8]}-{record.name}-{process.pid}"
        record.image_id = record.image
        if said:
            await process.end()
            if said == sandbox.NOT_FOUND:
                said = (
                    "failed to create containerd task: failed to create shim task: unable to "
                    f'start container process: exec: "{command[0]}": executable file not found'
                )
            return self._could_not_start(said, started=started)
        record.state = {"running": {"startedAt": started}}
        record.started = "startupProbe" not in self.spec
        record.ready = record.started and "readinessProbe" not in self.spec
        self._around.changed()
        probing = asyncio.ensure_future(self._probe(process, variables))
        try:
            code = await process.end()
        finally:
            probing.cancel()
            await asyncio.gather(probing, return_exceptions=True)
        if not probing.cancelled() and (error := probing.exception()):
            raise error
        self._end(code, "Error" if code else "Completed", started=started)
        return code

    async def _pull(self) -> None:
        image = self.record.image
        policy = self.spec.get("imagePullPolicy", "IfNotPresent")
        backoff = FIRST_BACKOFF
        while True:
            try:
                await self._around.unless_stopped(self._around.store.pull(image, policy=policy))
            except PullError as error:
                self._wait_for("ErrImagePull", str(error))
                await self._around.pause(PULL_ERROR_SECONDS)
                message = f'Back-off pulling image "{image}": ErrImagePull: {error}'
                self._wait_for("ImagePullBackOff", message)
                await self._around.pause(backoff)
                backoff = min(2 * backoff, LONGEST_BACKOFF)
            else:
                return

    def _start(self, command: list[str], variables: dict[str, str]) -> Process:
        run = self.record.restart_count
        stage = self._folder / f"{run}.stage"
        stage.mkdir(parents=True, exist_ok=True)
        self._termination_log.touch()
        mounts = volumes.mounts(self.spec, self._around.volumes, variables)
        ours = [
            sandbox.Mount(source=self._around.hosts, target="/etc/hosts"),
            sandbox.Mount(source=self._termination_log, target=self._termination_path),
        ]
        ours += [  # a checkout may lie where a container starts with nothing
            sandbox.Mount(source=folder, target=str(folder), read_only=True)
            for folder in image_folders()
            if any(folder.is_relative_to(scratch) for scratch in SCRATCH)
        ]
        content = self._around.store.folders(self.record.image)
        ours += [
            sandbox.Mount(source=source, target=target, read_only=True)
            for target, source in content.items()
        ]
        taken = {mount.target for mount in mounts}
        box = sandbox.Sandbox(
            folder=stage,
            table=self._folder / f"{run}.mounts",
            hostname=self._context.hostname,
            working_folder=self.spec.get("workingDir") or "/",
            mounts=[*(mount for mount in ours if mount.target not in taken), *mounts],
            view=self._around.store.view,
        )
        warm = self._around.store.warm
        return Process(command, box, environment=variables, log=self.log(run), warm=warm)

    @property
    def _termination_log(self) -> Path:
        return self._folder / f"{self.record.restart_count}.termination"

    @property
    def _termination_path(self) -> str:
        return str(self.spec.get("terminationMessagePath") or "/dev/termination-log")

    async def _probe(self, process: Process, variables: dict[str, str]) -> None:
        """Ask the startup probe first, then the others for as long as the container runs."""

        def prober(kind: str) -> Prober | None:
            probe = self.spec.get(kind)
            if not probe:
                return None
            return Prober(
                probe=probe,
                container=self.spec,
                ip=self._context.ip,
                process=process,
                environment=variables,
            )

        startup = prober("startupProbe")
        if startup is not None:
            async with aclosing(startup.verdicts()) as verdicts:
                if not await anext(verdicts):
                    self._kill_gently(process)
                    return
            self.record.started = True
            self._set_ready(ready="readinessProbe" not in self.spec)
        async with asyncio.TaskGroup() as group:
            readiness, liveness = prober("readinessProbe"), prober("livenessProbe")
            if readiness is not None:
                group.create_task(self._follow_readiness(readiness))
            if liveness is not None:
                group.create_task(self._follow_liveness(liveness, process))

    async def _follow_readiness(self, prober: Prober) -> None:
        async with aclosing(prober.verdicts()) as verdicts:
            async for verdict in verdicts:
                self._set_ready(ready=verdict)

    async def _follow_liveness(self, prober: Prober, process: Process) -> None:
        async with aclosing(prober.verdicts()) as verdicts:
            async for verdict in verdicts:
                if not verdict:
                    self._kill_gently(process)
                    return

    def _kill_gently(self, process: Process) -> None:
        process.terminate()
        asyncio.get_running_loop().call_later(self._grace, process.kill)

    def _set_ready(self, *, ready: bool) -> None:
        if self.record.ready != ready:
            self.record.ready = ready
        self._around.changed()

    def _wait_for(self, reason: str, message: str) -> None:
        self.record.state = {"waiting": {"reason": reason, "message": message}}
        self._around.changed()

    def _could_not_start(
        self, message: str, *, reason: str = "StartError", started: str = ""
    ) -> int:
        now = clock.to_seconds(self._around.clock())
        self._end(START_ERROR, reason, started=started or now, message=message)
        return START_ERROR

    def _end(self, code: int, reason: str, *, started: str, message: str = "") -> None:
        ended = {
            "exitCode": code,
            "reason": reason,
            "startedAt": started,
            "finishedAt": clock.to_seconds(self._around.clock()),
        }
        if self.record.container_id:
            ended["containerID"] = self.record.container_id
        message = message or self._termination_message(code)
        if message:
            ended["message"] = message
        self.record.state = {"terminated": ended}
        self.record.started = False
        self.record.ready = False
        self._around.changed()

    def _termination_message(self, code: int) -> str:
        message = _read_end(self._termination_log, MESSAGE_BYTES)
        fall_back = self.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        if message or not code or not fall_back:
            return message
        lines = _read_end(self.log(self.record.restart_count), LOG_MESSAGE_BYTES).splitlines(
            keepends=True
        )
        return "".join(lines[-LOG_MESSAGE_LINES:])


def _read_end(path: Path, limit: int) -> str:
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - limit))
        return file.read(limit).decode(errors="replace")
