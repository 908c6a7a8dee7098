"""`ebbtide plan`: what would be run for a job, and why, without a cluster."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from ebbtide.cli.moments import read_moment
from ebbtide.cli.tables import use_one_thread

if TYPE_CHECKING:  # commands import late: `ebbtide --help` stays fast
    from datetime import datetime
    from pathlib import Path

    from ebbtide.cli.documents import Documents
    from ebbtide.core.planner.inputs import Inputs
    from ebbtide.core.values.job import Job
    from ebbtide.core.values.past import Past
    from ebbtide.core.values.plan import Infeasible, Plan
    from ebbtide.core.values.pool import Pool
    from ebbtide.core.values.workload import Profile

INFEASIBLE: Final = 3
"""Exit code where no plan meets the goal; 2 is for input that cannot be used."""
EXAMPLE: Final = "2026-08-01T12:00:00Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the planner says of a job, and what it was told."""

    job: "Job"
    now: "datetime"
    pools: tuple["Pool", ...]
    notes: tuple[str, ...]
    found: "Plan | Infeasible"
    front: tuple["Plan", ...] | None = None


@click.command()
@click.option(
    "-f", "--file", required=True, metavar="FILE",
    help="A TrainingJob as YAML, with pools and profile or without; `-` is standard input.",
)  # fmt: skip
@click.option(
    "--pools", metavar="FILE",
    help="CapacityPools as YAML; those that the embedded price list offers where not given.",
)  # fmt: skip
@click.option("--context", metavar="NAME", help="Take the pools of this context's cluster.")
@click.option(
    "--kubeconfig", metavar="FILE", help="Where the context is; kubectl's where not given."
)
@click.option("--profile", metavar="FILE", help="A WorkloadProfile as YAML.")
@click.option("--at", metavar="TIME", help="Plan for this moment (RFC 3339), not for now.")
@click.option("--pareto", is_flag=True, help="Show the whole front of cost and time as well.")
@click.option("--plot", metavar="FILE.png|.svg", help="Draw the front of cost and time.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table")
def plan(**given: Any) -> None:
    """
    Plan a job: which pools, how many workers, for how much and until when.

    Needs no cluster, unless --context names one: speeds come from a profile, else from the
    embedded models, else from a prior, and the answer says which. Exits with 3, and names the
    nearest goal that can be met, where no plan meets the goal; with 2 where the input cannot be
    used.
    """
    use_one_thread()
    path = _check_plot(given["plot"])
    from ebbtide.cli.plan_report import report
    from ebbtide.core.values.plan import Infeasible

    answer = _answer(given, wants_front=given["pareto"] or path is not None)
    click.echo(report(answer, given["output"]))
    if path is not None and answer.front:
        from ebbtide.cli.pareto_plot import draw_front

        chosen = None if isinstance(answer.found, Infeasible) else answer.found
        draw_front(answer.front, path, chosen=chosen)
    if isinstance(answer.found, Infeasible):
        raise click.exceptions.Exit(INFEASIBLE)


def _answer(given: dict[str, Any], *, wants_front: bool) -> Answer:
    from ebbtide.cli.documents import read_documents, read_job, read_pasts
    from ebbtide.core.planner.fixed_size import sort_out
    from ebbtide.core.planner.planning import plan as make_plan
    from ebbtide.core.values.objective import PlanMode
    from ebbtide.core.values.plan import Infeasible

    now = _moment(given["at"])
    documents = read_documents(given["file"])
    job = read_job(documents)
    place = _other_place(given) or documents
    pools, notes = _pools(place, job, is_given=place is not documents)
    profile, more = _profile(given, documents, job)
    fit, unfit = sort_out(job, pools)
    if not fit:
        why = "; ".join(unfit) or "there is no CapacityPool"
        found: Plan | Infeasible = Infeasible(reason=f"no pool fits: {why}")
        return Answer(job=job, now=now, pools=(), notes=(*notes, *more), found=found)
    inputs, models = _ask(job, profile, fit, now, pasts=read_pasts(place))
    if job.plan_mode is PlanMode.MANUAL:
        inputs, found, note = _by_hand(inputs, job, now)
        more += (note,)
    else:
        found = make_plan(inputs, now)
    front = None
    if wants_front:
        from ebbtide.core.planner.pareto import pareto

        front = pareto(inputs, now)
    return Answer(
        job=job,
        now=now,
        pools=fit,
        notes=(*notes, *more, *models),
        found=found,
        front=front,
    )


def _ask(
    job: "Job",
    profile: "Profile | None",
    pools: tuple["Pool", ...],
    now: "datetime",
    *,
    pasts: Mapping[str, "Past"],
) -> tuple["Inputs", tuple[str, ...]]:
    """Put the same question as the operator does; say how sure each model is."""
    from ebbtide.core.planner.knowledge import Workload
    from ebbtide.core.planner.situation import Situation
    from ebbtide.core.planner.steering import make_inputs
    from ebbtide.core.values.plan import PlanRecord
    from ebbtide.core.values.settings import Settings
    from ebbtide.data.knowledge import embedded_knowledge

    settings = Settings()
    knowledge = embedded_knowledge(start=settings.start)
    situation = Situation(
        workload=Workload(job=job, profile=profile),
        pools=pools,
        rooms={},
        pasts=pasts,
        steps_left=job.steps,
        before=PlanRecord(),
        interval=settings.plan_interval,
        now=now,
    )
    inputs = make_inputs(situation, knowledge, pools)
    overheads = inputs.overheads
    notes = (
        f"a node takes {overheads.start_s:g} s to start, a checkpoint {overheads.save_s:.3g} s",
        _describe_extras(job),
        *_describe_models(profile),
        *_describe_pasts(pools, pasts),
    )
    return inputs, notes


