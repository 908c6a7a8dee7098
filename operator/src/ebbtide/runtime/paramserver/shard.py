"""What one server holds: its parts of all spaces, with the optimizer's states, and what it does."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import torch
from torch import Tensor

from ebbtide.runtime.paramserver.layout import BLOCK, CARRIED, DENSE, FROZEN, Layout
from ebbtide.runtime.paramserver.momenta import MOMENTUM, Momenta
from ebbtide.runtime.paramserver.optimizers import Hyper, Slot, initial_fill, update, update_rows
from ebbtide.runtime.paramserver.spaces import Part

VALUE: Final = "value"
CHUNK: Final = 1 << 17  # elements that are updated and written out while they are in the cache
MAX_TOUCHED: Final = 256  # pushes whose rows are remembered; who is further behind gets all rows


@dataclass(slots=True, kw_only=True)
class Block:
    """One part with its tensors: `value`, and the states. The first axis counts blocks."""

    part: Part
    tensors: dict[str, Tensor]

    def states(self, momentum: Tensor | None) -> dict[str, Tensor]:
        """Return the states, with a worker's own momentum where it has one."""
        found = {key: tensor for key, tensor in self.tensors.items() if key != VALUE}
        return found if momentum is None else {**found, MOMENTUM: momentum}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradient:
    """One worker's gradient, as far as it concerns this server."""

    dense: Tensor | None  # of the dense part; used up
    rows: dict[str, tuple[Tensor, Tensor]]  # by table: numbers within the table, and values
    carried: Tensor | None


@dataclass(slots=True, kw_only=True)
class Touched:
    """Rows of tables that one push changed."""

    version: int
    rows: dict[str, Tensor]


@dataclass(slots=True, kw_only=True)
class Shard:
    """All parts of one server in one state."""

    layout: Layout
    blocks: dict[str, Block]
    times: list[int]  # updates of each parameter
    momenta: Momenta
    _touched: deque[Touched] = field(default_factory=lambda: deque(maxlen=MAX_TOUCHED))
    _since: int = 0  # the version from which on all touched rows are known

    def start_log(self, version: int) -> None:
        """Remember touched rows from this version on."""
        self._touched.clear()
        self._since = version

    def apply(
        self,
        gradient: Gradient,
        *,
        groups: Sequence[Hyper],
        skipped: Sequence[int],
        weight: float,
        version: int,
        momenta: Mapping[str, Tensor],
        out: Tensor | None = None,
    ) -> None:
        """
        Apply one gradient to everything here; the state is of `version` then.

        `momenta` are those to train with, by space. `out` gets the new dense values, each stretch
        while it is still in the cache.
        """
        left_out = set(skipped)
        if gradient.dense is not None:
            if weight != 1:
                gradient.dense.mul_(weight)
            self._apply_dense(
                gradient.dense,
                groups=groups,
                left_out=left_out,
                momentum=momenta.get(DENSE),
                out=out,
            )
        if len(self._touched) == MAX_TOUCHED:
            self._since = self._touched[0].version
        touched: dict[str, Tensor] = {}
        for number, entry in enumerate(self.layout.entries):
            if entry.space in gradient.rows and number not in left_out and entry.group != FROZEN:
                touched[entry.space] = self._apply_rows(
                    entry.space,
                    gradient.rows[entry.space],
                    hyper=groups[entry.group],
                    times=self.times[number],
                    weight=weight,
                    momentum=momenta.get(entry.space),
                )
        self._touched.append(Touched(version=version, rows=touched))
        if gradient.carried is not None and CARRIED in self.blocks:
            self.blocks[CARRIED].tensors[VALUE].view(-1).copy_(gradient.carried)
        for number, entry in enumerate(self.layout.entries):
            if entry.group != FROZEN and number not in left_out:
                self.times[number] += 1

    def _apply_dense(
        self,
        dense: Tensor,
        *,
        groups: Sequence[Hyper],
        left_out: set[int],
        momentum: Tensor | None,
        out: Tensor | None,
    ) -> None:
        block = self.blocks.get(DENSE)
        if block is None:
            return
        value = block.tensors[VALUE].view(-1)
        states = {key: state.view(-1) for key, state in block.states(momentum).items()}
        for start, stop, group, times in self._runs(block.part, left_out):
            for at in range(start, stop, CHUNK):
                end = min(at + CHUNK, stop)
                piece = {key: state[at:end] for key, state in states.items()}
                slot = Slot(value=value[at:end], states=piece, times=times)
                update(self.layout.kind, slot, dense[at:end], groups[group])
                if out is not None:
                    out[at:end].copy_(value[at:end])
        if out is not None and left_out:
            out.copy_(value)  # others may have changed what this one left out

    def _runs(self, part: Part, left_out: set[int]) -> list[tuple[int, int, int, int]]:
        """Return stretches of the dense part that are updated alike: start, stop, group, times."""
        first, last = part.start * BLOCK, part.stop * BLOCK
        runs: list[tuple[int, int, int, int]] = []
        for number, entry in enumerate(self.layout.entries):
            if entry.space != DENSE or entry.group == FROZEN or number in left_out:
                continue
            start = max(entry.start, first) - first
            stop = min(entry.start + entry.size, last) - first
            if start >= stop:
                continue
            group, times = entry.group, self.times[number]
            if runs and runs[-1][1] == start and runs[-1][2:] == (group, times):
                runs[-1] = (runs[-1][0], stop, group, times)
            else:
                runs.append((start, stop, group, times))
        return runs

    def _apply_rows(
        self,
        space: str,
        rows: tuple[Tensor, Tensor],
        *,
        hyper: Hyper,
        times: int,
        weight: float,
        momentum: Tensor | None,
    ) -> Tensor:
        block = self.blocks.get(space)
        if block is None:
            return torch.empty(0, dtype=torch.int64)
        numbers, values = rows
        here = (numbers >= block.part.start) & (numbers < block.part.stop)
        numbers, gradient = numbers[here], values[here] * weight
        slot = Slot(value=block.tensors[VALUE], states=block.states(momentum), times=times)
        local = numbers - block.part.start
        update_rows(self.layout.kind, slot, rows=local, gradient=gradient, hyper=hyper)
        return numbers

    # ------------------------------------------------------------ giving it to workers

    def rows_since(self, version: int, space: str) -> tuple[Tensor, Tensor]:
        """Return a table's rows that changed after a version, with their values; all if unsure."""
        block = self.blocks[space]
        if version < self._since:
            numbers = torch.arange(block.part.start, block.part.stop)
        else:
            changed = [
                t.rows[space] for t in self._touched if t.version > version and space in t.rows
            ]
            empty = torch.empty(0, dtype=torch.int64)
            numbers = torch.cat(changed).unique() if changed else empty
        return numbers, block.tensors[VALUE][numbers - block.part.start]

    # ------------------------------------------------------------ parts of it

    def read(self, part: Part, key: str) -> Tensor:
        """Return blocks of one tensor, as they are here; `KeyError` when they are not."""
        block = self.blocks[part.space]
        if part.start < block.part.start or part.stop > block.part.stop or part.start > part.stop:
            raise KeyError(part)
        return block.tensors[key][part.start - block.part.start : part.stop - block.part.start]

    def copy(self) -> "Shard":
        """Return a copy that does not change."""
        self.momenta.gather()
        blocks = {
            space: Block(part=block.part, tensors={k: t.clone() for k, t in block.tensors.items()})
            for space, block in self.blocks.items()
        }
        return _shard(self.layout, blocks, times=self.times)


