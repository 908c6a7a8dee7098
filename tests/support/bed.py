"""What a test of jobs stands on: a world, Ebbtide installed in it, and the digits job."""

from __future__ import annotations

import contextlib
import copy
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

import yaml

from world.cloud.pool import Market, Pool, Provider
from world.installation import ROOT
from world.training import Training, provide_claim

if TYPE_CHECKING:
    from world.api import Json
    from world.installation import Installation
    from world.world import World

FACTOR = 0.1
"""A notice of 30 s lasts 3 s, a node comes after 1 s."""


class Bed:
    """What a test of jobs stands on."""

    def __init__(self, world: World, installation: Installation) -> None:
        self.world = world
        self.operator = installation.operator
        self.stack = contextlib.AsyncExitStack()

    async def train(self, *, name: str = "digits", claim: str = "", **changes: Any) -> Training:
        """Apply the digits job with changes and follow it."""
        claim = claim or f"{name}-checkpoints"
        manifest = make_digits_job(name=name, claim=claim, **changes)
        return await self.follow(manifest, claim=claim)

    async def follow(self, manifest: Json, *, claim: str) -> Training:
        """Apply a job whose state is kept behind a claim, and follow it."""
        volume = self.world.root / "volumes" / f"{self.world.namespace}-{claim}"
        if not volume.exists():
            await provide_claim(self.world, claim)
        job = Training(self.world, manifest, volume=volume, operator=self.operator)
        return await self.stack.enter_async_context(job)


class OpenBed(Protocol):
    """Starts a bed; what the fixture of this name gives."""

    async def __call__(
        self, *pools: Pool, provider: Provider = Provider.GKE, cold: bool = False, **options: Any
    ) -> Bed:
        """Take pools other than the usual two, and what World takes; `cold` as in a cluster."""


def spot_pool(name: str, *, provider: Provider = Provider.GKE, **changes: Any) -> Pool:
    values: dict[str, Any] = {
        "market": Market.SPOT,
        "provider": provider,
        "gpu": "V100",
        "gpus_per_node": 1,
        "usd_per_node_hour": Decimal("0.92"),
        "provision_seconds": (5.0, 10.0),
        "max_nodes": 6,
    }
    return Pool(name=name, **(values | changes))


def on_demand_pool(name: str, **changes: Any) -> Pool:
    values: dict[str, Any] = {
        "market": Market.ON_DEMAND,
        "usd_per_node_hour": Decimal("2.48"),
        "max_nodes": 4,
    }
    return spot_pool(name, **(values | changes))


def make_script_job(*, command: tuple[str, ...], workers: tuple[int, int], **spec: Any) -> Json:
    """Return the manifest of the torchrun example with another command and size."""
    documents = list(yaml.safe_load_all((ROOT / "examples/torchrun/job.yaml").read_text()))
    job: Json = copy.deepcopy(documents[-1])
    trainer = job["spec"]["template"]["spec"]["containers"][0]
    trainer["command"] = list(command)
    trainer["resources"]["requests"] = {"cpu": "100m"}
    least, most = workers
    job["spec"]["elasticPolicy"] = {"minReplicas": least, "maxReplicas": most, "replicas": most}
    del job["spec"]["capacity"]["pools"]
    job["spec"].update(spec)
    return job


def make_digits_job(
    *,
    name: str = "digits",
    claim: str = "digits-checkpoints",
    steps: int = 120,
    pause: float = 0.03,
    workers: tuple[int, int] = (3, 3),
    options: tuple[str, ...] = (),
    container: Json | None = None,
    **spec: Any,
) -> Json:
    """
    Return the example's manifest: smaller, and with the script's options.

    All of `workers` run, unless another planMode leaves their number to the planner.
    """
    documents = list(yaml.safe_load_all((ROOT / "examples/digits/job.yaml").read_text()))
    job: Json = copy.deepcopy(documents[-1])
    job["metadata"]["name"] = name
    pod = job["spec"]["template"]["spec"]
    pod["volumes"][0]["persistentVolumeClaim"]["claimName"] = claim
    trainer = pod["containers"][0]
    trainer["command"] = ["python", "train.py", "--pause", str(pause), *options]
    trainer["resources"]["requests"] = {"cpu": "100m"}
    trainer.update(container or {})
    job["spec"]["work"]["steps"] = steps
    del job["spec"]["objective"], job["spec"]["profile"]
    job["spec"]["planMode"] = "Manual"
    job["spec"]["elasticPolicy"] = {"minReplicas": workers[0], "maxReplicas": workers[1]}
    if spec.get("planMode", "Manual") == "Manual":
        job["spec"]["elasticPolicy"]["replicas"] = workers[1]
    job["spec"]["checkpoint"]["interval"] = 2
    del job["spec"]["capacity"]["pools"]
    job["spec"].update(spec)
    return job
