"""One rank of a group without a coordinator: plays a scene and writes down what it saw."""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import torch
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # exported, not declared

from ebbtide.runtime.building import Seat
from ebbtide.runtime.collective import Group
from ebbtide.runtime.errors import CollectiveBroken

HOST = "127.0.3.{}"


def count_descriptors() -> int:
    """Return how many descriptors are open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


class Rank:
    """A rank with its group."""

    def __init__(self, rank: int, world: int, folder: Path) -> None:
        self.rank, self.world, self.folder = rank, world, folder
        self.group = Group(HOST.format(10 + rank))
        self.seen: dict[str, Any] = {}
        if rank == 0:
            port = folder / "port.tmp"
            port.write_text(str(self.group.store_port))
            port.rename(folder / "port")
        while not (folder / "port").exists():
            time.sleep(0.01)
        self.store = (HOST.format(10), int((folder / "port").read_text()))

    def form(self, generation: int) -> None:
        """Form a generation of all ranks."""
        addresses = frozenset(HOST.format(10 + rank) for rank in range(self.world))
        self.group.form(
            Seat(
                generation=generation,
                rank=self.rank,
                world=self.world,
                store=self.store,
                addresses=addresses,
            )
        )

    def total(self) -> float:
        """Sum the ranks' numbers."""
        value = torch.full((1000,), float(self.rank + 1))
        self.group.sum_up([value, torch.zeros(3, dtype=torch.float64)])
        return float(value[0])

    def time_break(self) -> float:
        """Return how long a sum of which one rank is missing lasts until the order to break."""
        generation = self.group.seat.generation if self.group.seat else 0
        threading.Timer(0.3, self.group.break_, (generation,)).start()
        began = time.monotonic()
        try:
            self.total()
        except CollectiveBroken:
            return time.monotonic() - began - 0.3
        raise RuntimeError("nothing broke")


def again_and_again(rank: Rank) -> None:
    """Form and break many generations; count what is left open."""
    for generation in range(1, 21):
        rank.form(generation)
        rank.seen["total"] = rank.total()
        if generation % 4 == 0 and rank.rank == 1:
            (rank.folder / f"wait-{generation}").touch()
            time.sleep(0.5)
        elif generation % 4 == 0:
            rank.seen["break"] = max(rank.seen.get("break", 0.0), rank.time_break())
        rank.group.close()
        if generation == 4:
            rank.seen["descriptors"] = count_descriptors()
    rank.seen["more"] = count_descriptors() - rank.seen["descriptors"]


def late_order(rank: Rank) -> None:
    """Break a generation that is over: the standing one must not notice."""
    for generation in (5, 6):
        rank.form(generation)
        rank.seen["total"] = rank.total()
        rank.group.break_(5)
    rank.seen["total"] = rank.total()


def escaped_connection(rank: Rank) -> None:
    """Break a generation of whose connections none was taken hold of."""
    rank.form(1)
    rank.total()
    if rank.rank == 1:
        while not (rank.folder / "over").exists():
            time.sleep(0.01)
        return
    for connection in rank.group._held:
        connection.close()
    rank.group._held = []
    rank.seen["break"] = rank.time_break()
    (rank.folder / "over").touch()


def missing_member(rank: Rank) -> None:
    """Form with one rank that never comes, until the order to break."""
    rank.form(1)
    rank.total()
    if rank.rank == rank.world - 1:
        return
    threading.Timer(0.3, rank.group.break_, (2,)).start()
    began = time.monotonic()
    try:
        rank.form(2)
    except CollectiveBroken:
        rank.seen["break"] = time.monotonic() - began - 0.3
    (rank.folder / f"broken-{rank.rank}").touch()
    while not (rank.folder / f"broken-{1 - rank.rank}").exists():
        time.sleep(0.01)  # the coordinator forms again when all hold still
    rank.world -= 1
    rank.form(3)
    rank.seen["total"] = rank.total()


def unreachable_member(rank: Rank) -> None:
    """Form with a rank that gave its address and died: gloo alone tries for 25 seconds."""
    rank.form(1)
    store = TCPStore(*rank.store, is_master=False, wait_for_workers=False)
    if rank.rank == 1:
        for key in store.list_keys():
            again: Any = store.get(key)  # bytes, which torch takes but does not declare
            store.set(key.replace("generation/1", "generation/2"), again)
        (rank.folder / "gone").touch()
        os._exit(0)
    while not (rank.folder / "gone").exists():
        time.sleep(0.01)
    time.sleep(0.3)
    store.delete_key("generation/2/0/0")
    threading.Timer(0.5, rank.group.break_, (2,)).start()
    began = time.monotonic()
    try:
        rank.form(2)
    except CollectiveBroken:
        rank.seen["break"] = time.monotonic() - began - 0.5
    rank.world = 1
    rank.form(3)
    rank.seen["total"] = rank.total()


def send_state(rank: Rank) -> None:
    """Broadcast more than one chunk."""
    rank.form(1)
    size = (1 << 26) + 5
    value = torch.full((size,), 7 if rank.rank == 1 else 0, dtype=torch.uint8)
    rank.group.broadcast(value, source=1)
    rank.seen["wrong"] = int((value != 7).sum())


SCENES = {
    scene.__name__: scene
    for scene in (
        again_and_again,
        late_order,
        escaped_connection,
        missing_member,
        unreachable_member,
        send_state,
    )
}


def main() -> None:
    """Play the scene that the command line names."""
    scene, number, world, folder = sys.argv[1:]
    rank = Rank(int(number), int(world), Path(folder))
    SCENES[scene](rank)
    (Path(folder) / f"seen-{number}.json").write_text(json.dumps(rank.seen))


if __name__ == "__main__":
    main()
