"""`ebbtide simulate`: replay policies over a trace of capacity that comes and goes."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ebbtide.cli.documents import as_bad_input
from ebbtide.cli.fit import complaints
from ebbtide.cli.plots import Timeline, check_picture, draw
from ebbtide.cli.ranges import RealRange
from ebbtide.cli.simulate_job import OrJob
from ebbtide.cli.simulate_trace import DEFAULTS, SPOT_USD_H, Trace, read_trace
from ebbtide.cli.tables import lay_out, use_one_thread

if TYPE_CHECKING:  # commands import late: `ebbtide --help` stays fast
    from ebbtide.core.planner.policies.history import History
    from ebbtide.core.planner.policies.moment import Terms
    from ebbtide.core.simulator.replay import Tick

POLICIES: Final = (
    "greedy",
    "on-demand",
    "spot-only",
    "uniform-progress",
    "time-sliced",
    "ebbtide",
)
"""The names of `core.simulator.fleet`, written again so that `--help` need not import numpy."""

HOUR_S: Final = 3600.0


MOST: Final = 1e9
"""A number of hours or USD beyond this is a slip of the pen."""


def _above_zero(_: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """Check an option; NaN passes every comparison of click's own ranges."""
    if value is not None and not 0 < value <= MOST:
        raise click.BadParameter(f"{value:g} is not above 0 and at most {MOST:g}", param=param)
    return value


def _from_zero(_: click.Context, param: click.Parameter, value: float | None) -> float | None:
    if value is not None and not 0 <= value <= MOST:
        raise click.BadParameter(f"{value:g} is not from 0 to {MOST:g}", param=param)
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """What is replayed: jobs that begin at `starts`, over one set of zones."""

    trace: Trace
    terms: "Terms"
    starts: tuple[int, ...]
    fit_rows: int

    @property
    def whole(self) -> "History":
        """All zones of the trace."""
        return self.trace.history


@dataclass(frozen=True, slots=True, kw_only=True)
class _Picture:
    """The picture of one job that is asked for."""

    path: Path
    job: int
    """Its number from 0."""
    logs: dict[str, list["Tick"]] = field(default_factory=dict)


