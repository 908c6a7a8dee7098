"""Bare nodes on a real API server, and the operator as its own process behind a proxy."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from support.bare import Fleet
from support.bare_bed import BareBed, OpenBareBed
from support.bed import spot_pool
from support.proxy import Proxy
from world.installation import FAST, Installation, install_kinds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from world.cloud.pool import Pool
    from world.world import OpenWorld


@pytest.fixture
async def open_bed(open_world: OpenWorld) -> AsyncIterator[OpenBareBed]:
    """Start a world without a cloud's pools, with bare nodes and Ebbtide in it."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(*pools: Pool, **settings: Any) -> BareBed:
            world = await open_world([])
            await install_kinds(world)
            fleet = await stack.enter_async_context(Fleet(world, *(pools or [spot_pool("spot")])))
            proxy = await stack.enter_async_context(Proxy(world))
            kubeconfig = proxy.write_kubeconfig()
            installation = Installation(world, settings={**FAST, **settings}, kubeconfig=kubeconfig)
            await stack.enter_async_context(installation)
            bed = BareBed(world, installation=installation, fleet=fleet, proxy=proxy)
            await stack.enter_async_context(bed.stack)
            return bed

        yield start


@pytest.fixture
async def bed(open_bed: OpenBareBed) -> BareBed:
    """The usual bed: a spot pool of GKE's manners, nodes of one GPU, none of them booted."""
    return await open_bed()
