"""
Starts and stops etcd, kube-apiserver, kube-controller-manager and kube-scheduler on loopback.

Call it from the main thread: the servers end with the thread that started them, so that a killed
test run leaves none behind.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import subprocess
import time
import urllib.request
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from world.build import die_with_parent
from world.certificates import (
    Authority,
    make_service_account_keys,
    render_kubeconfig,
    write_private,
)

if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

HOST = "127.0.0.1"
ALWAYS_ALLOWED = "/healthz,/readyz,/livez,/metrics"
# An API server that has lost its etcd hangs in retries, so etcd goes last.
STOP_ORDER = ("kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd")
STOP_SECONDS = 10.0
START_SECONDS = 90.0
START_ATTEMPTS = 3
LOG_TAIL = 2_000
POLL_SECONDS = 0.05

# What training jobs, their services and their claims need. A list rather than "*", so that a new
# release does not bring controllers that change what tests see.
CONTROLLERS = (
    "disruption-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "pod-garbage-collector-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
)

# A lost node is noticed after 4 s instead of 50 s, and the pods of several lost nodes are evicted
# together instead of those of one node every 10 s.
FAST_NODE_LOSS = (
    "--node-monitor-period=1s",
    "--node-monitor-grace-period=4s",
    "--node-startup-grace-period=10s",
    "--node-eviction-rate=10",
)
# A claim that just missed its volume is bound after 1 s instead of 15 s.
FAST_BINDING = ("--pvclaimbinder-sync-period=1s",)
# Pods leave a lost node after 5 s instead of 300 s.
FAST_EVICTION = (
    "--default-not-ready-toleration-seconds=5",
    "--default-unreachable-toleration-seconds=5",
)


def pick_port() -> int:
    """Pick a free port; it can still be taken before it is used, hence the retried start."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


class ControlPlaneError(RuntimeError):
    """A server of the control plane did not start; the message holds the end of its log."""


class PortTakenError(ControlPlaneError):
    """Another process took a port between its choice and its use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What may differ from one control plane to the next."""

    binary: Path
    root: Path
    advertise_address: str = HOST
    controllers: Sequence[str] = CONTROLLERS
    api_server_flags: Sequence[str] = FAST_EVICTION
    manager_flags: Sequence[str] = (*FAST_NODE_LOSS, *FAST_BINDING)
    pick_port: Callable[[], int] = pick_port


