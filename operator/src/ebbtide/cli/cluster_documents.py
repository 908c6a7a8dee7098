"""Objects of our kinds, read from a cluster by the credentials that kubectl uses."""

import asyncio
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import click

from ebbtide.cli.documents import POOL, Documents

PAGE: Final = "500"
ATTEMPTS: Final = 2
"""A person waits: whoever does not answer twice is not there."""


def fetch_pools(context: str, *, kubeconfig: str | None) -> Documents:
    """Return the CapacityPools of a cluster; raises ClickException where it does not give them."""
    if find_spec("kubernetes") is None or find_spec("aiohttp") is None:
        raise click.UsageError(
            "--context needs the Kubernetes client, which is not installed:"
            " pip install 'ebbtide[operator]'"
        )
    from ebbtide.cluster.errors import ClusterError

    place = f"context {context}"
    try:
        found = asyncio.run(_list_pools(context, None if kubeconfig is None else Path(kubeconfig)))
    except ClusterError as error:
        raise click.ClickException(f"{place}: CapacityPools cannot be read: {error}") from error
    return Documents(file=place, objects={POOL: found})


async def _list_pools(context: str, kubeconfig: Path | None) -> list[dict[str, Any]]:
    from ebbtide.cluster.client import Client, Limits, Login
    from ebbtide.cluster.paths import POOLS

    found: list[dict[str, Any]] = []
    params = {"limit": PAGE}
    login = Login(kubeconfig=kubeconfig, context=context)
    async with Client(login, limits=Limits(attempts=ATTEMPTS)) as client:
        while True:
            page = json.loads(await client.read(POOLS, params))
            found += page.get("items") or []
            rest = (page.get("metadata") or {}).get("continue")
            if not rest:
                return found
            params = {"limit": PAGE, "continue": rest}
