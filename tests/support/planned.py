"""Jobs whose size and place the planner chooses, with a profile that says how fast they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from world.installation import apply

if TYPE_CHECKING:
    from support.bed import Bed
    from world.training import Training

PLANNING: Final = {"capacityWaitSeconds": 4, "planSeconds": 2, "startSeconds": 4, "timeScale": 60}
"""Of the operator's configuration: hours pass in minutes."""
SECONDS_PER_SAMPLE: Final = 0.008
"""Of the pause that stands for compute: with 64 samples a step takes one worker half a second."""
BATCH: Final = 64


async def give_profile(bed: Bed, *, name: str = "digits", slowdown: float = 1.0) -> None:
    """Say how fast one rank is with each local batch; `slowdown` times slower than usual."""
    per_sample = SECONDS_PER_SAMPLE * slowdown
    times = [
        {"gpu": "V100", "localBatch": batch, "seconds": round(0.01 + per_sample * batch, 4)}
        for batch in (16, 32, 64)
    ]
    spec = {"workload": "digits", "parameters": 37_000, "gradientBytes": 150_000, "tensors": 14}
    document = {
        "apiVersion": "ebbtide.dev/v1alpha1",
        "kind": "WorkloadProfile",
        "metadata": {"name": name},
        "spec": {**spec, "checkpointBytes": 400_000, "stepTimes": times},
    }
    group = "apis/ebbtide.dev/v1alpha1"
    await apply(bed.world, f"{bed.world.path('workloadprofiles', group)}/{name}", document)


async def train_planned(bed: Bed, *, slowdown: float = 1.0, **changes: Any) -> Training:
    """Apply a job in planMode Auto that pauses for each sample, `slowdown` times as long."""
    await give_profile(bed, slowdown=slowdown)
    fields: dict[str, Any] = {
        "workers": (1, 3),
        "pause": 0.0,
        "options": ("--pause-per-sample", str(SECONDS_PER_SAMPLE * slowdown)),
        "planMode": "Auto",
        "profile": "digits",
        "capacity": {"onDemandFloor": 0},
    }
    return await bed.train(**{**fields, **changes})


def planned_pools(job: Training) -> dict[str, int]:
    """Return the workers of each pool in the plan that the status tells."""
    plan = job.status.get("plan") or {}
    return {entry["name"]: entry["replicas"] for entry in plan.get("pools") or []}
