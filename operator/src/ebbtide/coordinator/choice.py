"""Who is put into the next generation, and whose state counts there. Pure functions."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ebbtide.coordinator.state import Process, Worker
from ebbtide.wire.messages import Member


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a generation's state comes from."""

    rank: int
    kind: str  # memory, checkpoint or initial
    step: int


def choose_members(
    workers: Iterable[Worker], *, present: Collection[str], desired: int
) -> list[Worker]:
    """
    Choose up to `desired` of these eligible workers, one attempt per index, in rank order.

    Who is present stays before who is not, then who is not warned comes first, then the lower
    index. Of two attempts of one index the present one stays until it is gone, else the newer one
    is taken.
    """

    def taste(worker: Worker) -> tuple[bool, bool, int, int, str]:
        return (
            worker.name not in present,
            worker.warned,
            worker.index,
            -worker.attempt,
            worker.name,
        )

    by_index: dict[int, Worker] = {}
    for worker in sorted(workers, key=taste):
        by_index.setdefault(worker.index, worker)
    chosen = list(by_index.values())[: max(0, desired)]
    return sorted(chosen, key=lambda worker: worker.index)


def seat(workers: Sequence[Worker]) -> tuple[Member, ...]:
    """Give each worker its contiguous ranks."""
    seats = []
    rank = 0
    for worker in workers:
        said = worker.processes[0].said
        seats.append(
            Member(
                worker=worker.name,
                address=said.address,
                store_port=said.store_port,
                first_rank=rank,
                processes=worker.num_processes,
            )
        )
        rank += worker.num_processes
    return tuple(seats)


def in_rank_order(workers: Sequence[Worker]) -> list[Process]:
    """The processes of these workers, by rank."""
    return [worker.processes[rank] for worker in workers for rank in range(worker.num_processes)]


def choose_source(ranks: Sequence[Process], *, committed: int, on_servers: bool = False) -> Source:
    """
    Choose whose state counts: the largest step in memory, else the newest checkpoint.

    A checkpoint that is newer than everything in memory wins: a worker that left may have saved
    more than a former member that waited as a spare still holds. Where the state is `on_servers`
    it is at hand for all as soon as one has seen it, however old what that one remembers.
    """
    memory = max((p.step for p in ranks if p.holds_state), default=-1)
    seen = max((p.checkpoint_step for p in ranks), default=-1)
    checkpoint = max(committed, seen)
    if memory >= 0 and (on_servers or memory >= checkpoint):
        rank = next(r for r, p in enumerate(ranks) if p.holds_state and p.step == memory)
        return Source(rank=rank, kind="memory", step=memory)
    if checkpoint >= 0:
        rank = next((r for r, p in enumerate(ranks) if p.checkpoint_step == seen), 0)
        return Source(rank=rank, kind="checkpoint", step=checkpoint)
    return Source(rank=0, kind="initial", step=0)


def needs_sync(ranks: Sequence[Process], source: Source) -> bool:
    """Tell whether somebody lacks exactly the state of the source."""
    if source.kind != "memory":
        return True
    return not all(p.holds_state and p.step == source.step for p in ranks)
