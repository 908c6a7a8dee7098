"""The kubectl that the tests lock, against one namespace."""

import asyncio
import sys
from pathlib import Path


class KubectlError(RuntimeError):
    """It did not do what was asked; the text is what it told the user."""


class Kubectl:
    """Runs commands as a user would."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self._words = (f"--kubeconfig={kubeconfig}", f"--namespace={namespace}")

    async def __call__(self, *words: str) -> str:
        """Return what a command prints; raise `KubectlError` when it fails."""
        process = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("kubectl"),
            *self._words,
            *words,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, error = await process.communicate()
        if process.returncode:
            raise KubectlError(error.decode())
        return out.decode()
