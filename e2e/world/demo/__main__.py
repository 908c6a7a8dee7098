"""
Train the digits example through three revocations, show it live, and judge the outcome.

    python -m world.demo [--readme]

Exit status 0 only if everything is as it must be: the job Complete, every step counted once, no
failure, no step lost, the accuracy reached.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from world.beside import beside
from world.build import BuildError
from world.cloud.pool import Market, Pool, Provider
from world.demo.findings import Findings, Forecast, Loss, fill_in
from world.demo.screen import Screen
from world.installation import CONTENTS, ROOT, Installation, Operator, apply
from world.kubelet import Images
from world.kubelet.clock import utc_now
from world.network import NetworkError
from world.recoveries import ask_coordinator
from world.session import Session
from world.training import GROUP, Training, provide_claim
from world.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from world.api import Json
    from world.cloud.journal import Entry

EXAMPLE: Final = ROOT / "examples" / "digits"
FACTOR: Final = 0.2
"""A notice of 30 s lasts 6 s here."""
SETTINGS: Final = {"progressSeconds": 1, "planSeconds": 5, "startSeconds": 15}
PLAN: Final[Sequence[tuple[str, float, dict[str, Any]]]] = (
    ("gke-spot", 0.06, {}),
    ("aws-itn", 0.24, {"provider": Provider.EKS}),
    ("power-loss", 0.42, {}),
    ("gke-spot", 0.6, {}),
    ("power-loss", 0.78, {}),
)
"""What is done to a member's spot node, after which share of the steps, and how."""
SPARES_FROM: Final = 3
"""From this revocation on a spare stands by."""
START_SECONDS: Final = 120.0
LONGEST_SECONDS: Final = 420.0
TELLING: Final = frozenset({"notice", "power-off", "evicted", "node-deleted", "ready", "requested"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m world.demo", description=__doc__)
    parser.add_argument("--readme", action="store_true", help="put the table into README.md")
    options = parser.parse_args(arguments)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="ebbtide-demo-") as folder,
            Session.open(Path(folder)) as session,
        ):
            findings = asyncio.run(_demonstrate(session))
    except (BuildError, NetworkError) as error:
        sys.stderr.write(f"make demo: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("make demo: interrupted; nothing is left behind\n")
        return 130
    _report(findings)
    if options.readme:
        readme = ROOT / "README.md"
        readme.write_text(fill_in(readme.read_text(), findings.table()))
    complaints = findings.complaints()
    for complaint in complaints:
        sys.stderr.write(f"make demo: not as it must be: {complaint}\n")
    return 1 if complaints else 0


async def _demonstrate(session: Session) -> Findings:
    began = utc_now()
    with Screen() as screen:
        screen.say(f"control plane ready; from another terminal: {_hint(session)}")
        images = Images(contents=CONTENTS)
        async with World(session, pools=_pools(), factor=FACTOR, images=images) as world:
            world.cloud.journal.listeners.append(_teller(screen))
            async with Installation(world, settings=SETTINGS) as installation:
                screen.say("operator started; kinds TrainingJob and CapacityPool installed")
                await _apply_profile(world)
                job = Training(world, _manifest(), volume=await provide_claim(world, _claim()))
                async with job, _drawing(screen, job), _events(screen, job):
                    screen.say("applied examples/digits/job.yaml")
                    losses = await _revoke(screen, job, installation.operator)
                    findings = await _wait_for_the_end(job, losses, began=began)
        return findings


# -------------------------------------------------------------------- what is done


async def _revoke(screen: Screen, job: Training, operator: Operator) -> list[Loss]:
    steps = int(job.manifest["spec"]["work"]["steps"])
    await job.until_true("Running", timeout=START_SECONDS)
    losses: list[Loss] = []
    for number, (scenario, share, options) in enumerate(PLAN):
        spares = int(number >= SPARES_FROM)
        if number == SPARES_FROM:
            screen.say("from now on with a spare: spec.warmStart.spares is 1")
            await job.change(warmStart={"spares": 1})
        await job.until_step(round(share * steps), timeout=LONGEST_SECONDS)
        await job.until(
            partial(_is_whole, spares=spares), what="at full size", timeout=LONGEST_SECONDS
        )
        if not operator.is_running:
            message = f"the operator ended\n{operator.tail()}"
            raise RuntimeError(message)
        losses.append(await _revoke_one(screen, job, scenario, options, spares=spares))
    return losses


async def _revoke_one(
    screen: Screen, job: Training, scenario: str, options: dict[str, Any], *, spares: int
) -> Loss:
    before = await ask_coordinator(job)
    members = before.members if before else ()
    machine = (await job.machines(only=members))[-1]
    screen.say(f"REVOCATION {scenario}: the provider takes {machine.name}")
    began = utc_now()
    job.world.revoke(scenario, node=machine.name, **options)
    counted = job.counter("revocations")
    await job.until(
        lambda job: job.counter("revocations") > counted and _is_whole(job),
        what=f"whole again after {scenario}",
        timeout=LONGEST_SECONDS,
    )
    whole = (utc_now() - began).total_seconds()
    after = await ask_coordinator(job)
    known = {recovery.generation for recovery in before.recoveries} if before else set()
    new = [r for r in (after.recoveries if after else ()) if r.generation not in known]
    away = [r.stepping_after for r in new if r.cause in {"lost", "left"} and r.stepping_after >= 0]
    still = max(away, default=-1.0)
    screen.say(f"recovered from {scenario}: training stood still for {still:.2f} s")
    return Loss(
        scenario=scenario,
        node=machine.name,
        spares=spares,
        to_next_step=still,
        to_full_size=whole,
    )


async def _wait_for_the_end(job: Training, losses: list[Loss], *, began: Any) -> Findings:
    await job.until_over(timeout=LONGEST_SECONDS)
    world, status = job.world, job.status
    billed = world.cloud.bill.by_pool(utc_now())
    gpu_pools = [pool.name for pool in world.cloud.pools.values() if pool.gpu]
    return Findings(
        state=status["state"],
        steps=int(job.result["steps"]),
        wanted_steps=int(job.manifest["spec"]["work"]["steps"]),
        accuracy=float(job.result["accuracy"]),
        counters={name: int(count) for name, count in status["counters"].items()},
        spent_usd=Decimal(status["cost"]["spentUsd"]),
        billed_usd=sum((billed.get(name, Decimal(0)) for name in gpu_pools), Decimal(0)),
        seconds=(utc_now() - began).total_seconds(),
        losses=losses,
        forecast=_forecast(job),
        later=_forecast(job, percentage=50),
        took_seconds=_seconds_between(status["firstStartTime"], status["completionTime"]),
    )


def _forecast(job: Training, *, percentage: int = 0) -> Forecast | None:
    """Return what the plan said when so much was done."""
    for version in job.history:
        status = version.get("status") or {}
        plan = status.get("plan")
        done = status.get("progress", {}).get("percentage", 0)
        if plan and "firstStartTime" in status and done >= percentage:
            said = plan["predicted"]
            pools = {entry["name"]: entry["replicas"] for entry in plan["pools"]}
            return Forecast(
                pools=pools,
                reason=plan["reason"],
                seconds=_seconds_between(status["firstStartTime"], said["finishTime"]),
                usd=Decimal(said["costUsd"]),
            )
    return None


def _seconds_between(begin: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()


def _is_whole(job: Training, *, spares: int = 0) -> bool:
    replicas = job.status.get("replicas", {})
    is_full = bool(replicas.get("ready")) and replicas.get("ready") == replicas.get("desired")
    return is_full and replicas.get("spares", 0) >= spares


# -------------------------------------------------------------------- what it stands on


def _pools() -> list[Pool]:
    """Return the world's side of examples/digits/pools.yaml."""
    return [_pool(entry) for entry in yaml.safe_load_all((EXAMPLE / "pools.yaml").read_text())]


def _pool(entry: Json) -> Pool:
    spec = entry["spec"]
    return Pool(
        name=entry["metadata"]["name"],
        market=Market(spec["market"]),
        gpu=spec["gpu"]["type"],
        gpus_per_node=spec["gpu"]["count"],
        zone=spec["zone"],
        region=spec["region"],
        max_nodes=spec["maxNodes"],
        usd_per_node_hour=Decimal(spec["price"]["usdPerNodeHour"]),
        notice_seconds=float(spec["noticeSeconds"]),
        provision_seconds=(15.0, 25.0),
    )


def _documents() -> dict[str, Json]:
    """Return what examples/digits/job.yaml holds, by kind."""
    found = yaml.safe_load_all((EXAMPLE / "job.yaml").read_text())
    return {document["kind"]: document for document in found}


def _manifest() -> Json:
    return _documents()["TrainingJob"]


def _claim() -> str:
    return str(_documents()["PersistentVolumeClaim"]["metadata"]["name"])


async def _apply_profile(world: World) -> None:
    profile = _documents()["WorkloadProfile"]
    path = f"{world.path('workloadprofiles', GROUP)}/{profile['metadata']['name']}"
    await apply(world, path, profile)


def _hint(session: Session) -> str:
    return f"kubectl --kubeconfig {session.outside_kubeconfig} get tj,pods,nodes"


# -------------------------------------------------------------------- what is shown


def _teller(screen: Screen) -> Callable[[Entry], None]:
    def tell(entry: Entry) -> None:
        if entry.what in TELLING:
            screen.say(f"cloud: {entry.node} {entry.what} {entry.detail}".rstrip())

    return tell


@contextlib.asynccontextmanager
async def _drawing(screen: Screen, job: Training) -> Any:
    async def draw() -> None:
        while True:
            alive = [m for m in job.world.cloud.machines.values() if m.is_alive]
            screen.show(job, alive)
            await asyncio.sleep(0.5)

    async with beside(draw()):
        yield


@contextlib.asynccontextmanager
async def _events(screen: Screen, job: Training) -> Any:
    async def tell() -> None:
        told: set[tuple[str, str]] = set()
        async for kind, found in job.world.api.watch(job.world.path("events")):
            for event in found if kind == "SYNC" else [found]:
                words = (event.get("reason", ""), event.get("message", ""))
                if event.get("involvedObject", {}).get("kind") == "TrainingJob":
                    if words not in told:
                        screen.say(f"event: {words[0]}: {words[1]}"[:200])
                    told.add(words)

    async with beside(tell()):
        yield


def _report(findings: Findings) -> None:
    width = max(len(name) for name, _ in findings.rows())
    lines = ["", "Report", *(f"  {name:{width}}  {value}" for name, value in findings.rows())]
    lines += ["", *(f"  {line}" for line in findings.table().splitlines()), ""]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
