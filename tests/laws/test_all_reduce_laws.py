"""More bytes are never faster, more bandwidth never slower, no answer is out of the world."""

from functools import cache
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.models.all_reduce import KIND
from ebbtide.core.models.all_reduce.model import AllReduce
from ebbtide.core.models.all_reduce.ring import ring_bound
from ebbtide.core.models.table import Floats, Table

# Trees and lines alone keep none of these: they are there to be measured.
METHODS = pytest.mark.parametrize("method", ["trees-on-physics", "alpha-beta"])
SYSTEMS = pytest.mark.parametrize("system", ["noisy", "never-measured"])
SIZES = st.lists(st.floats(1, 1e13), min_size=2, max_size=20)


@cache
def fitted(method: str) -> AllReduce:
    chance = np.random.default_rng(7)
    nodes = np.repeat([1.0, 2.0, 4.0], 20)
    size = np.tile(np.geomspace(1e3, 1e10, 20), 3)
    seconds = 3e-5 * nodes + ring_bound(size, nodes, np.full(60, 100.0)) * 1.3 + size / 1e11
    seconds *= np.exp(chance.normal(0, 0.3, 60))
    seconds = np.maximum(seconds, ring_bound(size, nodes, np.full(60, 100.0)))
    table = Table.of(
        system=["noisy"] * 60,
        gpus_per_node=[4] * 60,
        nodes=nodes,
        nic_gbps=[100] * 60,
        bytes=size,
        time_s=seconds,
    )
    return cast("AllReduce", KIND.methods[method](table))


def ask(
    method: str, system: str, *, sizes: list[float], gpus: int, nodes: int, nic: float
) -> Floats:
    rows = len(sizes)
    table = Table.of(
        system=[system] * rows,
        gpus_per_node=[gpus] * rows,
        nodes=[nodes] * rows,
        nic_gbps=[nic] * rows,
        bytes=sizes,
    )
    found = fitted(method).predict(table)
    assert np.isfinite(found.high).all()
    assert (found.low > 0).all()
    assert ((found.low <= found.value) & (found.value <= found.high)).all()
    return found.value


@METHODS
@SYSTEMS
@given(sizes=SIZES, gpus=st.integers(2, 16), nodes=st.integers(1, 500), nic=st.floats(0.1, 4000))
def test_more_bytes_are_never_faster(
    method: str, system: str, sizes: list[float], gpus: int, nodes: int, nic: float
) -> None:
    found = ask(method, system, sizes=sorted(sizes), gpus=gpus, nodes=nodes, nic=nic)

    assert (np.diff(found) >= -1e-9 * found[1:]).all()


@METHODS
@SYSTEMS
@given(sizes=SIZES, nodes=st.integers(1, 500), nic=st.floats(0.1, 900), more=st.floats(1, 100))
def test_more_bandwidth_is_never_slower(
    method: str, system: str, sizes: list[float], nodes: int, nic: float, more: float
) -> None:
    slow = ask(method, system, sizes=sizes, gpus=4, nodes=nodes, nic=nic)
    fast = ask(method, system, sizes=sizes, gpus=4, nodes=nodes, nic=nic * more)

    assert (fast <= slow * (1 + 1e-9)).all()


@METHODS
@SYSTEMS
@given(sizes=SIZES, nodes=st.integers(2, 500), nic=st.floats(0.1, 4000))
def test_no_answer_is_below_the_bound_of_the_ring(
    method: str, system: str, sizes: list[float], nodes: int, nic: float
) -> None:
    found = ask(method, system, sizes=sizes, gpus=4, nodes=nodes, nic=nic)

    bound = ring_bound(np.array(sizes), np.full(len(sizes), nodes), np.full(len(sizes), nic))
    assert (found >= bound * (1 - 1e-9)).all()
