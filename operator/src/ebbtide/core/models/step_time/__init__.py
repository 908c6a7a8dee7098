"""
The step time of one rank (one process, one GPU) by GPU type and workload.

`physical`, the default, answers each question by the best that is known about it: see `model`.
`physical-alone` fits each GPU type by itself. The others are CM-DARE's: see `regressions`.
"""

from functools import partial
from typing import Final

from ebbtide.core.models.forecast import Json
from ebbtide.core.models.kinds import Kind
from ebbtide.core.models.quality import Quality
from ebbtide.core.models.step_time.model import StepTimeModel, fit, fit_alone
from ebbtide.core.models.step_time.plausible import doubt
from ebbtide.core.models.step_time.regressions import RECIPES, RegressionModel, fit_regression
from ebbtide.core.models.step_time.setups import INPUTS, STEP_TIME, WORKLOAD
from ebbtide.core.models.stored import Model


def _read(method: str, quality: Quality, stored: Json) -> Model:
    if method in RECIPES:
        return RegressionModel.read(method, quality, stored)
    return StepTimeModel.read(method, quality, stored)


KIND: Final = Kind(
    name="step-time",
    inputs=INPUTS,
    target=STEP_TIME,
    group=WORKLOAD.name,
    methods={
        "physical": fit,
        "physical-alone": fit_alone,
        **{method: partial(fit_regression, method=method) for method in RECIPES},
    },
    read=_read,
    doubt=doubt,
)
