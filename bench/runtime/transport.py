"""
A push and a pull of 25 MB on one node: ours, torch RPC and gRPC, with the same SGD behind each.

Each way has a server process of its own; the three take turns, so that a busy machine is busy for
all. Ours has gradients and parameters in memory that both processes map: gradients are written
there before the clock starts, as the peers' are made before theirs does.
"""

import concurrent.futures
import contextlib
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import grpc  # type: ignore[import-untyped]  # its stubs are a package of their own
import torch
from torch import Tensor, nn
from torch.distributed import rpc

from rows import Row
from support.served import Servers, Trainer

BYTES: Final = 25_000_000
ROUNDS: Final = 31
WARM_UP: Final = 3
RATE: Final = 0.001
RPC_BAR: Final = 4.0
GRPC_BAR: Final = 10.0
METHOD: Final = "/bench/Push"
LIMITS: Final = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
]

Push = Callable[[], object]


def rows() -> list[Row]:
    """Measure all three in turns."""
    seconds: dict[str, list[float]] = {"ebbtide": [], "torch RPC": [], "gRPC": []}
    with contextlib.ExitStack() as stack:
        ways: dict[str, Push] = {
            "ebbtide": stack.enter_context(ours()),
            "torch RPC": stack.enter_context(torch_rpc()),
            "gRPC": stack.enter_context(grpc_way()),
        }
        for number in range(WARM_UP + ROUNDS):
            for name, push in ways.items():
                began = time.perf_counter()
                push()
                if number >= WARM_UP:
                    seconds[name].append(time.perf_counter() - began)
            print(".", end="", flush=True, file=sys.stderr)
    return rows_of(seconds)


def rows_of(seconds: dict[str, list[float]]) -> list[Row]:
    """Judge the medians."""
    middle = {name: 1000 * statistics.median(each) for name, each in seconds.items()}
    mine = middle.pop("ebbtide")
    rpc_times, grpc_times = middle["torch RPC"] / mine, middle["gRPC"] / mine
    return [
        Row("transport: push + pull of 25 MB", mine, "ms", "lower", None, middle),
        Row("... times faster than torch RPC", rpc_times, "x", "higher", RPC_BAR),
        Row("... times faster than gRPC", grpc_times, "x", "higher", GRPC_BAR),
    ]


# ---------------------------------------------------------------- ours


@contextlib.contextmanager
def ours() -> Iterator[Push]:
    """One server process that shares this one's memory."""
    with tempfile.TemporaryDirectory() as folder, serve("ours", folder) as port:
        servers = Servers(folder=Path(folder))
        servers.point_at("127.0.0.1", port)
        model = nn.Linear(BYTES // 4, 1, bias=False)
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
        trainer = Trainer(servers, model, optimizer, name="bench")
        trainer.until = float("inf")
        trainer.client.enter()
        trainer.take()
        trainer.binding.shared.gradient.fill_(0.5)
        groups = trainer.binding.groups()

        def push() -> None:
            fresh = trainer.client.push(
                trainer.step, groups=groups, refill=lambda: ((), {}), wants_more=True
            )
            trainer.step = fresh.step

        yield push
        trainer.client.close()


def serve_ours(port: int, folder: str) -> None:
    """Be the server: the coordinator's part is one map."""
    servers = Servers(folder=Path(folder), steps=10**9)
    servers.start("a", port=port)
    sys.stdin.read()  # until the client ends


# ---------------------------------------------------------------- torch RPC

_PARAMETERS: dict[str, Tensor] = {}


def apply(gradient: Tensor) -> Tensor:
    """Run where the parameters are: one step of SGD, and what came of it."""
    parameters = _PARAMETERS.setdefault("all", torch.zeros(BYTES // 4))
    return parameters.add_(gradient, alpha=-RATE)


@contextlib.contextmanager
def torch_rpc() -> Iterator[Push]:
    """Two processes of torch's RPC over its own transport."""
    gradient = torch.full((BYTES // 4,), 0.5)
    with serve("rpc", "") as port:
        _init_rpc("client", rank=1, port=port)
        yield lambda: rpc.rpc_sync("server", apply, args=(gradient,))
        rpc.shutdown()


def serve_rpc(port: int, _folder: str) -> None:
    """Be the server."""
    _init_rpc("server", rank=0, port=port)
    rpc.shutdown()  # waits for the client's


def _init_rpc(name: str, *, rank: int, port: int) -> None:
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(port)
    options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=60)
    rpc.init_rpc(name, rank=rank, world_size=2, rpc_backend_options=options)


# ---------------------------------------------------------------- gRPC


@contextlib.contextmanager
def grpc_way() -> Iterator[Push]:
    """A unary call with bytes in both directions."""
    gradient = torch.full((BYTES // 4,), 0.5)
    with serve("grpc", "") as port, grpc.insecure_channel(f"127.0.0.1:{port}", LIMITS) as channel:
        call = channel.unary_unary(METHOD)

        def push() -> Tensor:
            answer = call(gradient.numpy().tobytes(), wait_for_ready=True, timeout=60)
            return torch.frombuffer(bytearray(answer), dtype=torch.float32)

        yield push


class _Handler(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
    def service(self, _details: object) -> object:
        def answer(request: bytes, _context: object) -> bytes:
            gradient = torch.frombuffer(bytearray(request), dtype=torch.float32)
            return apply(gradient).numpy().tobytes()

        return grpc.unary_unary_rpc_method_handler(answer)


def serve_grpc(port: int, _folder: str) -> None:
    """Be the server."""
    workers = concurrent.futures.ThreadPoolExecutor(2)
    server = grpc.server(workers, handlers=[_Handler()], options=LIMITS)
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    sys.stdin.read()
    server.stop(0)


# ---------------------------------------------------------------- processes

SERVERS: Final = {"ours": serve_ours, "rpc": serve_rpc, "grpc": serve_grpc}


@contextlib.contextmanager
def serve(way: str, folder: str) -> Iterator[int]:
    """Run a server process; give its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    process = subprocess.Popen(
        [sys.executable, "-m", "runtime.transport", way, str(port), folder],
        stdin=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        yield port
    finally:
        if process.stdin is not None:
            process.stdin.close()
        process.wait(30)


if __name__ == "__main__":
    torch.set_num_threads(1)
    SERVERS[sys.argv[1]](int(sys.argv[2]), sys.argv[3])