@dataclass(slots=True)
class Server:
    """One running server."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    health: tuple[str, ...]
    started: float = field(default_factory=time.monotonic)

    def read_tail(self) -> str:
        """Return the end of the log."""
        return self.log.read_text(errors="replace")[-LOG_TAIL:]


class ControlPlane:
    """
    One control plane; its files and logs lie under `settings.root`.

    A second start on the same root makes new keys and finds the objects of the first.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.root = settings.root
        self.authority = Authority()
        self.servers: dict[str, Server] = {}
        self.startup_seconds: dict[str, float] = {}
        self.url = ""
        self.kubeconfig = self.root / "admin.kubeconfig"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def port(self) -> int:
        """The port of the API server on 127.0.0.1."""
        return int(self.url.rpartition(":")[2])

    def start(self) -> None:
        """Start all four servers; choose other ports when one was taken meanwhile."""
        self.root.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, START_ATTEMPTS + 1):
            try:
                self._start_servers()
            except PortTakenError:
                self.kill()
                if attempt == START_ATTEMPTS:
                    raise
            except BaseException:
                self.kill()
                raise
            else:
                return

    def stop(self) -> None:
        """Stop the servers one after the other, and kill the one that does not end."""
        for name in STOP_ORDER:
            if (server := self.servers.pop(name, None)) is None:
                continue
            server.process.terminate()
            try:
                server.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                server.process.kill()
                server.process.wait()

    def kill(self) -> None:
        """End every server at once, for a start that failed."""
        for server in self.servers.values():
            server.process.kill()
        for server in self.servers.values():
            server.process.wait()
        self.servers.clear()

    def write_kubeconfig(
        self, name: str, user: str, groups: Sequence[str] = (), *, server: str | None = None
    ) -> Path:
        """Write a kubeconfig for a user; `server` where the API is reached by another way."""
        text = render_kubeconfig(
            server=server or self.url,
            authority=self.authority.certificate,
            client=self.authority.issue_client(user, groups),
        )
        return write_private(self.root / f"{name}.kubeconfig", text)

    def write_serving_pair(self, name: str, hosts: Sequence[str]) -> tuple[str, str]:
        """Write certificate and key for an HTTPS server; return both paths."""
        pair = self.authority.issue_server(name, hosts)
        certificate = write_private(self.root / f"{name}.crt", pair.certificate)
        return str(certificate), str(write_private(self.root / f"{name}.key", pair.key))

    def _start_servers(self) -> None:
        self.url = f"https://{HOST}:{self.settings.pick_port()}"
        store = f"http://{HOST}:{self.settings.pick_port()}"
        files = self._write_credentials()
        self._start("etcd", self._etcd_flags(store), (f"{store}/health",))
        health = (f"{self.url}/livez", f"{self.url}/readyz")
        self._start("kube-apiserver", self._api_server_flags(store, files), health)
        port = self.settings.pick_port()
        flags = self._manager_flags(port, files)
        address = (f"https://{HOST}:{port}/healthz",)
        manager = self._spawn("kube-controller-manager", flags, address)
        port = self.settings.pick_port()
        address = (f"https://{HOST}:{port}/healthz",)
        scheduler = self._spawn("kube-scheduler", self._scheduler_flags(port), address)
        self._await_health(manager)
        self._await_health(scheduler)

    def _write_credentials(self) -> Mapping[str, Path]:
        self.kubeconfig = self.write_kubeconfig("admin", "admin", ["system:masters"])
        hosts = ("localhost", "kubernetes.default.svc", HOST, self.settings.advertise_address)
        serving = self.authority.issue_server("kube-apiserver", list(dict.fromkeys(hosts)))
        private, public = make_service_account_keys()
        contents = {
            "ca.crt": self.authority.certificate,
            "apiserver.crt": serving.certificate,
            "apiserver.key": serving.key,
            "service-accounts.key": private,
            "service-accounts.pub": public,
        }
        return {name: write_private(self.root / name, data) for name, data in contents.items()}

    def _etcd_flags(self, store: str) -> list[str]:
        return [
            f"--data-dir={self.root / 'etcd'}",
            f"--listen-client-urls={store}",
            f"--listen-peer-urls=http://{HOST}:{self.settings.pick_port()}",
            "--unsafe-no-fsync",
        ]

    def _api_server_flags(self, store: str, files: Mapping[str, Path]) -> list[str]:
        return [
            f"--etcd-servers={store}",
            f"--bind-address={HOST}",
            f"--secure-port={self.port}",
            f"--advertise-address={self.settings.advertise_address}",
            "--endpoint-reconciler-type=none",  # it would refuse an address on loopback
            f"--tls-cert-file={files['apiserver.crt']}",
            f"--tls-private-key-file={files['apiserver.key']}",
            f"--client-ca-file={files['ca.crt']}",
            f"--cert-dir={self.root / 'apiserver'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={files['service-accounts.pub']}",
            f"--service-account-signing-key-file={files['service-accounts.key']}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=RBAC",
            "--allow-privileged=true",
            "--kubelet-preferred-address-types=InternalIP",  # logs: node names have no DNS
            "--profiling=false",
            *self.settings.api_server_flags,
        ]

    def _manager_flags(self, port: int, files: Mapping[str, Path]) -> list[str]:
        kubeconfig = self.write_kubeconfig("manager", "system:kube-controller-manager")
        return [
            f"--kubeconfig={kubeconfig}",
            "--leader-elect=false",
            f"--bind-address={HOST}",
            f"--secure-port={port}",
            f"--cert-dir={self.root / 'manager'}",
            f"--service-account-private-key-file={files['service-accounts.key']}",
            f"--root-ca-file={files['ca.crt']}",
            # Without it RBAC lets nobody remove the not-ready taint, and nothing is scheduled.
            "--use-service-account-credentials=true",
            "--authentication-skip-lookup=true",
            f"--authorization-always-allow-paths={ALWAYS_ALLOWED}",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
            "--profiling=false",
            f"--controllers={','.join(self.settings.controllers)}",
            *self.settings.manager_flags,
        ]

    def _scheduler_flags(self, port: int) -> list[str]:
        kubeconfig = self.write_kubeconfig("scheduler", "system:kube-scheduler")
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 200, "burst": 400},
        }
        return [
            f"--config={write_private(self.root / 'scheduler.json', json.dumps(config))}",
            f"--bind-address={HOST}",
            f"--secure-port={port}",
            f"--cert-dir={self.root / 'scheduler'}",
            "--authentication-skip-lookup=true",
            f"--authorization-always-allow-paths={ALWAYS_ALLOWED}",
        ]

    def _start(self, name: str, flags: Sequence[str], health: tuple[str, ...]) -> None:
        self._await_health(self._spawn(name, flags, health))

    def _spawn(self, name: str, flags: Sequence[str], health: tuple[str, ...]) -> Server:
        path = self.root / f"{name}.log"
        with path.open("wb") as log:
            process = subprocess.Popen(
                [*die_with_parent(), self.settings.binary, name, *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for us: we stop the servers in order
            )
        server = Server(name=name, process=process, log=path, health=health)
        self.servers[name] = server
        return server

    def _await_health(self, server: Server) -> None:
        context = self._trust(server)
        deadline = server.started + START_SECONDS
        for url in server.health:
            while not _answers(url, context):
                self._check_alive(server)
                if time.monotonic() > deadline:
                    message = (
                        f"{server.name} did not become healthy within {START_SECONDS:.0f} s; "
                        f"{server.log} ends with:\n{server.read_tail()}"
                    )
                    raise ControlPlaneError(message)
                time.sleep(POLL_SECONDS)
        self.startup_seconds[server.name] = time.monotonic() - server.started

    def _check_alive(self, server: Server) -> None:
        if (code := server.process.poll()) is None:
            return
        tail = server.read_tail()
        message = f"{server.name} ended with status {code}; {server.log} ends with:\n{tail}"
        kind = PortTakenError if "address already in use" in tail else ControlPlaneError
        raise kind(message)

    def _trust(self, server: Server) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.authority.certificate.decode())
        if server.name != "kube-apiserver":  # both managers answer with a self-made certificate
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def _answers(url: str, context: ssl.SSLContext) -> bool:
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}),  # a proxy in the environment is not for loopback
        urllib.request.HTTPSHandler(context=context),
    )
    try:
        with opener.open(url, timeout=2):
            return True
    except (OSError, http.client.HTTPException):
        return False
