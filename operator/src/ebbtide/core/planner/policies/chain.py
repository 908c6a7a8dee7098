"""The states of several zones at once, and how one joint state leads to the next."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np

from ebbtide.core.models.table import Floats, Indices
from ebbtide.core.planner.policies.law import FINE

EDGES: Final = {1: FINE, 2: (1900.0, 7200.0, 28800.0), 3: (3600.0,)}
"""Edges of age by the number of zones: 16, 64 and 64 joint states."""

MOST_ZONES: Final = max(EDGES)

Rows: TypeAlias = slice | Indices


@dataclass(frozen=True)
class Chain:
    """The joint states of some zones; the first zone changes slowest from state to state."""

    num_zones: int
    edges: tuple[float, ...]

    @property
    def size(self) -> int:
        """States of one zone."""
        return 2 * (len(self.edges) + 1)

    @property
    def number(self) -> int:
        """Joint states."""
        return int(self.size**self.num_zones)

    @cached_property
    def up(self) -> tuple[Rows, ...]:
        """The joint states in which each zone is up."""
        return tuple(_rows(np.flatnonzero(bits)) for bits in self._is_up)

    @cached_property
    def down(self) -> tuple[Rows, ...]:
        """The joint states in which each zone is down."""
        return tuple(_rows(np.flatnonzero(~bits)) for bits in self._is_up)

    @cached_property
    def places(self) -> tuple[tuple[int, ...], ...]:
        """By zone, where each joint state stands among those in which it is up; -1 for none."""
        return tuple(
            tuple(int(place) for place in np.where(bits, np.cumsum(bits) - 1, -1))
            for bits in self._is_up
        )

    def join(self, states: Sequence[int]) -> int:
        """Return the joint state of one state for each zone."""
        joint = 0
        for state in states:
            joint = joint * self.size + state
        return joint

    @cached_property
    def _is_up(self) -> tuple[Indices, ...]:
        joint = np.arange(self.number)
        powers = [self.size ** (self.num_zones - 1 - zone) for zone in range(self.num_zones)]
        return tuple(joint // power % self.size < self.size // 2 for power in powers)


def joint_law(laws: Sequence[Floats]) -> Floats:
    """
    Return the law of joint states, [24, E, E], from one of each zone, [24, S, S].

    Zones flip apart within one step; that they are up and down together is in their states and
    in the hour of the day.
    """
    joint = laws[0]
    for law in laws[1:]:
        hours, size, more = len(joint), joint.shape[1], law.shape[1]
        pairs = np.einsum("hab,hcd->hacbd", joint, law)
        joint = pairs.reshape(hours, size * more, size * more)
    return joint


def _rows(found: Indices) -> Rows:
    """Return indices as a slice where they are one, which numpy reads without a copy."""
    if found[-1] - found[0] + 1 == len(found):
        return slice(int(found[0]), int(found[-1]) + 1)
    return found
