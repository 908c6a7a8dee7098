"""
The time of one rank's step by local batch and GPU type, by the best that is known of the workload.

In this order: the profile's own measurements; a fitted model of step times that knows the
workload; the iteration model's one-GPU times; either of them carried over from another GPU type by
peak speed; the workload's FLOPs and a share of the peak; a typical workload's FLOPs.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

from ebbtide.core.models.batch_curve import fit_line
from ebbtide.core.models.stored import Model
from ebbtide.core.models.table import DataError, Floats, Table
from ebbtide.core.values.workload import Profile

UTILISATION: Final = 0.1
"""
The share of `training_flops` that training uses, where nothing was measured.

ResNet-50 at 64 samples a step (12.3e9 FLOPs each, forward and backward) made 281 samples/s on a
V100 and 39.6 on a K80 (Narayanan et al., OSDI 2020, the published throughputs): 0.08 and 0.11.
"""
PRIOR_FACTOR: Final = 2.5
"""Nine of ten lie within this factor of that share; other networks move more or fewer bytes."""
CARRIED_FACTOR: Final = 1.6
"""The same of a time carried over from another GPU type: between those two it is 1.4 off."""
TYPICAL_FLOPS: Final = 12.3e9
"""Of one sample of ResNet-50: three times the 4.1e9 of a forward pass (He et al. 2016)."""
TYPICAL_FACTOR: Final = 10.0
"""Known workloads differ from it by more than this at times; nothing better is known."""
PROFILE_FACTOR: Final = 1.08
"""Iteration times are predicted within about 8 % (Srifty, MLSys 2022, in its abstract)."""
CPU_FLOPS: Final = 5e10
"""Per second, of a worker without a GPU: a few cores' worth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """What a GPU type can do by its data sheet."""

    flops: float
    """Of training, per second: see `training_flops`."""
    nic_gbps: float | None = None
    """Of all network cards of a node together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowing:
    """All that may be known of a workload."""

    workload: str = ""
    profile: Profile | None = None
    chips: Mapping[str, Chip] = field(default_factory=dict)
    """By GPU type."""
    step_time: Model | None = None
    iteration: Model | None = None
    parameter_server: Model | None = None
    iteration_gpu: str = "T4"
    """What the iteration model was measured on: it does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTimes:
    """Seconds of one rank's step by local batch, with the factors of the interval around them."""

    at: Callable[[Floats], Floats]
    low: float
    """Nine of ten times lie between `low` and `high` times what `at` gives."""
    high: float
    source: str

    def slower(self, factor: float, *, spread: float, source: str) -> "RankTimes":
        """Carry over to another GPU type."""
        return RankTimes(
            at=lambda batch: self.at(batch) * factor,
            low=self.low / spread,
            high=self.high * spread,
            source=source,
        )


Found: TypeAlias = dict[str, RankTimes]


def find_rank_times(knowing: Knowing, gpus: tuple[str, ...], *, batch: Floats) -> Found:
    """Return what is known of each GPU type; a type of which nothing is known is left out."""
    ways = (_of_profile, _of_step_times, _of_iterations)
    found: Found = {}
    for gpu in sorted(set(gpus) | set(_measured_types(knowing))):
        times = (way(knowing, gpu, batch) for way in ways)
        known = next((one for one in times if one is not None), None)
        if known is not None:
            found[gpu] = known
    measured = dict(found)
    for gpu in gpus:
        guess = _carry_over(knowing, measured, gpu) or _of_flops(knowing, gpu)
        if gpu not in found and guess is not None:
            found[gpu] = guess
    return {gpu: found[gpu] for gpu in gpus if gpu in found}


def training_flops(single: float, tensor: float | None) -> float:
    """
    Return what GPU types are compared by: the mean, by factors, of their two peaks.

    Single precision alone makes an L40S faster than an H100; matrix units alone make a V100 twelve
    times a P100. Part of training runs on either.
    """
    return single if tensor is None else math.sqrt(single * tensor)


# ------------------------------------------------------------------------- ways


def _measured_types(knowing: Knowing) -> tuple[str, ...]:
    """Types that may be known although no pool has them, to carry over from."""
    profile = knowing.profile
    own = () if profile is None else tuple(one.gpu for one in profile.step_times)
    return (*own, knowing.iteration_gpu, "V100", "P100", "K80")


