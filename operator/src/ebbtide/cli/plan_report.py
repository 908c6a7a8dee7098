"""What `ebbtide plan` prints: tables for people, and the shape of status.plan for programs."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ebbtide.cli.tables import lay_out

if TYPE_CHECKING:
    from ebbtide.cli.plan import Answer
    from ebbtide.core.values.plan import Alternative, Infeasible, Plan, Share
    from ebbtide.core.values.pool import Pool


def report(answer: "Answer", output: str) -> str:
    """Return the answer as a table, JSON or YAML."""
    if output == "table":
        return "\n".join(_lines(answer))
    content = _as_json(answer)
    if output == "json":
        return json.dumps(content, allow_nan=False)
    import yaml

    text: str = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    return text.rstrip("\n")


# ------------------------------------------------------------------------- for programs


def _as_json(answer: "Answer") -> dict[str, Any]:
    from ebbtide.core.values.plan import Infeasible

    found = answer.found
    content: dict[str, Any] = {"job": answer.job.key.name, "at": _moment(answer.now)}
    if isinstance(found, Infeasible):
        content["infeasible"] = _refusal(found)
    else:
        content["plan"] = _render(found)
    if answer.front is not None:
        content["front"] = [
            {name: value for name, value in _render(plan).items() if name != "assumptions"}
            for plan in answer.front
        ]
    content["pools"] = [_pool(pool) for pool in answer.pools]
    content["notes"] = list(answer.notes)
    return content


def _render(plan: "Plan") -> dict[str, Any]:
    """Return a plan as status.plan holds it."""
    from ebbtide.api.plan_status import render_record
    from ebbtide.core.values.plan import PlanRecord

    rendered = render_record(PlanRecord(plan=plan))
    return {name: value for name, value in rendered.items() if value not in (None, [], "")}


def _refusal(found: "Infeasible") -> dict[str, Any]:
    deadline, budget = found.nearest_deadline, found.nearest_budget_usd
    return {
        "reason": found.reason,
        "nearestDeadline": None if deadline is None else _moment(deadline),
        "nearestBudgetUsd": None if budget is None else str(budget),
    }


def _pool(pool: "Pool") -> dict[str, Any]:
    return {
        "name": pool.name,
        "market": str(pool.market),
        "gpu": pool.gpu_type,
        "gpusPerNode": pool.gpus_per_node,
        "maxNodes": pool.max_nodes,
        "usdPerNodeHour": str(pool.usd_per_node_hour),
    }


def _moment(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


# ------------------------------------------------------------------------- for people


def _lines(answer: "Answer") -> Iterable[str]:
    from ebbtide.core.values.plan import Infeasible

    found = answer.found
    yield f"job {answer.job.key.name} at {_moment(answer.now)}"
    yield ""
    if isinstance(found, Infeasible):
        yield f"no plan: {found.reason}"
        notes: Sequence[str] = answer.notes
    else:
        yield from _plan_lines(answer, found)
        notes = (*found.assumptions, *answer.notes)
    if answer.front:
        yield from ("", "front of cost and time:")
        yield _compare(answer.front)
    if notes:
        yield from ("", "assumed:", *(f"- {note}" for note in notes))


def _plan_lines(answer: "Answer", plan: "Plan") -> Iterable[str]:
    prices = {pool.name: pool for pool in answer.pools}
    yield lay_out(
        ["pool", "market", "GPU", "USD/node h", "workers", "batch share"],
        [
            [
                share.pool,
                str(prices[share.pool].market),
                prices[share.pool].gpu_type,
                float(prices[share.pool].usd_per_node_hour),
                share.replicas,
                f"{share.batch_share:.1%}",
            ]
            for share in plan.shares
        ],
    )
    yield ""
    predicted = plan.predicted
    late = _moment(predicted.finish_late)
    yield f"finish      {_moment(predicted.finish)}, nine of ten times by {late}"
    yield f"cost        {predicted.cost_usd} USD, nine of ten times up to {predicted.cost_high_usd}"
    if predicted.deadline_probability is not None:
        yield f"deadline    met with {predicted.deadline_probability:.1%}"
    yield f"speed       {predicted.steps_per_second:.3g} useful steps/s"
    yield f"checkpoint  every {plan.checkpoint_interval.total_seconds():.0f} s"
    if plan.servers:
        yield f"servers     {plan.servers}"
    yield f"why         {plan.reason}"
    if plan.alternatives:
        yield from ("", "other plans:")
        yield _compare(plan.alternatives, whys=[one.why for one in plan.alternatives])


def _compare(plans: "Sequence[Plan | Alternative]", *, whys: Sequence[str] = ()) -> str:
    """Return a table of plans; without a deadline it has no column for one."""
    has_deadline = any(plan.predicted.deadline_probability is not None for plan in plans)
    head = ["workers", "finish", "USD", *(["deadline"] if has_deadline else [])]
    rows = [
        [
            _shares(plan.shares, plan.servers),
            _moment(plan.predicted.finish),
            str(plan.predicted.cost_usd),
            *([f"{plan.predicted.deadline_probability:.0%}"] if has_deadline else []),
        ]
        for plan in plans
    ]
    if whys:
        head.append("why not")
        rows = [[*row, why] for row, why in zip(rows, whys, strict=True)]
    return lay_out(head, rows)


def _shares(shares: "Sequence[Share]", servers: int) -> str:
    text = " + ".join(f"{share.replicas} {share.pool}" for share in shares)
    return f"{text} + {servers} servers" if servers else text
