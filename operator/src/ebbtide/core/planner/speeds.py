"""
The `Speed` of every fleet of a job, from the best that is known: see `rank_times` and `scaling`.

A step's global batch is split over all ranks, so a larger fleet has smaller local batches; what
exceeds the largest local batch is accumulated in equal parts. Measured speed of the job itself
corrects all of it by one factor.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ebbtide.core.models.table import DataError, Floats, Table
from ebbtide.core.planner.rank_times import Knowing, RankTimes, find_rank_times
from ebbtide.core.planner.scaling import (
    NIC_GBPS,
    all_reduce_seconds,
    gradient_bytes_of,
    step_seconds,
)
from ebbtide.core.planner.speed import Pace, Speed
from ebbtide.core.values.plan import Measured

MEASURED_FACTOR: Final = 1.1
"""Nine of ten measured speeds hold within it: computing varies by up to 1.1 in clouds (Srifty)."""
MANY: Final = 10_000
"""Workers that saturate any servers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a job spreads its work."""

    global_batch: int
    sizes: tuple[int, ...]  # legal numbers of workers, ascending
    ranks_per_worker: int = 1
    workers_per_node: int = 1
    uses_servers: bool = False

    @property
    def counts(self) -> Floats:
        """Numbers of workers from 1 to the largest legal one."""
        return np.arange(1, self.sizes[-1] + 1, dtype=np.float64)

    def batch_at(self, workers: Floats) -> Floats:
        """Return the local batch of a rank."""
        result: Floats = self.global_batch / (workers * self.ranks_per_worker)
        return result


def build_speed(
    knowing: Knowing, layout: Layout, gpus: tuple[str, ...], *, measured: Measured | None = None
) -> Speed:
    """Return the speed of fleets of some GPU types; a type of which nothing is known is missing."""
    batch = layout.batch_at(np.array([layout.sizes[0], layout.sizes[-1]], dtype=np.float64))
    times = find_rank_times(knowing, tuple(dict.fromkeys(gpus)), batch=np.clip(batch, 1e-3, None))
    if not times:
        return Speed(paces={})
    steps = {gpu: _steps(knowing, layout, gpu, one) for gpu, one in times.items()}
    first = layout.sizes[0] - 1
    paces = {
        gpu: _pace(
            times[gpu], float(layout.batch_at(layout.counts)[first] / seconds[first]), layout
        )
        for gpu, seconds in steps.items()
    }
    computing = np.exp(np.mean([np.log(seconds) for seconds in steps.values()], axis=0))
    shape = layout.batch_at(layout.counts) / computing
    efficiency = shape / shape[first]
    notes = list(_describe_paces(paces))
    if not layout.uses_servers:
        network = _network(knowing, layout, tuple(times))
        efficiency *= computing / step_seconds(computing, network)
        notes.append(_describe_network(knowing))
    speed = Speed(
        paces=paces,
        efficiency=tuple(efficiency.tolist()),
        server_samples_per_s=_ceiling(knowing, layout, tuple(times))
        if layout.uses_servers
        else None,
        notes=tuple(notes),
    )
    return speed if measured is None else correct(speed, measured, layout)


def correct(speed: Speed, measured: Measured, layout: Layout) -> Speed:
    """Scale a speed so that it gives what was measured, on that fleet, of whatever size."""
    known = {gpu: count for gpu, count in measured.workers.items() if gpu in speed.paces}
    size = sum(measured.workers.values())
    seen = measured.steps_per_second * layout.global_batch
    if not known or sum(known.values()) != size or not 0 < seen < math.inf:
        return speed
    predicted = sum(speed.paces[gpu].value * count for gpu, count in known.items())
    predicted *= speed.efficiency_of(size)
    through = speed.server_samples_per_s
    if through is not None and measured.servers and predicted > measured.servers * through:
        # the servers are what was measured; of the workers nothing new is known
        factor = seen / (measured.servers * through)
        return replace(speed, server_samples_per_s=through * factor)
    factor = seen / predicted
    paces = {
        gpu: _measured_pace(pace, factor, is_seen=gpu in known) for gpu, pace in speed.paces.items()
    }
    fleet = ", ".join(f"{count} {gpu or 'CPU'}" for gpu, count in sorted(known.items()))
    note = (
        f"measured: {measured.steps_per_second:.3g} steps/s on {fleet}, {factor:.2f} times what"
        " was predicted; all speeds are corrected by that"
    )
    return replace(speed, paces=paces, notes=(note, *speed.notes))


# ------------------------------------------------------------------------- parts


def _steps(knowing: Knowing, layout: Layout, gpu: str, times: RankTimes) -> Floats:
    """Return the computing time of a step by number of workers, in parts where it must be."""
    batch = layout.batch_at(layout.counts)
    profile = knowing.profile
    most = None if profile is None else profile.max_local_batch.get(gpu)
    parts = np.ones(len(batch)) if not most else np.ceil(batch / most)
    seconds: Floats = parts * times.at(np.maximum(batch / parts, 1e-3))
    return np.maximum(seconds, 1e-9)


def _pace(times: RankTimes, rank_rate: float, layout: Layout) -> Pace:
    rate = rank_rate * layout.ranks_per_worker
    return Pace(value=rate, low=rate / times.high, high=rate / times.low, source=times.source)


def _measured_pace(pace: Pace, factor: float, *, is_seen: bool) -> Pace:
    value = pace.value * factor
    if is_seen:
        low, high = value / MEASURED_FACTOR, value * MEASURED_FACTOR
        return Pace(value=value, low=low, high=high, source="measured")
    source = f"{pace.source}, corrected by what other types were measured at"
    return Pace(value=value, low=pace.low * factor, high=pace.high * factor, source=source)


def _network(knowing: Knowing, layout: Layout, gpus: tuple[str, ...]) -> Floats:
    cards = [knowing.chips[gpu].nic_gbps for gpu in gpus if gpu in knowing.chips]
    slowest = min((card for card in cards if card), default=NIC_GBPS)
    return all_reduce_seconds(
        knowing.profile,
        ranks=layout.counts * layout.ranks_per_worker,
        ranks_per_node=max(1, layout.workers_per_node * layout.ranks_per_worker),
        nic_gbps=slowest,
    )


def _ceiling(knowing: Knowing, layout: Layout, gpus: tuple[str, ...]) -> float | None:
    """Return samples per second that one server lets through, at the smallest local batch."""
    model = knowing.parameter_server
    if model is None:
        return None
    size, _ = gradient_bytes_of(knowing.profile)
    name = knowing.profile.workload if knowing.profile else knowing.workload
    try:
        found = model.predict(
            Table.of(
                gpu=[gpu or "?" for gpu in gpus],
                workload=[name or "?"] * len(gpus),
                workers=[MANY] * len(gpus),
                servers=[1] * len(gpus),
                bytes=[size] * len(gpus),
            )
        )
    except DataError:
        return None
    updates = float(found.value.max())
    return updates * float(layout.batch_at(layout.counts)[-1])


def _describe_paces(paces: Mapping[str, Pace]) -> tuple[str, ...]:
    """Name each source once, with the speeds that come from it."""
    by_source: dict[str, list[str]] = {}
    for gpu, pace in sorted(paces.items()):
        text = f"{gpu or 'CPU'} {pace.value:.3g} ({pace.low:.3g} to {pace.high:.3g})"
        by_source.setdefault(pace.source, []).append(text)
    return tuple(
        f"samples/s of one worker alone, {source}: {', '.join(found)}"
        for source, found in by_source.items()
    )


def _describe_network(knowing: Knowing) -> str:
    _, source = gradient_bytes_of(knowing.profile)
    profile = knowing.profile
    how = (
        "measured" if profile is not None and profile.comm_times else "a ring at 2/3 of the network"
    )
    return (
        f"all-reduce: gradient bytes from {source}, time by {how}, half hidden by the backward pass"
    )
