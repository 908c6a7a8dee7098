"""The models that can be fitted and asked by name, as the command line does."""

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, cast

import numpy as np

from ebbtide.core.models.forecast import Forecast
from ebbtide.core.models.quality import Quality, Split
from ebbtide.core.models.stored import Json, Model, StoredModelError, unseal
from ebbtide.core.models.table import Column, Flags, Floats, Table, check
from ebbtide.core.values.errors import EbbtideError

NONSENSE: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    TypeError,
    ValueError,
)
"""What code stumbles over where parameters are not what a fit writes."""
FAR: Final = 1e6
"""So many times the largest target that samples may have, an answer is none."""


class Judge(Protocol):
    """Fits by a method and scores what was held out, under splits of the rows of a table."""

    def __call__(
        self, table: Table, splits: Iterable[Split], *, method: str, group: str, split: str
    ) -> Quality:
        """Return the quality; `group` names the column to score by, `split` what was held out."""


Peaks: TypeAlias = Mapping[str, float]
"""The most FLOPs a second of GPU types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of model; each module of a model offers one as `KIND`."""

    name: str
    inputs: tuple[Column, ...]
    """What `predict` needs."""
    target: Column
    """What is predicted; `fit` needs it too."""
    group: str
    """The column by whose values samples are held out: repeats of one value must not leak."""
    methods: Mapping[str, Callable[[Table], Model]]
    """Ways to fit, by name; the first is the default. Each raises DataError."""
    read: Callable[[str, Quality, Json], Model]
    """Builds a model from its method, quality and parameters."""
    judge: Judge | None = None
    """How held-out samples are scored where `quality.judge` does not fit them."""
    more: Callable[[Model, Forecast], Mapping[str, Floats]] | None = None
    """What else a model says of each row of its forecast, by name."""
    notes: Callable[[Model], Iterable[str]] | None = None
    """What a fit did without, or took from elsewhere, for whoever gave the samples."""

    doubt: Callable[[Table, Peaks], Iterable[str]] | None = None
    """What of samples is hard to believe, as of a file in another unit; raises DataError for what
    cannot be."""

    @property
    def default(self) -> str:
        """The method to take where none is named."""
        return next(iter(self.methods))

    def from_json(self, stored: object) -> Model:
        """Read a stored model; raises StoredModelError."""
        method, quality, parameters = unseal(stored, kind=self.name)
        try:
            return self.read(method, quality, parameters)
        except StoredModelError:
            raise
        except NONSENSE as error:
            # The checksum fits, so this was written on purpose: by hand, or by another program.
            raise StoredModelError(
                f"the parameters are not those of {self.name} by {method}: {error!r}"
            ) from error

    def ask(self, model: Model, table: Table) -> Forecast:
        """
        Ask a model that may come from anywhere; raises DataError for a question without sense.

        Parameters that no fit wrote may have any value. What comes of them is an answer in order
        (0 < low <= value <= high, all finite), or StoredModelError.
        """
        check(table, self.inputs)
        try:
            with np.errstate(all="ignore"):
                found = model.predict(table)
                wrong = np.flatnonzero(~self._is_answer(found))
        except EbbtideError:
            raise
        except NONSENSE as error:
            raise StoredModelError(
                f"the parameters are not those of {self.name} by {model.method}: {error!r}"
            ) from error
        if len(wrong):
            index = wrong[0]
            raise StoredModelError(
                f"row {table.rows[index]}: the model has no sensible answer to this, but"
                f" {found.value[index]:g} {self.target.unit} between {found.low[index]:g} and"
                f" {found.high[index]:g}: fit it anew"
            )
        return found

    def _is_answer(self, found: Forecast) -> Flags:
        most = FAR * self.target.most if np.isfinite(self.target.most) else np.inf
        inside: Flags = (found.value <= most) & np.isfinite(found.high)
        return inside & (found.low > 0) & (found.low <= found.value) & (found.value <= found.high)


MODULES: Final[Mapping[str, str]] = {
    "step-time": "step_time",
    "all-reduce": "all_reduce",
    "iteration": "iteration",
    "parameter-server": "parameter_server",
    "checkpoint": "checkpoint",
    "lifetime": "lifetime",
}
"""Module or package of each kind; imported only when it is asked for."""


def find(name: str) -> Kind:
    """Return a kind by its name; raises KeyError."""
    module = importlib.import_module(f"ebbtide.core.models.{MODULES[name]}")
    return cast("Kind", module.KIND)
