"""
Object stores of this machine: real server processes that speak S3 and Google Cloud Storage.

`Gate` stands before one and passes bytes on, or holds them back as a network does that hangs.
"""

import contextlib
import http.client
import json
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import fsspec

HOST: Final = "127.0.0.1"
BUCKET: Final = "checkpoints"
PATIENCE: Final = 30.0
_PIECE: Final = 1 << 16


@dataclass(slots=True)
class Server:
    """One store, with one bucket in it."""

    scheme: str
    port: int
    process: subprocess.Popen[bytes]

    def environment(self, *, port: int | None = None) -> dict[str, str]:
        """What a pod's environment says to reach it, there or behind a gate."""
        address = f"http://{HOST}:{port or self.port}"
        if self.scheme == "gs":
            return {"STORAGE_EMULATOR_HOST": address}
        return {
            "AWS_ENDPOINT_URL": address,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def new_url(self) -> str:
        """Return a place in the bucket that nobody has used."""
        return f"{self.scheme}://{BUCKET}/{secrets.token_hex(6)}"

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()


def serve_s3() -> Server:
    """Start a server that speaks S3."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(port)]
    server = Server("s3", port, _start(command, port))
    _ask(port, "PUT", f"/{BUCKET}")
    return server


def serve_gcs() -> Server:
    """Start a server that speaks Google Cloud Storage."""
    port = free_port()
    program = str(Path(sys.executable).with_name("gcp-storage-emulator"))
    command = [program, "start", f"--host={HOST}", f"--port={port}", "--in-memory"]
    server = Server("gs", port, _start(command, port))
    _ask(port, "POST", "/storage/v1/b?project=test", body=json.dumps({"name": BUCKET}))
    return server


def files_of(url: str) -> tuple[Any, str]:
    """Return a file system of one's own, and the path in it, to look at what is really there."""
    scheme, _, path = url.partition("://")
    return fsspec.filesystem(scheme, skip_instance_cache=True, use_listings_cache=False), path


class Gate:
    """A way to a port, with a door in it."""

    def __init__(self, port: int) -> None:
        """Open, and listen at `port` of its own."""
        self._far = port
        self._door = threading.Event()
        self._door.set()
        self._closed = False
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self.num_held = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self) -> None:
        """Let nothing through from now on."""
        self._door.clear()

    def let_go(self) -> None:
        """Let everything through, what was held back too."""
        self._door.set()

    def await_held(self) -> None:
        """Wait until somebody stands before the closed door."""
        until = time.monotonic() + PATIENCE
        while not self.num_held:
            if time.monotonic() > until:
                raise TimeoutError("nobody came")
            time.sleep(0.01)

    def close(self) -> None:
        """Listen no more."""
        self._closed = True
        self._listener.close()
        self._door.set()

    def _accept(self) -> None:
        while not self._closed:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection((HOST, self._far))
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := one.recv(_PIECE):
                self.num_held += not self._door.is_set()
                self._door.wait()
                other.sendall(piece)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        one.close()  # the other is read, and closed, by the other thread


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.create_server((HOST, 0)) as free:
        return int(free.getsockname()[1])


def _start(command: list[str], port: int) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        command, env=dict(os.environ), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError):
            socket.create_connection((HOST, port), timeout=1).close()
            return process
        time.sleep(0.02)
    process.kill()
    raise TimeoutError(f"{' '.join(command)} does not serve at {port}")


def _ask(port: int, method: str, path: str, *, body: str = "") -> None:
    connection = http.client.HTTPConnection(HOST, port, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request(method, path, body=body, headers={"Content-Type": "application/json"})
        status = connection.getresponse().status
    if status >= http.client.BAD_REQUEST:
        raise RuntimeError(f"{method} {path}: {status}")
