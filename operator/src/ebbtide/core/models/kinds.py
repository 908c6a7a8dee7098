"""The models that can be fitted and asked by name, as the command line does."""

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, cast

from ebbtide.core.models.quality import Quality, Split
from ebbtide.core.models.stored import Json, Model, StoredModelError, unseal
from ebbtide.core.models.table import Column, Table


class Judge(Protocol):
    """Fits by a method and scores what was held out, under splits of the rows of a table."""

    def __call__(
        self, table: Table, splits: Iterable[Split], *, method: str, group: str, split: str
    ) -> Quality:
        """Return the quality; `group` names the column to score by, `split` what was held out."""


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
        except (AttributeError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            # The checksum fits, so this was written on purpose: by hand, or by another program.
            raise StoredModelError(
                f"the parameters are not those of {self.name} by {method}: {error!r}"
            ) from error


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
