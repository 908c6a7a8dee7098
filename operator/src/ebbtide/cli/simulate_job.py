"""`ebbtide simulate --job`: a whole job in virtual time, decided by the operator's own step."""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import click
from typing_extensions import override

from ebbtide.cli.documents import BadInputError, as_bad_input
from ebbtide.cli.job_plot import Story, draw_run
from ebbtide.cli.moments import read_moment
from ebbtide.cli.plots import check_picture
from ebbtide.cli.pool_trace import read_pool_trace
from ebbtide.cli.ranges import RealRange
from ebbtide.cli.tables import lay_out, use_one_thread

if TYPE_CHECKING:  # commands import late: `ebbtide --help` stays fast
    from ebbtide.core.simulator.virtual.run import Conditions, Run
    from ebbtide.core.values.job import Job
    from ebbtide.core.values.pool import Pool
    from ebbtide.core.values.workload import Profile

NOT_DONE: Final = 3
"""Exit code where the job did not complete."""
EPOCH: Final = "2026-01-01T00:00:00Z"
"""When the job is made, where nobody says: the same log every time."""
JOB_OPTION: Final = "--job"


class OrJob(click.Command):
    """A command that hands over to `simulate_job` when its arguments name a job."""

    @override
    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        if any(arg == JOB_OPTION or arg.startswith(f"{JOB_OPTION}=") for arg in args):
            return simulate_job.make_context(info_name, args, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    @override
    def invoke(self, ctx: click.Context) -> Any:
        return super().invoke(ctx) if ctx.command is self else ctx.command.invoke(ctx)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """What is run."""

    job: "Job"
    pools: tuple["Pool", ...]
    profile: "Profile | None"
    conditions: "Conditions"
    seed: int


@click.command("simulate")
@click.option(
    JOB_OPTION, "file", required=True, metavar="FILE",
    help="A TrainingJob as YAML, with pools and profile or without; `-` is standard input.",
)  # fmt: skip
@click.option("--pools", metavar="FILE", help="CapacityPools as YAML. [default: those of --job]")
@click.option(
    "--availability", metavar="FILE",
    help="CSV: `seconds`, then one column per pool with the nodes that can be had (0: none); "
    "the job is made at the first row, and the last row holds for ever. A pool without a column "
    "gives maxNodes.",
)  # fmt: skip
@click.option(
    "--events", metavar="FILE",
    help="Instead: CSV `seconds,event,node` of nodes of one pool that come and go: add, remove, "
    "notice; the job is made at the first event.",
)  # fmt: skip
@click.option(
    "--pool", metavar="NAME", help="Whose nodes --events names. [default: the only spot pool]"
)
@click.option(
    "--prices", metavar="FILE",
    help="CSV `seconds,zone,price` over time, USD/h of a node; zones are pools.",
)  # fmt: skip
@click.option("--profile", metavar="FILE", help="A WorkloadProfile as YAML.")
@click.option(
    "--at", metavar="TIME", default=EPOCH, show_default=True,
    help="When the job is made (RFC 3339).",
)  # fmt: skip
@click.option(
    "--days", type=RealRange(0, 3650, min_open=True), default=60, show_default=True,
    help="The run ends after so long, done or not.",
)  # fmt: skip
@click.option(
    "--warned-share", type=RealRange(0, 1), default=1, show_default=True,
    help="The share of revocations that a notice precedes, as long as the pool says.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True,
    help="Of what is drawn: which revocations come with notice.",
)  # fmt: skip
@click.option("--plot", metavar="FILE", help="A picture of the run: FILE.png or FILE.svg.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table")
def simulate_job(**given: Any) -> None:
    """
    Run a whole job in virtual time and print what the operator would decide, and when.

    Nodes come and go as the trace says; the operator's own step decides, with the models that the
    operator has, and the job trains as fast as they say. Exits with 3 where the job did not
    complete.
    """
    use_one_thread()
    import numpy as np

    from ebbtide.core.simulator.virtual.run import Outcome, run

    picture = None if given["plot"] is None else check_picture(given["plot"])
    with as_bad_input():
        task = _task(given)
    found = run(
        task.job,
        task.pools,
        _speed(task, given["file"]),
        task.conditions,
        chance=np.random.default_rng(task.seed),  # noqa: TID251 -- the outermost caller seeds
    )
    if picture is not None:
        with as_bad_input():
            draw_run(Story(run=found, pools=task.pools, trace=task.conditions.trace), picture)
    click.echo(_FORMATS[given["output"]](_describe(task, found)))
    if found.outcome is not Outcome.COMPLETE:
        raise click.exceptions.Exit(NOT_DONE)


def _task(given: dict[str, Any]) -> _Task:
    from ebbtide.cli.documents import POOL, read_documents, read_job, read_pools
    from ebbtide.cli.documents import read_profile as find_profile

    documents = read_documents(given["file"])
    job = read_job(documents)
    elsewhere = read_documents(given["pools"]) if given["pools"] is not None else documents
    pools = read_pools(elsewhere)
    if not pools:
        raise BadInputError(elsewhere.file, (f"no document of kind {POOL}: one is needed",))
    notes = read_documents(given["profile"]) if given["profile"] is not None else documents
    profile = find_profile(notes, job)
    return _Task(
        job=job,
        pools=pools,
        profile=profile,
        conditions=_conditions(given, job, pools, profile),
        seed=given["seed"],
    )


def _conditions(
    given: dict[str, Any], job: "Job", pools: tuple["Pool", ...], profile: "Profile | None"
) -> "Conditions":
    from dataclasses import replace

    from ebbtide.core.planner.knowledge import Workload
    from ebbtide.core.simulator.virtual.run import Conditions
    from ebbtide.core.simulator.virtual.timing import Timing
    from ebbtide.core.values.settings import Settings
    from ebbtide.data.knowledge import embedded_knowledge

    trace = read_pool_trace(given, pools)
    settings = Settings()
    knowledge = embedded_knowledge(start=settings.start)
    timing = Timing.expected(knowledge.overheads(Workload(job=job, profile=profile)))
    return Conditions(
        start=read_moment(given["at"], option="--at", example=EPOCH),
        trace=trace,
        timing=replace(timing, warned_share=given["warned_share"]),
        settings=settings,
        limit=timedelta(days=given["days"]),
        knowledge=knowledge,
        profile=profile,
    )


def _speed(task: _Task, file: str) -> Any:  # noqa: ANN401 -- a Speed; the core comes late
    """Return how fast workers really are: as fast as the models say; raises BadInputError."""
    from ebbtide.core.planner.fixed_size import sort_out
    from ebbtide.core.planner.knowledge import Workload

    fit, _ = sort_out(task.job, task.pools)
    knowledge = task.conditions.knowledge
    if knowledge is None:
        raise TypeError("a command without models cannot say how fast a job is")
    speed = knowledge.speed(Workload(job=task.job, profile=task.profile), fit)
    unknown = sorted({pool.gpu_type for pool in fit} - set(speed.paces))
    if unknown:
        known = ", ".join(sorted(speed.paces)) or "none"
        what = f"GPU type {unknown[0]!r}: nothing is known of its speed; known are: {known}"
        raise BadInputError(file, (f"{what}. Give its step times by --profile",))
    return speed


# ---------------------------------------------------------------- what is printed


def _describe(task: _Task, found: "Run") -> dict[str, Any]:
    status, done = found.status, found.finish
    return {
        "job": task.job.key.name,
        "outcome": str(found.outcome),
        "why": found.why,
        "started": _written(found.started),
        "finished": None if done is None else _written(done),
        "seconds": None if done is None else (done - found.started).total_seconds(),
        "cost_usd": str(status.cost.spent_usd),
        "bill_usd": str(found.bill.usd),
        "idle_usd": str(found.bill.idle_usd),
        "spot_hours": round(found.spot_hours, 4),
        "on_demand_hours": round(found.on_demand_hours, 4),
        "steps": status.progress.step,
        "steps_lost": found.num_lost,
        "revocations": status.counters.revocations,
        "restarts": status.counters.restarts,
        "failures": status.counters.failures,
        "decisions": [
            {
                "seconds": (entry.at - found.started).total_seconds(),
                "time": _written(entry.at),
                "reason": entry.reason,
                "message": entry.message,
                "warning": entry.warning,
            }
            for entry in found.log
        ],
    }


def _written(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _table(found: dict[str, Any]) -> str:
    rows = [
        [timedelta(seconds=round(one["seconds"])), one["reason"], one["message"]]
        for one in found["decisions"]
    ]
    summary = [[name, value] for name, value in found.items() if name != "decisions"]
    return "\n\n".join(
        (lay_out(["after", "reason", "message"], rows), lay_out(["", "value"], summary))
    )


def _json(found: dict[str, Any]) -> str:
    return json.dumps(found, allow_nan=False)


def _yaml(found: dict[str, Any]) -> str:
    import yaml

    return yaml.safe_dump(found, sort_keys=False, allow_unicode=True).rstrip()


_FORMATS: Final = {"table": _table, "json": _json, "yaml": _yaml}
