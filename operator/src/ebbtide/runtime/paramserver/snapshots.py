"""
The whole state of all servers, taken off them by a worker that holds checkpoint duty.

The lead lets every server keep a copy at one place of its order; then this reads the copies part by
part, over connections of its own, while training goes on.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from ebbtide.runtime.errors import CheckpointError
from ebbtide.runtime.paramserver import saved
from ebbtide.runtime.paramserver.channel import Channel, ChannelClosed, connect
from ebbtide.runtime.paramserver.layout import CARRIED, Layout
from ebbtide.runtime.paramserver.messages import READER, Read, Snap, Snapped, Standing, ToReader
from ebbtide.runtime.paramserver.service import fetch
from ebbtide.runtime.paramserver.shard import keys_of
from ebbtide.runtime.paramserver.spaces import bounds
from ebbtide.wire.messages import ServerMap

CONNECT_SECONDS: Final = 3.0
SNAP_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One state, whole."""

    layout: Layout
    standing: Standing
    times: tuple[int, ...]
    spaces: Mapping[tuple[str, str], Tensor]  # by space and key

    def tree(self, side: Mapping[str, Any], *, groups: list[Any]) -> dict[str, Any]:
        """Return it as a checkpoint's content: `side` is what only a worker has."""

        def read(space: str, key: str) -> Tensor:
            return self.spaces[(space, key)]

        state = saved.optimizer_state(self.layout, read, times=self.times)
        return {
            "step": self.standing.step,
            "lineage": self.standing.lineage,
            "layout": dict(self.layout.data),
            saved.AHEAD: list(self.standing.ahead),
            "model": saved.model_state(self.layout, read),
            "optimizer": {"state": state, "param_groups": groups},
            **side,
        }


def take(servers: ServerMap | None, *, token: bytes) -> Snapshot:
    """Take the state of now; `CheckpointError` when the servers are changing just then."""
    if servers is None or not servers.servers:
        raise CheckpointError("there are no parameter servers")
    try:
        with contextlib.ExitStack() as stack:
            channels = []
            for seat in servers.servers:
                address = (seat.address, seat.port)
                channel = connect(address, token=token, role=READER, seconds=CONNECT_SECONDS)
                channels.append(stack.enter_context(contextlib.closing(channel)))
            channels[0].send(Snap())
            snapped = channels[0].read(ToReader, seconds=SNAP_SECONDS)
            if not isinstance(snapped, Snapped):
                raise CheckpointError(f"no state to save: {snapped}")
            return _read_all(snapped, channels)
    except (ChannelClosed, ValueError) as error:
        raise CheckpointError(f"the servers' state cannot be read: {error}") from error


def _read_all(snapped: Snapped, channels: list[Channel]) -> Snapshot:
    layout = snapped.layout
    spaces: dict[tuple[str, str], Tensor] = {}
    for space, blocks in layout.spaces.items():
        kind = torch.uint8 if space == CARRIED else torch.float32
        for key in keys_of(layout, space):
            whole = torch.zeros(blocks, layout.row_size(space), dtype=kind)
            for place, channel in enumerate(channels):
                start, stop = bounds(blocks, servers=len(channels), place=place)
                if start < stop:
                    asked = Read(
                        map=snapped.map,
                        number=snapped.number,
                        space=space,
                        key=key,
                        start=start,
                        stop=stop,
                    )
                    fetch(channel, asked, whole[start:stop])
            spaces[(space, key)] = whole
    return Snapshot(layout=layout, standing=snapped.standing, times=snapped.times, spaces=spaces)
