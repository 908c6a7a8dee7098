"""What pools give over time, and what they cost: the files of `ebbtide simulate --job`."""

from typing import TYPE_CHECKING, Any

import click

from ebbtide.cli.fit import complaints
from ebbtide.cli.tables import read_tables

if TYPE_CHECKING:  # commands import late: `ebbtide --help` stays fast
    from ebbtide.core.models.table import Table
    from ebbtide.core.simulator.virtual.timing import Change, Trace
    from ebbtide.core.values.pool import Pool


def read_pool_trace(given: dict[str, Any], pools: tuple["Pool", ...]) -> "Trace":
    """Read the trace of the options; complain with file, row, column and value."""
    from ebbtide.core.simulator.virtual.tables import first_second, read_pool_prices
    from ebbtide.core.simulator.virtual.timing import Trace

    file = _source(given)
    with complaints(file):
        table = read_tables([file])
        nodes = _nodes(table, given, pools)
        start_s = first_second(table)
    if given["prices"] is None:
        return Trace(nodes=nodes)
    names = [pool.name for pool in pools]
    with complaints(given["prices"]):
        prices = read_pool_prices(read_tables([given["prices"]]), names, start_s=start_s)
    return Trace(nodes=nodes, usd_per_node_hour=prices)


def _source(given: dict[str, Any]) -> str:
    files = [given[name] for name in ("availability", "events") if given[name] is not None]
    if len(files) != 1:
        found = "both are" if files else "none is"
        raise click.UsageError(f"exactly one of --availability, --events is needed; {found} given")
    if given["pool"] is not None and given["events"] is None:
        raise click.UsageError("--pool says whose nodes --events names, which is not given")
    return str(files[0])


def _nodes(
    table: "Table", given: dict[str, Any], pools: tuple["Pool", ...]
) -> dict[str, tuple["Change", ...]]:
    from ebbtide.core.simulator.virtual.tables import read_availability, read_node_events

    if given["events"] is None:
        return read_availability(table, {pool.name for pool in pools})
    return {_pool(given["pool"], pools): read_node_events(table)}


def _pool(name: str | None, pools: tuple["Pool", ...]) -> str:
    """Return the pool of the events."""
    from ebbtide.core.values.pool import Market

    known = ", ".join(pool.name for pool in pools)
    if name is not None:
        if all(pool.name != name for pool in pools):
            raise click.BadParameter(
                f"there is no pool {name!r}; pools are: {known}", param_hint="--pool"
            )
        return name
    spot = [pool.name for pool in pools if pool.market is Market.SPOT]
    if len(spot) != 1:
        raise click.UsageError(
            f"--events names the nodes of one pool, and {len(spot)} are on spot: say which by"
            f" --pool; pools are: {known}"
        )
    return spot[0]
