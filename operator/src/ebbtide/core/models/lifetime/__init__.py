"""
How long nodes live: hazard by pool, zone, GPU type, age and hour of day.

`lives` reads what was seen, `ages` holds the hazards, `families` the laws of a whole fleet,
`pooling` draws pools together, `choosing` lets the data choose, `fitting` fits and scores,
`model` answers. `prior` is what is believed without data, `bursts` tells how nodes of a pool go
together, `availability` how long a pool can be had and not be had.
"""

from collections.abc import Iterator
from functools import partial
from typing import Final

from ebbtide.core.models.kinds import Kind
from ebbtide.core.models.lifetime.choosing import METHODS
from ebbtide.core.models.lifetime.fitting import fit, judge
from ebbtide.core.models.lifetime.lives import AGE, GPU, HORIZON, LIFE, POOL, START, ZONE
from ebbtide.core.models.lifetime.model import Lifetimes
from ebbtide.core.models.stored import Model


def tell_of(model: Model) -> Iterator[str]:
    """Say what was left out or changed, and what comes from the prior."""
    if not isinstance(model, Lifetimes):
        return
    seen = model.seen
    if seen.refused:
        yield f"{seen.refused} lives below 0 hours were left out: clocks disagreed"
    if seen.lifted:
        yield f"{seen.lifted} lives of 0 hours count as one second"
    if not seen.revocations:
        yield "no node was revoked: how they end is taken from the prior, and how long they lived"


KIND: Final = Kind(
    name="lifetime",
    inputs=(POOL, ZONE, GPU, START, AGE, HORIZON),
    target=LIFE,
    group=POOL.name,
    methods={name: partial(fit, method=name) for name in METHODS},
    read=Lifetimes.read,
    judge=judge,
    notes=tell_of,
)
