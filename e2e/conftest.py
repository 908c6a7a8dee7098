"""End-to-end tests: one network namespace and one control plane for all, worlds on it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from support.scratch import keep_in
from world.api import Api, ApiError
from world.build import BuildError, die_with_parent, find_or_build
from world.controlplane import Settings
from world.network import CONTROL_PLANE_ADDRESS, Network, NetworkError, enter
from world.session import Session
from world.world import OpenWorld, World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

    from world.cloud.pool import Pool

OUTSIDE: Final = pytest.StashKey[subprocess.Popen[str]]()
NETWORK: Final = pytest.StashKey[Network]()
BINARY: Final = pytest.StashKey[Path]()
END_MARK: Final = "that-is-all"
LONGEST_NAME: Final = 40
NUMBERS: Final = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    """Build what is missing and enter the namespace, before there are threads or event loops."""
    asyncio.set_event_loop(None)  # else pytest-asyncio makes one that nobody closes
    if config.option.collectonly or config.option.help:
        return
    if os.environ.get("EBBTIDE_CLUSTER") == "current":  # the user's own cluster: no world of ours
        return
    if hasattr(config, "workerinput") or getattr(config.option, "numprocesses", None):
        message = "the end-to-end tests share one control plane: run them without -n"
        raise pytest.UsageError(message)
    try:
        config.stash[BINARY] = find_or_build()
        config.stash[OUTSIDE] = _start_shell()
        config.stash[NETWORK] = enter()
    except (BuildError, NetworkError) as error:
        raise pytest.UsageError(str(error)) from error


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the shell that has stayed outside."""
    if OUTSIDE in config.stash:
        config.stash[OUTSIDE].communicate()


def _start_shell() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*die_with_parent(), "sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.fixture(scope="session", autouse=True)
def scratch(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nothing that is killed leaves its files in /tmp."""
    keep_in(tmp_path_factory.mktemp("scratch"))


@pytest.fixture
def outside(pytestconfig: pytest.Config) -> Callable[..., str]:
    """Runs a command as from another terminal, outside the namespace; gives what it prints."""
    shell = pytestconfig.stash[OUTSIDE]

    def run(*command: str) -> str:
        if shell.stdin is None or shell.stdout is None:
            pytest.fail("the shell outside has no pipes")
        shell.stdin.write(f"{shlex.join(command)} 2>&1; printf '\\n%s\\n' {END_MARK}\n")
        shell.stdin.flush()
        return "".join(iter(shell.stdout.readline, f"{END_MARK}\n"))

    return run


@pytest.fixture(scope="session")
def session(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Session]:
    """One control plane for all tests, in the namespace that the process has entered."""
    if NETWORK not in pytestconfig.stash:
        pytest.fail("this test needs the local world; run it without CLUSTER=current")
    settings = Settings(
        binary=pytestconfig.stash[BINARY],
        root=tmp_path_factory.mktemp("controlplane"),
        advertise_address=CONTROL_PLANE_ADDRESS,
    )
    with Session(network=pytestconfig.stash[NETWORK], settings=settings) as session:
        yield session


@pytest.fixture(scope="session")
def kubeconfig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For tests that need an API server and no nodes: ours, or the cluster that the user chose."""
    if os.environ.get("EBBTIDE_CLUSTER") != "current":
        session: Session = request.getfixturevalue("session")
        return session.kubeconfig
    kubectl = str(Path(sys.executable).with_name("kubectl"))
    view = [kubectl, "config", "view", "--minify", "--flatten", "--raw"]
    shown = subprocess.run(view, capture_output=True, text=True, check=False, timeout=30)
    if "client-certificate-data" not in shown.stdout:
        pytest.fail(
            "CLUSTER=current needs a kubeconfig (KUBECONFIG) whose current context logs in with a "
            f"client certificate. {shown.stderr.strip()}"
        )
    path = tmp_path_factory.mktemp("current") / "kubeconfig"
    path.touch(mode=0o600)
    path.write_text(shown.stdout, encoding="utf-8")
    return path


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> str:
    """A namespace name of the test's own, from the test's name."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    return f"{words[:LONGEST_NAME].strip('-')}-{next(NUMBERS)}"


@pytest.fixture
async def open_world(session: Session, namespace: str) -> AsyncIterator[OpenWorld]:
    """Start worlds with pools of the test's choice; afterwards they must be free of faults."""
    worlds = []
    async with contextlib.AsyncExitStack() as stack:

        async def start(pools: Iterable[Pool], **options: Any) -> World:
            world = World(session, pools=pools, namespace=namespace, **options)
            worlds.append(await stack.enter_async_context(world))
            return world

        yield start
    async with Api(session.kubeconfig) as api:
        await _remove_namespace(api, namespace)
    faults = [fault for world in worlds for fault in world.faults]
    if faults:
        message = "the world had faults that nobody expected"
        raise BaseExceptionGroup(message, faults)


async def _remove_namespace(api: Api, namespace: str) -> None:
    """Delete a test's namespace; its nodes are gone, so nobody else lets its pods go."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    with contextlib.suppress(ApiError):  # a test that opened no world has no namespace
        await api.request("DELETE", f"/api/v1/namespaces/{namespace}")
        await api.request("DELETE", pods, gracePeriodSeconds="0")
