"""
How long nodes live: hazard by pool, zone, GPU type, age and hour of day.

`lives` reads what was seen, `ages` holds the hazards, `families` the laws of a whole fleet,
`pooling` draws pools together, `choosing` lets the data choose, `fitting` fits and scores,
`model` answers. `prior` is what is believed without data, `bursts` tells how nodes of a pool go
together, `availability` how long a pool can be had and not be had.
"""

from functools import partial
from typing import Final

from ebbtide.core.models.kinds import Kind
from ebbtide.core.models.lifetime.choosing import METHODS
from ebbtide.core.models.lifetime.fitting import fit, judge
from ebbtide.core.models.lifetime.lives import AGE, GPU, HORIZON, LIFE, POOL, START, ZONE
from ebbtide.core.models.lifetime.model import Lifetimes

KIND: Final = Kind(
    name="lifetime",
    inputs=(POOL, ZONE, GPU, START, AGE, HORIZON),
    target=LIFE,
    group=POOL.name,
    methods={name: partial(fit, method=name) for name in METHODS},
    read=Lifetimes.read,
    judge=judge,
)
