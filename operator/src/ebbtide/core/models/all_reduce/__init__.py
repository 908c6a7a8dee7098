"""Time of an all-reduce: boosted trees on the physics of rings, never below the ring's bound."""

from typing import Final

import numpy as np

from ebbtide.core.models.all_reduce.calls import INPUTS, TIME, Calls
from ebbtide.core.models.all_reduce.model import METHODS, AllReduce, late_in, read_all_reduce
from ebbtide.core.models.all_reduce.plausible import doubt
from ebbtide.core.models.kinds import Kind
from ebbtide.core.models.table import Floats

KIND: Final = Kind(
    name="all-reduce",
    inputs=INPUTS,
    target=TIME,
    group="bytes",
    methods=METHODS,
    read=read_all_reduce,
    more=late_in,
    doubt=lambda table, _: doubt(table),
)


def seconds_for(
    model: AllReduce, size: Floats, *, system: str, gpus: int, nodes: int, nic_gbps: float
) -> Floats:
    """Seconds of all-reduces of sizes in bytes on one cluster; 0 where it has one GPU."""
    if gpus * nodes == 1:
        return np.zeros(len(size))
    ones = np.ones(len(size))
    calls = Calls(
        system=np.full(len(size), system, dtype=object),
        gpus=ones * gpus,
        nodes=ones * nodes,
        nic_gbps=ones * nic_gbps,
        size=size,
    )
    return model.forecast(calls).value
