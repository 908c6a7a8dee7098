"""
Two parameter servers where one is saturated: real processes, and the servers' links the limit.

Each server is reached over a link of its own that lets through so many bytes a second each way, for
all workers together, as a pod's network card does; this machine's two cores would be no honest
limit, as workers and servers share them. The workers' own computing is waiting. They push more than
one link carries, so one server is saturated whatever the machine does besides. Two have two links,
and each carries half of a push.
"""

import contextlib
import multiprocessing
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import torch
from torch import nn

from ebbtide.wire.messages import ServerMap, ServerSeat
from rows import Row
from runtime import bed
from support.pacing import Link
from support.served import Servers, Trainer

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

WORKERS: Final = 4
COMPUTE_S: Final = 0.05
PUSH_BYTES: Final = 2_000_000
LINK_BYTES_PER_S: Final = 2e7
STEPS: Final = 60
WARM_UP_STEPS: Final = 12
ROUNDS: Final = 3
BAR: Final = 1.5
"""Three quarters of what the links have room for: 2."""
MEASURED: Final = 1.753
"""CM-DARE's second server on a saturated one: ResNet-32, eight P100."""
FORK: Final = multiprocessing.get_context("fork")
_NAMES: Final = ("a", "b")

Play: TypeAlias = Callable[[], list[float]]


def rows() -> list[Row]:
    """Train with one server and with two, in turns."""
    make_model()  # a first optimizer imports for seconds; what is forked from here need not
    found: dict[int, list[float]] = {1: [], 2: []}
    for number in range(ROUNDS):
        for servers, rates in found.items():
            rates.append(measure(servers))
        print(f" {number + 1}/{ROUNDS}", end="", flush=True, file=sys.stderr)
    return rows_of(found[1], found[2])


def rows_of(one: Sequence[float], two: Sequence[float]) -> list[Row]:
    """Judge pushes a second with one server and with two."""
    single, double = statistics.median(one), statistics.median(two)
    room = LINK_BYTES_PER_S / PUSH_BYTES
    peers = {"room of the links": 2.0, "CM-DARE, 8 P100": MEASURED}
    return [
        Row("a second server on a saturated one", double / single, "x", "higher", BAR, peers),
        Row("... pushes with one", single, "/s", "higher", None, {"room of the link": room}),
        Row("... pushes with two", double, "/s", "higher", None, {"room of the links": 2 * room}),
    ]


def measure(num: int) -> float:
    """Return the pushes a second of all workers with so many servers."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(bed.open_folder())
        behind = bed.free_ports(num)
        links = [Link(port, bytes_per_second=LINK_BYTES_PER_S) for port in behind]
        before = [link.port for link in links]
        for place in range(num):
            stack.enter_context(_running(partial(serve, folder, place, behind)))
        workers = [
            stack.enter_context(_running(partial(train, folder, number, before)))
            for number in range(WORKERS)
        ]
        for link in links:  # with threads of their own: after the last fork
            stack.enter_context(link)
        return rate_of([moment for worker in workers for moment in _hear(worker)])


def _hear(worker: "Connection") -> list[float]:
    if not worker.poll(bed.PATIENCE_S):
        raise TimeoutError(f"a worker said nothing in {bed.PATIENCE_S:.0f} s")
    moments: list[float] = worker.recv()
    return moments


def rate_of(moments: Sequence[float]) -> float:
    """Return the pushes a second once all workers are at work, from when each was applied."""
    counted = sorted(moments)[WARM_UP_STEPS:]
    return (len(counted) - 1) / (counted[-1] - counted[0])


def map_of(ports: Sequence[int]) -> ServerMap:
    """Return the map of servers behind these ports."""
    seats = [
        ServerSeat(server=name, address="127.0.0.1", port=port)
        for name, port in zip(_NAMES, ports, strict=False)
    ]
    return ServerMap(number=1, servers=tuple(seats))


# ---------------------------------------------------------------- processes


@contextlib.contextmanager
def _running(play: Play) -> Iterator["Connection"]:
    """Run a part in a process that is forked, as all is imported here; give what it says."""
    ours, theirs = FORK.Pipe()
    process = FORK.Process(target=_tell, args=(play, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        process.kill()
        process.join()
        ours.close()


def _tell(play: Play, said: "Connection") -> None:
    torch.set_num_threads(1)
    said.send(play())


def make_model() -> tuple[nn.Module, torch.optim.Optimizer]:
    """Return one layer of the size of a push."""
    model = nn.Linear(PUSH_BYTES // 4, 1, bias=False)
    return model, torch.optim.SGD(model.parameters(), lr=0.001)


def serve(folder: Path, place: int, ports: Sequence[int]) -> list[float]:
    """Be one server until the bench ends it."""
    servers = Servers(folder=folder, may_share=False, steps=STEPS)
    servers.begin(_NAMES[place], port=ports[place])
    servers.running[_NAMES[place]].rearrange(map_of(ports))
    while True:
        signal.pause()


def train(folder: Path, number: int, ports: Sequence[int]) -> list[float]:
    """Be one worker; return when each of its pushes was applied."""
    servers = Servers(folder=folder, may_share=False, map=map_of(ports))
    trainer = Trainer(servers, *make_model(), name=str(number))
    trainer.until = time.monotonic() + bed.PATIENCE_S
    trainer.client.enter()
    fresh = trainer.take()
    moments = []
    while not fresh.is_done:
        time.sleep(COMPUTE_S)
        fresh = trainer.push(0.5)
        trainer.step = fresh.step
        moments.append(time.monotonic())
    trainer.client.close()
    return moments