def _of_profile(knowing: Knowing, gpu: str, batch: Floats) -> RankTimes | None:
    profile = knowing.profile
    rows = [] if profile is None else [one for one in profile.step_times if one.gpu == gpu]
    if not rows:
        return None
    batches = np.array([float(one.local_batch) for one in rows])
    seconds = np.array([one.seconds for one in rows])
    try:
        curve = fit_line(batches, seconds)
    except DataError:
        return None
    beyond = bool(curve.is_beyond(np.clip(batch, 1.0, None)).any())
    factor = PROFILE_FACTOR**2 if beyond or len(set(batches.tolist())) == 1 else PROFILE_FACTOR
    number = sum(one.samples for one in rows)
    return RankTimes(
        at=curve.at,
        low=1 / factor,
        high=factor,
        source=f"profile: {number} measurement{'s' if number > 1 else ''} on {gpu}",
    )


def _of_step_times(knowing: Knowing, gpu: str, batch: Floats) -> RankTimes | None:
    model, profile = knowing.step_time, knowing.profile
    if model is None:
        return None
    name = _name_of(knowing)
    features: dict[str, object] = {}
    if profile is not None and profile.flops_per_sample and profile.tensors:
        features = {"flops": profile.flops_per_sample, "tensors": profile.tensors}

    def rows(batches: Floats) -> Table:
        number = len(batches)
        return Table.of(
            gpu=[gpu] * number,
            workload=[name or "?"] * number,
            local_batch=batches,
            **{column: [value] * number for column, value in features.items()},
        )

    return _ask(model, rows, batch, source=f"step-time model, {name or 'by its FLOPs'}")


def _of_iterations(knowing: Knowing, gpu: str, batch: Floats) -> RankTimes | None:
    model, name = knowing.iteration, _name_of(knowing)
    if model is None or not name or gpu != knowing.iteration_gpu:
        return None

    def rows(batches: Floats) -> Table:
        number = len(batches)
        return Table.of(workload=[name] * number, placement=["1"] * number, local_batch=batches)

    return _ask(model, rows, batch, source=f"iteration model, {name or 'by its FLOPs'}")


def _carry_over(knowing: Knowing, found: Found, gpu: str) -> RankTimes | None:
    chip = knowing.chips.get(gpu)
    known = [(knowing.chips[other].flops, other) for other in found if other in knowing.chips]
    if chip is None or not known:
        return None
    nearest = min(known, key=lambda one: (abs(np.log(one[0] / chip.flops)), one[1]))
    text = f"carried over from {nearest[1]} by peaks ({found[nearest[1]].source})"
    return found[nearest[1]].slower(nearest[0] / chip.flops, spread=CARRIED_FACTOR, source=text)


def _of_flops(knowing: Knowing, gpu: str) -> RankTimes | None:
    """Take a share of the peak; without a GPU, of a few cores."""
    chip = Chip(flops=CPU_FLOPS / UTILISATION) if gpu == "" else knowing.chips.get(gpu)
    if chip is None:
        return None
    profile = knowing.profile
    flops = None if profile is None else profile.flops_per_sample
    factor = TYPICAL_FACTOR if flops is None or gpu == "" else PRIOR_FACTOR
    per_sample = (flops or TYPICAL_FLOPS) / (UTILISATION * chip.flops)
    what = "a typical workload (ResNet-50)" if flops is None else "its FLOPs"
    return RankTimes(
        at=lambda batches: per_sample * batches,
        low=1 / factor,
        high=factor,
        source=f"embedded prior: {what} at {UTILISATION:.0%} of the peak, within a factor of"
        f" {factor:g}",
    )


def _name_of(knowing: Knowing) -> str:
    profile = knowing.profile
    return profile.workload if profile is not None and profile.workload else knowing.workload


def _ask(
    model: Model, rows: Callable[[Floats], Table], batch: Floats, *, source: str
) -> RankTimes | None:
    """Return what a model says of local batches; None where it cannot say anything of them."""
    try:
        found = model.predict(rows(batch))
    except DataError:
        return None
    return RankTimes(
        at=lambda batches: model.predict(rows(batches)).value,
        low=float((found.low / found.value).min()),
        high=float((found.high / found.value).max()),
        source=source + (", beyond what was measured" if found.beyond.any() else ""),
    )
