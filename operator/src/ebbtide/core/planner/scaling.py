"""
What a fleet loses by being many: smaller local batches, and the time of the all-reduce.

An all-reduce is hidden behind the backward pass, two thirds of the computing, at best, and comes
after it at worst. The truth lies between, by network and library; the mean of both is taken.
"""

from typing import Final

import numpy as np

from ebbtide.core.models.all_reduce.base import PRIOR, Base
from ebbtide.core.models.all_reduce.calls import Calls
from ebbtide.core.models.all_reduce.ring import ring_factor
from ebbtide.core.models.table import Floats
from ebbtide.core.values.workload import Profile

TYPICAL_BYTES: Final = 102_228_128.0
"""Gradients of ResNet-50 in single precision."""
NIC_GBPS: Final = 10.0
"""Of a node whose network is not known: that of the smaller types of the catalogue."""
FORWARD: Final = 1 / 3
"""Of the computing: a backward pass is twice a forward pass in FLOPs."""
BYTES_PER_PARAMETER: Final = 4.0


def gradient_bytes_of(profile: Profile | None) -> tuple[float, str]:
    """Return the bytes that members exchange, and where that comes from."""
    if profile is not None and profile.gradient_bytes:
        return profile.gradient_bytes, "profile"
    if profile is not None and profile.parameters:
        return profile.parameters * BYTES_PER_PARAMETER, "parameters of the profile, 4 bytes each"
    return TYPICAL_BYTES, "a typical workload (ResNet-50)"


def all_reduce_seconds(
    profile: Profile | None, *, ranks: Floats, ranks_per_node: int, nic_gbps: float
) -> Floats:
    """Return the time of one all-reduce of all gradients by number of ranks."""
    size, _ = gradient_bytes_of(profile)
    measured = () if profile is None else profile.comm_times
    rows = [one for one in measured if one.gpus > 1 and one.seconds > 0 and one.bytes > 0]
    if rows:
        # the bandwidth of a ring, for each byte as often as a ring sends it
        factors = ring_factor(np.array([float(one.gpus) for one in rows]))
        rates = factors * np.array([one.bytes / one.seconds for one in rows])
        found: Floats = ring_factor(np.maximum(ranks, 1.0)) * size / float(np.median(rates))
        return found
    inside = np.minimum(ranks, float(ranks_per_node))
    nodes = np.ceil(ranks / ranks_per_node)
    calls = Calls(
        system=np.full(len(ranks), "", dtype=object),
        gpus=inside,
        nodes=nodes,
        nic_gbps=np.full(len(ranks), nic_gbps),
        size=np.full(len(ranks), size),
    )
    seconds: Floats = np.where(ranks > 1, Base(terms=PRIOR).seconds(calls), 0.0)
    return seconds


def step_seconds(computing: Floats, network: Floats) -> Floats:
    """Return the time of a step whose all-reduce is hidden in part."""
    hidden = np.maximum(computing, FORWARD * computing + network)
    result: Floats = (hidden + computing + network) / 2
    return result
