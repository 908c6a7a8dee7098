"""
The least that an all-reduce costs, and how bandwidths of benchmarks are meant.

In a ring of n each sends every byte (n - 1) / n times to sum and as often to spread the sum, which
is the least possible where only the members add (Patarasuk & Yuan 2009, J. Parallel Distrib.
Comput. 69, 117-124). With several GPUs in a node the node counts as one: its GPUs add among
themselves, and one sum leaves over the network. That bound holds for trees, too: two nodes must
swap all bytes, once, as in a ring of two. The bus bandwidth of sixteen GPUs in two nodes may still
read 15/8 of the network's, for it is counted for a ring of sixteen. Only switches that add go below
the bound, to a half of it for many nodes.
"""

import numpy as np

from ebbtide.core.models.table import Floats

BITS: float = 8.0
GIGA: float = 1e9
"""Bandwidths of networks count 1e9 bits, those of benchmarks 1e9 bytes."""


def ring_factor(members: Floats) -> Floats:
    """How often each member of a ring sends each byte: bus over algorithm bandwidth."""
    found: Floats = 2 * (members - 1) / members
    return found


def seconds_at_bus(size: Floats, members: Floats, bus_gbytes_per_s: Floats) -> Floats:
    """Return seconds for bytes at a bus bandwidth in 1e9 bytes/s."""
    found: Floats = size * ring_factor(members) / (bus_gbytes_per_s * GIGA)
    return found


def ring_bound(size: Floats, nodes: Floats, nic_gbps: Floats) -> Floats:
    """Return the least seconds for bytes, by the network of each node; 0 within one node."""
    several = nodes > 1
    rate = np.where(several, nic_gbps, 1.0) * GIGA / BITS
    found: Floats = np.where(several, size * ring_factor(nodes) / rate, 0.0)
    return found