def build(layout: Layout, parts: Sequence[Part], *, times: Sequence[int]) -> Shard:
    """Return a shard of these parts in which nothing has happened yet; values are not set."""
    blocks = {part.space: Block(part=part, tensors=_tensors(layout, part)) for part in parts}
    return _shard(layout, blocks, times=times)


def _shard(layout: Layout, blocks: dict[str, Block], *, times: Sequence[int]) -> Shard:
    common = {
        space: block.tensors[MOMENTUM]
        for space, block in blocks.items()
        if MOMENTUM in block.tensors
    }
    return Shard(layout=layout, blocks=blocks, times=list(times), momenta=Momenta(common=common))


def keys_of(layout: Layout, space: str) -> tuple[str, ...]:
    """Return the names of the tensors that a space has."""
    return (VALUE,) if space == CARRIED else (VALUE, *layout.states)


def _tensors(layout: Layout, part: Part) -> dict[str, Tensor]:
    if part.space == CARRIED:
        return {VALUE: torch.zeros(len(part), layout.carried_bytes, dtype=torch.uint8)}
    shape = (len(part), layout.row_size(part.space))
    tensors = {key: torch.zeros(shape) for key in keys_of(layout, part.space)}
    for entry in layout.entries:
        if entry.space != part.space or entry.group == FROZEN:
            continue
        fill = initial_fill(layout.kind, layout.groups[entry.group])
        if not fill:
            continue
        for key in layout.states:
            if entry.space != DENSE:
                tensors[key].fill_(fill)
            else:
                start = max(0, entry.start - part.start * BLOCK)
                stop = max(0, entry.start + entry.size - part.start * BLOCK)
                tensors[key].view(-1)[start:stop] = fill
    return tensors