def _by_hand(
    inputs: "Inputs", job: "Job", now: "datetime"
) -> tuple["Inputs", "Plan | Infeasible", str]:
    """Plan with the user's own number of workers, which runs whether it meets the goal or not."""
    from dataclasses import replace

    from ebbtide.core.planner.by_hand import pin
    from ebbtide.core.planner.planning import plan as make_plan
    from ebbtide.core.values.plan import Infeasible

    pinned = pin(inputs, job)
    note = f"planMode Manual: {job.replicas} workers run, and nothing else is tried"
    found = make_plan(pinned, now)
    if isinstance(found, Infeasible) and (pinned.due or pinned.budget_left_usd) is not None:
        note = f"{note}; the goal is not met: {found.reason}"
        pinned = replace(pinned, due=None, budget_left_usd=None)
        found = make_plan(pinned, now)
    return pinned, found, note


def _describe_extras(job: "Job") -> str:
    """Say what runs beside the workers and is in no price."""
    who = "coordinator and parameter servers ask" if job.uses_servers else "the coordinator asks"
    return f"{who} for no GPU: their nodes are in no pool, and in none of these costs"


def _describe_pasts(pools: tuple["Pool", ...], pasts: Mapping[str, "Past"]) -> Iterator[str]:
    """Say of each pool how many of its own lives the lifetime model was given, too."""
    for pool in pools:
        lives = pasts[pool.name].lives if pool.name in pasts else ()
        if lives:
            lost = sum(life.revoked for life in lives)
            yield f"pool {pool.name}: {len(lives)} lives of its own nodes are known, {lost} lost"


def _describe_models(profile: "Profile | None") -> tuple[str, ...]:
    """Say of each embedded model how wrong it was on what its fit had not seen."""
    from ebbtide.core.models.quality import Errors
    from ebbtide.data.defaults import embedded_model, provenance

    found = []
    for kind in ("step-time", "iteration", "checkpoint", "lifetime"):
        quality, source = embedded_model(kind).quality, provenance(kind)["source"]
        errors = quality.errors
        if isinstance(errors, Errors):
            how = f"{errors.mape:.1%} mean error on what it had not seen"
        elif errors is not None:
            how = f"Brier score {errors.integrated_brier:.3f} on what it had not seen"
        else:
            how = "not tried on anything it had not seen"
        found.append(f"{kind} model: {how}, {quality.samples} samples of {source}")
    if profile is None:
        found.append("no profile is given: --profile makes the plan surer")
    return tuple(found)


def _pools(
    place: "Documents", job: "Job", *, is_given: bool
) -> tuple[tuple["Pool", ...], tuple[str, ...]]:
    """Return the pools of a place; those of the price list where it has none and was not named."""
    from ebbtide.cli.documents import POOL, BadInputError, read_pools

    pools = read_pools(place)
    if pools:
        return pools, ()
    if is_given:
        raise BadInputError(place.file, (f"no document of kind {POOL}: one is needed",))
    from ebbtide.data import pools as offered
    from ebbtide.data.defaults import embedded_catalogue

    catalogue = embedded_catalogue()
    pools = offered.pools_of(catalogue, gpus_per_worker=job.gpus_per_worker)
    note = (
        f"no pools are given: those of {offered.PROVIDER} {offered.REGION} in the embedded price"
        f" list of {catalogue.date} are taken, {offered.MOST_NODES} nodes each at most"
    )
    return pools, (note,)


def _other_place(given: dict[str, Any]) -> "Documents | None":
    """Return where the pools are, if not beside the job."""
    if given["pools"] is not None and given["context"] is not None:
        raise click.UsageError("--pools and --context both say where the pools are: give one")
    if given["kubeconfig"] is not None and given["context"] is None:
        raise click.UsageError("--kubeconfig says something with --context alone: give that too")
    if given["pools"] is not None:
        from ebbtide.cli.documents import read_documents

        return read_documents(given["pools"])
    if given["context"] is not None:
        from ebbtide.cli.cluster_documents import fetch_pools

        return fetch_pools(given["context"], kubeconfig=given["kubeconfig"])
    return None


def _profile(
    given: dict[str, Any], documents: "Documents", job: "Job"
) -> tuple["Profile | None", tuple[str, ...]]:
    from ebbtide.cli.documents import PROFILE, BadInputError, read_documents, read_profile

    file = given["profile"]
    profile = read_profile(documents if file is None else read_documents(file), job)
    if file is not None and profile is None:
        raise BadInputError(file, (f"no document of kind {PROFILE} that fits the job",))
    if profile is None and job.profile is not None:
        return None, (f"spec.profile {job.profile!r} is not in the file: give it by --profile",)
    return profile, ()


def _moment(text: str | None) -> "datetime":
    from ebbtide.controller.clock import now

    return now() if text is None else read_moment(text, option="--at", example=EXAMPLE)


def _check_plot(text: str | None) -> "Path | None":
    if text is None:
        return None
    from ebbtide.cli.plots import check_picture

    return check_picture(text)
