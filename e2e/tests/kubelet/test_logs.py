"""The logs of containers, asked for with kubectl as a user does."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.kubelet.conftest import Bench
    from world.kubelet import Kubelet

KUBECTL = Path(sys.executable).parent / "kubectl"
THREE = "echo one; echo two; echo three"


async def start_kubectl(bench: Bench, *words: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        KUBECTL,
        f"--kubeconfig={bench.session.kubeconfig}",
        f"--namespace={bench.namespace}",
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )


async def kubectl(bench: Bench, *words: str) -> str:
    process = await start_kubectl(bench, *words)
    async with asyncio.timeout(60):
        out, _ = await process.communicate()
    return out.decode()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param([], "one\ntwo\nthree\n", id="whole"),
        pytest.param(["--tail=1"], "three\n", id="tail"),
        pytest.param(["--tail=9"], "one\ntwo\nthree\n", id="tail longer than the log"),
        pytest.param(["--limit-bytes=5"], "one\nt", id="limit"),
        pytest.param(["-c", "main", "-f"], "one\ntwo\nthree\n", id="follow an ended container"),
    ],
)
async def test_kubectl_reads_a_log(
    bench: Bench, node: Kubelet, options: list[str], expected: str
) -> None:
    await bench.pod(node, "said", THREE)
    await bench.ended("said")

    assert await kubectl(bench, "logs", "said", *options) == expected


async def test_kubectl_follows_a_log_until_the_container_ends(bench: Bench, node: Kubelet) -> None:
    go = bench.root / "go"
    go.mkdir()
    mount = {"volumeMounts": [{"name": "go", "mountPath": "/go"}]}
    spec = {"volumes": [{"name": "go", "hostPath": {"path": str(go)}}]}
    command = "echo first; while [ ! -e /go/on ]; do sleep 0.05; done; echo last"
    await bench.pod(node, "talks", command, container=mount, spec=spec)
    await bench.phase("talks", "Running")

    process = await start_kubectl(bench, "logs", "-f", "talks")
    assert process.stdout is not None
    with contextlib.closing(process._transport):  # type: ignore[attr-defined] # also on failure
        async with asyncio.timeout(60):
            assert await process.stdout.readline() == b"first\n"
            (go / "on").touch()
            assert await process.stdout.read() == b"last\n"
            assert await process.wait() == 0


async def test_the_log_of_the_run_before_can_be_read(bench: Bench, node: Kubelet) -> None:
    await bench.pod(node, "twice", "echo run; exit 1", spec={"restartPolicy": "Always"})
    await bench.until(f"{bench.pods}/twice", lambda pod: "CrashLoopBackOff" in str(pod))

    assert await kubectl(bench, "logs", "--previous", "twice") == "run\n"


async def test_what_cannot_be_answered_is_refused(bench: Bench, node: Kubelet) -> None:
    await bench.pod(node, "said", THREE)
    await bench.ended("said")

    assert "does not support timestamps" in await kubectl(bench, "logs", "--timestamps", "said")
    assert "has no such log" in await kubectl(bench, "logs", "--previous", "said")
