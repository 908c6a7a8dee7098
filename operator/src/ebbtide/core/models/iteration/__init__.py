"""
Time of one iteration of data-parallel training: laid out on a timeline, or fitted from steps.

`timeline` needs to know layers and links. The kind `iteration` is fitted from measured steps of
placements, and answers for placements that nobody measured.
"""

from typing import Final

from ebbtide.core.models.iteration.alternatives import (
    CURVE_AND_TREES,
    TREES,
    fit_curve_and_trees,
    fit_trees,
    read_forests,
)
from ebbtide.core.models.iteration.fitting import (
    PHYSICS,
    PROCESS,
    fit_physics_alone,
    fit_process,
)
from ebbtide.core.models.iteration.samples import INPUTS, STEP
from ebbtide.core.models.iteration.steps import read_steps
from ebbtide.core.models.kinds import Kind
from ebbtide.core.models.quality import Quality
from ebbtide.core.models.stored import Json, Model


def _read(method: str, quality: Quality, stored: Json) -> Model:
    read = read_forests if method in {TREES, CURVE_AND_TREES} else read_steps
    return read(method, quality, stored)


KIND: Final = Kind(
    name="iteration",
    inputs=INPUTS,
    target=STEP,
    group="placement",
    methods={
        PROCESS: fit_process,
        PHYSICS: fit_physics_alone,
        CURVE_AND_TREES: fit_curve_and_trees,
        TREES: fit_trees,
    },
    read=_read,
)
