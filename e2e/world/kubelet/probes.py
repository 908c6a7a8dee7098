"""Startup, readiness and liveness probes of a container."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import aiohttp

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from world.kubelet.process import Process

Json: TypeAlias = dict[str, Any]

HTTP_OK: Final = range(200, 400)
DEFAULTS: Final = {
    "initialDelaySeconds": 0,
    "periodSeconds": 10,
    "timeoutSeconds": 1,
    "successThreshold": 1,
    "failureThreshold": 3,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prober:
    """One probe of one run of a container."""

    probe: Json
    container: Json
    ip: str
    process: Process
    environment: Mapping[str, str]

    async def verdicts(self) -> AsyncGenerator[bool, None]:
        """Yield True or False each time that a threshold is reached."""
        settings = {key: self.probe.get(key) or value for key, value in DEFAULTS.items()}
        await asyncio.sleep(settings["initialDelaySeconds"])
        last, streak = False, 0
        while True:
            answer = await self._ask_in_time(settings["timeoutSeconds"])
            streak = streak + 1 if answer == last else 1
            last = answer
            if streak >= settings["successThreshold" if answer else "failureThreshold"]:
                yield answer
            await asyncio.sleep(settings["periodSeconds"])

    async def _ask_in_time(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                return await self._ask()
        except (OSError, TimeoutError, aiohttp.ClientError):
            return False

    async def _ask(self) -> bool:
        match self.probe:
            case {"exec": question}:
                return await self._execute(question["command"])
            case {"tcpSocket": question}:
                host = question.get("host") or self.ip
                _, writer = await asyncio.open_connection(host, self._port(question))
                writer.close()
                return True
            case {"httpGet": question}:
                return await self._get(question)
            case _:
                return False  # gRPC is not spoken here, so such a container never gets ready

    async def _get(self, question: Json) -> bool:
        scheme = str(question.get("scheme") or "HTTP").lower()
        host = question.get("host") or self.ip
        path = str(question.get("path") or "/").lstrip("/")
        url = f"{scheme}://{host}:{self._port(question)}/{path}"
        headers = {found["name"]: found["value"] for found in question.get("httpHeaders") or []}
        async with (
            aiohttp.ClientSession() as session,
            session.get(url, headers=headers, ssl=False, allow_redirects=False) as response,
        ):
            return response.status in HTTP_OK

    async def _execute(self, command: list[str]) -> bool:
        pid = self.process.first_pid()
        if pid is None:
            return False
        check = await asyncio.create_subprocess_exec(
            *("nsenter", f"--target={pid}", "--mount", "--pid", "--uts", *command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=dict(self.environment),
        )
        try:
            return await check.wait() == 0
        finally:
            if check.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    check.kill()
                await check.wait()

    def _port(self, question: Json) -> int:
        port = question["port"]
        for named in self.container.get("ports") or []:
            if named.get("name") == port:
                port = named["containerPort"]
        return int(port)