@click.command(
    cls=OrJob, epilog="A whole job, decided by the operator: ebbtide simulate --job FILE --help."
)
@click.option(
    "--availability", metavar="FILE",
    help="CSV: `seconds`, then one column per zone with the nodes that can be had (0: none).",
)  # fmt: skip
@click.option(
    "--events", metavar="FILE",
    help="Instead: CSV `seconds,event,node` of nodes that come and go: add, remove, notice.",
)  # fmt: skip
@click.option(
    "--lifetimes", metavar="FILE",
    help="Instead: lives of nodes, as `ebbtide fit lifetime` reads them; a trace is drawn.",
)  # fmt: skip
@click.option(
    "--prices", metavar="FILE", help="CSV `seconds,zone,price` of spot, USD/h, over time."
)
@click.option(
    "--nodes", type=click.IntRange(1, 1_000_000), default=1, show_default=True,
    help="How many a job needs, all at once; prices are of one.",
)  # fmt: skip
@click.option(
    "--tick-seconds", type=float, callback=_above_zero,
    help="Time between two decisions over events and lives. "
    f"[default: {DEFAULTS['tick_seconds']:g}]",
)  # fmt: skip
@click.option(
    "--trace-days", type=float, callback=_above_zero,
    help="Length of the trace that is drawn from lives. "
    f"[default: {DEFAULTS['trace_days']:g}]",
)  # fmt: skip
@click.option(
    "--outage-hours", type=float, callback=_above_zero,
    help="Mean time without capacity after a revocation, which lives do not tell. "
    f"[default: {DEFAULTS['outage_hours']:g}]",
)  # fmt: skip
@click.option(
    "--policy", "policies", required=True, metavar="NAME[,NAME...]",
    help=f"Of {', '.join(POLICIES)}.",
)  # fmt: skip
@click.option(
    "--work-hours", type=float, callback=_above_zero, required=True, help="Work of a job."
)
@click.option(
    "--deadline-hours",
    type=float,
    callback=_above_zero,
    required=True,
    help="From the start of a job.",
)
@click.option(
    "--changeover-hours", type=float, callback=_from_zero, required=True,
    help="Paid time without progress at each start and move.",
)  # fmt: skip
@click.option(
    "--worst-changeover-hours", type=float, callback=_from_zero,
    help="What a policy keeps in hand; the changeover where not given.",
)  # fmt: skip
@click.option(
    "--spot-price",
    type=float,
    callback=_above_zero,
    help=f"USD/h; beside --prices, where that file says nothing. [default: {SPOT_USD_H}]",
)
@click.option(
    "--on-demand-price",
    type=float,
    callback=_above_zero,
    default=3.06,
    show_default=True,
    help="USD/h.",
)
@click.option(
    "--starts", type=click.IntRange(1, 1_000_000), help="How many to draw. [default: 100]"
)
@click.option(
    "--start-hours", metavar="LIST", help="Instead: hours since the first row, as 0,24.5."
)
@click.option(
    "--fit-fraction", type=RealRange(0, 1, max_open=True), default=0.4, show_default=True,
    help="The first part of the rows is for fitting; starts are drawn from the rest.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, help="Of all that is drawn.")
@click.option(
    "--zones", metavar="SETS", help='Sets of columns, as "a,b;c". [default: all, one set]'
)
@click.option("--plot", metavar="FILE", help="A picture of one job: FILE.png or FILE.svg.")
@click.option(
    "--plot-job", type=click.IntRange(1), help="Which of the starts, from 1. [default: 1]"
)
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table")
def simulate(**given: Any) -> None:
    """
    Replay policies over a trace and hold them against what an omniscient job would pay.

    Before each tick a policy sees what is up and chooses for the whole tick: idle, on-demand or
    one zone. Each start and each move pays the changeover. Paying stops the second the work is
    done. A late job is a miss and ends on on-demand. Hours are paid hours; hours, switches and
    costs are means over jobs.
    """
    use_one_thread()
    names = _names(given["policies"])
    _check(given)
    picture = _picture(given)
    with as_bad_input():
        trace = read_trace(given)
        sets = _zone_sets(given["zones"], trace.history.zones)
    whole = trace.history
    task = _task(trace, given)
    if picture is not None and picture.job >= len(task.starts):
        raise click.BadParameter(
            f"{picture.job + 1}: there are {len(task.starts)} jobs", param_hint="--plot-job"
        )
    found = []
    for number, zones in enumerate(sets):
        # The picture is of the first set.
        for entry in _replay(task, zones, names, picture if number == 0 else None):
            # A set is named only where there was a choice: else the fields are as promised.
            named = {"zones": [whole.zones[zone] for zone in zones]} if given["zones"] else {}
            found.append(entry | named)
    if picture is not None:
        _draw(picture, task, sets[0])
    click.echo(_FORMATS[given["output"]](found))


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in POLICIES:
            raise click.BadParameter(
                f"{name!r} is none of {', '.join(POLICIES)}", param_hint="--policy"
            )
    if len(set(names)) < len(names):
        raise click.BadParameter(f"{text!r} names a policy twice", param_hint="--policy")
    return names


def _check(given: dict[str, Any]) -> None:
    """Refuse what no policy could do; say what it would take."""
    work, change = given["work_hours"], given["changeover_hours"]
    if given["worst_changeover_hours"] is None:
        given["worst_changeover_hours"] = change
    if given["worst_changeover_hours"] < change:
        raise click.BadParameter(
            f"{given['worst_changeover_hours']:g} is less than --changeover-hours, {change:g}",
            param_hint="--worst-changeover-hours",
        )
    if given["deadline_hours"] < work + change:
        raise click.BadParameter(
            f"{given['deadline_hours']:g} cannot be met: {work:g} h of work and a changeover of "
            f"{change:g} h take {work + change:g} h",
            param_hint="--deadline-hours",
        )
    if given["starts"] is not None and given["start_hours"] is not None:
        raise click.UsageError("--starts and --start-hours exclude each other: give one")


def _picture(given: dict[str, Any]) -> _Picture | None:
    if given["plot"] is None:
        if given["plot_job"] is not None:
            raise click.UsageError("--plot-job chooses a job for --plot, which is not given")
        return None
    return _Picture(path=check_picture(given["plot"]), job=(given["plot_job"] or 1) - 1)


def _draw(picture: _Picture, task: _Task, zones: tuple[int, ...]) -> None:
    timeline = Timeline(
        history=task.whole.take(zones),
        terms=task.terms,
        start=task.starts[picture.job],
        logs=picture.logs,
    )
    draw(timeline, picture.path)


def _zone_sets(text: str | None, zones: tuple[str, ...]) -> list[tuple[int, ...]]:
    if text is None:
        return [tuple(range(len(zones)))]
    from ebbtide.core.simulator.availability import zone_sets

    with complaints("--zones"):
        return zone_sets(text, zones)


def _task(trace: Trace, given: dict[str, Any]) -> _Task:
    from ebbtide.core.planner.policies.moment import Terms

    whole, nodes = trace.history, given["nodes"]
    spot = SPOT_USD_H if given["spot_price"] is None else given["spot_price"]
    terms = Terms(
        work_s=given["work_hours"] * HOUR_S,
        deadline_s=given["deadline_hours"] * HOUR_S,
        changeover_s=given["changeover_hours"] * HOUR_S,
        worst_changeover_s=given["worst_changeover_hours"] * HOUR_S,
        spot_usd_per_s=nodes * spot / HOUR_S,
        on_demand_usd_per_s=nodes * given["on_demand_price"] / HOUR_S,
        tick_s=whole.tick_s,
    )
    import math

    # A fraction such as 0.35 of 1,000 rows must not become 351 by a rounding of floats.
    fit_rows = math.ceil(given["fit_fraction"] * len(whole) - 1e-9)
    last = len(whole) - math.ceil(terms.deadline_s / whole.tick_s - 1e-9)
    if given["start_hours"] is not None:
        starts = _listed(given["start_hours"], whole, last=last)
    else:
        starts = _drawn(given["starts"] or 100, given["seed"], first=fit_rows, last=last)
    return _Task(trace=trace, terms=terms, starts=starts, fit_rows=fit_rows)


def _listed(text: str, whole: "History", *, last: int) -> tuple[int, ...]:
    import math

    found = []
    for part in text.split(","):
        try:
            hours = float(part)
        except ValueError:
            hours = math.nan
        if not 0 <= hours < math.inf:
            raise click.BadParameter(f"{part!r} is no number of hours", param_hint="--start-hours")
        row = math.ceil(hours * HOUR_S / whole.tick_s - 1e-9)
        if row > last:
            latest = max(last, 0) * whole.tick_s / HOUR_S
            problem = f"{hours:g} h: the deadline would end behind the trace"
            remedy = f"{latest:g} h is the latest start" if last >= 0 else "the trace is too short"
            raise click.BadParameter(f"{problem}; {remedy}", param_hint="--start-hours")
        found.append(row)
    return tuple(found)


def _drawn(number: int, seed: int, *, first: int, last: int) -> tuple[int, ...]:
    import numpy as np

    if last < first:
        raise click.UsageError(
            f"no start leaves room for the deadline: rows from {first} are not for fitting, and "
            f"from row {last + 1} on the trace ends too soon; a longer trace, an earlier "
            "--deadline-hours or a smaller --fit-fraction is needed"
        )
    chance = np.random.default_rng(seed)  # noqa: TID251 -- the outermost caller seeds
    return tuple(chance.integers(first, last + 1, size=number).tolist())


def _replay(
    task: _Task, zones: tuple[int, ...], names: list[str], picture: _Picture | None
) -> list[dict[str, Any]]:
    from ebbtide.core.simulator import fleet, omniscient
    from ebbtide.core.simulator.summary import Job, summarise

    history = task.whole.take(zones)
    prices = tuple(task.trace.prices[zone] for zone in zones if task.trace.prices)
    known: dict[int, float] = {}
    for start in set(task.starts):
        known[start] = omniscient.least_cost(history.up, task.terms, start=start, prices=prices)
    jobs = [Job(terms=task.terms, start=start, least_usd=known[start]) for start in task.starts]
    arrivals = [(job.terms, job.start) for job in jobs]
    pool = _pool(task, [zone for zone in range(len(task.whole.zones)) if zone not in zones])
    found = []
    for name in names:
        logs = {} if picture is None else {picture.job: picture.logs.setdefault(name, [])}
        world = fleet.World(pool=pool, prices=prices, logs=logs)
        outcomes = fleet.run(name, arrivals, history, world)
        found.append({"policy": name} | asdict(summarise(jobs, outcomes)))
    return found


def _pool(task: _Task, others: list[int]) -> list["History"]:
    """Return the past of zones that are not replayed: what no start has ahead of it."""
    from ebbtide.core.planner.policies.history import History

    rows = min(task.fit_rows, *task.starts)
    if not (others and rows):
        return []
    past = task.whole.take(others)
    return [
        History(
            zones=past.zones,
            up=past.up[:rows],
            tick_s=past.tick_s,
            start_s=past.start_s,
        )
    ]


def _json(entries: list[dict[str, Any]]) -> str:
    return json.dumps(entries, allow_nan=False)


def _yaml(entries: list[dict[str, Any]]) -> str:
    import yaml

    return yaml.safe_dump(entries, sort_keys=False).rstrip()


def _table(entries: list[dict[str, Any]]) -> str:
    head = list(entries[0])
    rows = [
        [",".join(cell) if isinstance(cell, list) else cell for cell in entry.values()]
        for entry in entries
    ]
    return lay_out(head, rows)


_FORMATS: Final[dict[str, Callable[[list[dict[str, Any]]], str]]] = {
    "json": _json,
    "yaml": _yaml,
    "table": _table,
}
