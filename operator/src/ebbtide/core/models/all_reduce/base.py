"""
The physical base of an all-reduce: a start, a latency for each hop, and bytes over a bandwidth.

T = c + 2(g-1) a1 + 2(g-1)/g bytes/B1 + 2(m-1) a2 + 2(m-1)/m bytes/B2 for g GPUs in each of m
nodes: the alpha-beta model of a ring within nodes and one between them. B2 counts in shares of
the network cards, so that a better network is faster by what it is better.
"""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from ebbtide.core.models.all_reduce.calls import Calls
from ebbtide.core.models.all_reduce.ring import ring_factor
from ebbtide.core.models.forecast import Json
from ebbtide.core.models.table import Floats

TERMS: Final = ("start", "local_hop", "local_byte", "hop", "bound")
PRIOR: Final = (20e-6, 5e-6, 1 / 100e9, 20e-6, 1.5)
"""What is taken where nothing was measured: 20 us to start, hops of 5 us in a node and 20 us
between, 100 GB/s in a node, and two thirds of the network cards."""
CERTAINTY: Final = 0.03
"""How strongly that is believed: a measurement weighs 1, and errors are relative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The five terms of one system."""

    terms: tuple[float, float, float, float, float]

    def seconds(self, calls: Calls) -> Floats:
        """Return times; positive, rising with bytes, never rising with bandwidth."""
        found: Floats = _columns(calls) @ np.array(self.terms)
        return found

    @classmethod
    def of(cls, calls: Calls, seconds: Floats) -> Self:
        """Minimise relative errors, with terms of at least 0 and a weak pull to the prior."""
        from scipy.optimize import nnls  # noqa: PLC0415 -- loads only where a fit needs it

        prior = np.array(PRIOR)
        scaled = _columns(calls) / seconds[:, None] * prior
        pull = CERTAINTY * np.eye(len(prior))
        found, _ = nnls(
            np.vstack([scaled, pull]), np.concatenate([np.ones(len(seconds)), pull.sum(axis=1)])
        )
        # A start of zero would let the time of a few bytes be zero.
        start, *others = (np.maximum(found, [CERTAINTY, 0, 0, 0, 0]) * prior).tolist()
        return cls(terms=(start, *others))

    def to_json(self) -> Json:
        """Return plain JSON."""
        return dict(zip(TERMS, self.terms, strict=True))

    @classmethod
    def from_json(cls, stored: Json) -> Self:
        """Read what `to_json` wrote."""
        start, local_hop, local_byte, hop, bound = (float(stored[name]) for name in TERMS)
        return cls(terms=(start, local_hop, local_byte, hop, bound))


def fit_bases(calls: Calls, seconds: Floats) -> dict[str, Base]:
    """Fit each system by itself."""
    found = {}
    for name in sorted(set(calls.system.tolist())):
        here = calls.system == name
        found[name] = Base.of(calls.take(here), seconds[here])
    return found


def _columns(calls: Calls) -> Floats:
    return np.stack(
        [
            np.ones(len(calls)),
            2 * (calls.gpus - 1),
            ring_factor(calls.gpus) * calls.size,
            2 * (calls.nodes - 1),
            calls.bound,
        ],
        axis=1,
    )
