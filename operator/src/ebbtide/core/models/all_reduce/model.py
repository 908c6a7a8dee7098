"""
Time of an all-reduce by system, GPUs per node, nodes, network and bytes.

The default puts boosted trees on a physical base. Named alternatives: `alpha-beta`, the base
alone; `trees`, on the logarithm of the time; `linear`, in logarithms, of bytes and GPUs. A system
that was never measured is answered by the bases of the others, with an interval of its own.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from ebbtide.core.models.all_reduce.base import Base, fit_bases
from ebbtide.core.models.all_reduce.calls import INPUTS, TIME, Calls, read_calls, read_times
from ebbtide.core.models.all_reduce.system import System, seconds_elsewhere, spread_elsewhere
from ebbtide.core.models.all_reduce.trees import Trees, refine
from ebbtide.core.models.forecast import Forecast, Json, Spread
from ebbtide.core.models.quality import Quality, Split, hold_out, judge
from ebbtide.core.models.residuals import spread_of
from ebbtide.core.models.stored import Model
from ebbtide.core.models.table import Flags, Floats, Indices, Table

TREES_ON_PHYSICS: Final = "trees-on-physics"
ALPHA_BETA: Final = "alpha-beta"
TREES: Final = "trees"
LINEAR: Final = "linear"

FOLDS: Final = 5
SPLIT: Final = "fold:bytes"
LATE: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class AllReduce:
    """A fitted model; made by one of `METHODS`."""

    method: str
    quality: Quality
    systems: Mapping[str, System]
    trees: Trees | None
    line: tuple[float, ...]
    """Of `linear`: logarithms of one byte, of a byte and of a GPU more, then of each system."""
    spread: Spread
    elsewhere: Spread
    """Of a system that was never measured."""
    late: float
    """How many times the median nine of ten measurements stay below."""

    def predict(self, table: Table) -> Forecast:
        """Median seconds of each row, and the interval of nine of ten measurements."""
        return self.forecast(read_calls(table))

    def forecast(self, calls: Calls) -> Forecast:
        """Answer for calls that were read already."""
        floor, beyond = self._look_up(calls)
        value = np.maximum(self._seconds(calls), floor)
        known = self.spread.around(value, beyond=beyond)
        strange = ~np.isin(calls.system, list(self.systems))
        low = np.where(strange, value * self.elsewhere.low, known.low)
        return Forecast(
            value=value,
            low=np.maximum(low, floor),
            high=np.where(strange, value * self.elsewhere.high, known.high),
            beyond=beyond,
        )

    def parameters(self) -> Json:
        """Return what `from_json` needs."""
        return {
            "systems": {name: item.to_json() for name, item in self.systems.items()},
            "trees": self.trees.to_json() if self.trees is not None else None,
            "line": list(self.line),
            "spread": self.spread.to_json(),
            "elsewhere": self.elsewhere.to_json(),
            "late": self.late,
        }

    def _look_up(self, calls: Calls) -> tuple[Floats, Flags]:
        least = min(item.floor for item in self.systems.values())
        floor, beyond = least * calls.bound, np.ones(len(calls), dtype=np.bool_)
        for name, here in _by_system(calls, self.systems):
            part = calls.take(here)
            floor[here] = self.systems[name].floor * part.bound
            beyond[here] = self.systems[name].exclude(part)
        return floor, beyond

    def _seconds(self, calls: Calls) -> Floats:
        """By whatever method; a system that was never measured by the bases of the others."""
        found = seconds_elsewhere(self.systems.values(), calls)
        for name, here in _by_system(calls, self.systems):
            found[here] = self._seconds_on(self.systems[name], calls.take(here))
        return found

    def _seconds_on(self, system: System, calls: Calls) -> Floats:
        if self.method == LINEAR:
            drawn: Floats = np.exp(_line_features(calls, tuple(self.systems)) @ np.array(self.line))
            return drawn
        if self.trees is None:
            return system.base.seconds(calls)
        if self.method == TREES:
            grown: Floats = np.exp(self.trees.at(calls))
            return grown
        return refine(system.base, self.trees, np.array(system.knots), calls)


def late_in(model: Model, forecast: Forecast) -> Mapping[str, Floats]:
    """
    Return `p90`: seconds within which nine of ten measurements end; `value` is the median.

    Beyond the data it is the upper end of the interval.
    """
    late = model.late if isinstance(model, AllReduce) else 1.0
    inside = np.minimum(forecast.value * late, forecast.high)
    return {"p90": np.where(forecast.beyond, forecast.high, inside)}


def read_all_reduce(method: str, quality: Quality, stored: Json) -> AllReduce:
    """Read the parameters that `AllReduce` wrote."""
    systems = {str(name): System.from_json(item) for name, item in stored["systems"].items()}
    if not systems:
        raise ValueError("no system: nothing to ask")
    trees = stored["trees"]
    return AllReduce(
        method=method,
        quality=quality,
        systems=systems,
        trees=Trees.from_json(trees) if trees is not None else None,
        line=tuple(map(float, stored["line"])),
        spread=Spread.from_json(stored["spread"]),
        elsewhere=Spread.from_json(stored["elsewhere"]),
        late=_read_late(float(stored["late"])),
    )


def _read_late(late: float) -> float:
    if not 1 <= late < np.inf:
        raise ValueError(f"late {late:g}: at least 1 is needed")
    return late


# ---------------------------------------------------------------- fitting


def fit(table: Table, *, method: str) -> AllReduce:
    """Fit by a method, and learn from sizes left out how wrong that is."""
    # A row that was written twice is no proof that the time is always the same.
    samples, table = len(table), table.distinct((*INPUTS, TIME))
    calls, seconds = read_times(table)
    bare = replace(
        _fit(calls, seconds, method=method), quality=Quality(samples=samples, split="none")
    )
    fold = _deal(calls.size)
    parts = list(_splits(calls, fold))
    if not parts:
        return bare
    held = hold_out(table, iter(parts), lambda known: _fit_plain(known, method).predict)
    measured = seconds[held.rows]
    residuals = np.log(measured / held.forecast.value)
    usual = spread_of(residuals)
    model = replace(
        bare,
        spread=usual,
        elsewhere=spread_elsewhere(bare.systems, calls, seconds, usual=usual),
        late=float(np.exp(max(np.quantile(residuals, LATE), 0.0))),
    )
    return replace(
        model,
        quality=judge(
            measured,
            _around(held.forecast.value, residuals, fold[held.rows]),
            groups=calls.system[held.rows],
            split=SPLIT,
            samples=samples,
        ),
    )


METHODS: Final[Mapping[str, Callable[[Table], AllReduce]]] = {
    name: partial(fit, method=name) for name in (TREES_ON_PHYSICS, ALPHA_BETA, TREES, LINEAR)
}


def _fit_plain(table: Table, method: str) -> AllReduce:
    calls, seconds = read_times(table)
    return _fit(calls, seconds, method=method)


def _fit(calls: Calls, seconds: Floats, *, method: str) -> AllReduce:
    bases = fit_bases(calls, seconds)
    systems = {
        name: System.of(base, calls.take(calls.system == name), seconds[calls.system == name])
        for name, base in bases.items()
    }
    usual = Spread.of(seconds[:0], seconds[:0])
    return AllReduce(
        method=method,
        quality=Quality(samples=len(calls), split="none"),
        systems=systems,
        trees=_grow(bases, calls, seconds, method=method),
        line=_draw(calls, seconds, tuple(systems)) if method == LINEAR else (),
        spread=usual,
        elsewhere=spread_elsewhere(systems, calls, seconds, usual=usual),
        late=1.0,
    )


def _grow(bases: Mapping[str, Base], calls: Calls, seconds: Floats, *, method: str) -> Trees | None:
    if method == TREES:
        return Trees.grow(calls, np.log(seconds))
    if method != TREES_ON_PHYSICS:
        return None
    expected = np.empty(len(calls))
    for name, here in _by_system(calls, bases):
        expected[here] = bases[name].seconds(calls.take(here))
    return Trees.grow(calls, np.log(seconds / expected))


def _draw(calls: Calls, seconds: Floats, systems: tuple[str, ...]) -> tuple[float, ...]:
    found, *_ = np.linalg.lstsq(_line_features(calls, systems), np.log(seconds))
    return tuple(found.tolist())


def _line_features(calls: Calls, systems: tuple[str, ...]) -> Floats:
    codes = [(calls.system == name).astype(np.float64) for name in systems]
    return np.stack([np.log(calls.size), np.log(calls.gpus * calls.nodes), *codes], axis=1)


def _deal(sizes: Floats) -> Indices:
    """Deal sizes into folds in turn, so that a size left out has its neighbours."""
    _, place = np.unique(sizes, return_inverse=True)
    found: Indices = place % FOLDS
    return found


def _splits(calls: Calls, fold: Indices) -> Iterator[Split]:
    """Hold out each fold once, but for systems of which nothing else was measured."""
    for number in sorted(set(fold.tolist())):
        rest = fold != number
        known = np.isin(calls.system, calls.system[rest])
        held = ~rest & known
        if held.any():
            yield np.flatnonzero(rest), np.flatnonzero(held)


def _around(value: Floats, residuals: Floats, fold: Indices) -> Forecast:
    """Put intervals around held-out values, each fold's by the residuals of the others."""
    low, high = value.copy(), value.copy()
    for number in sorted(set(fold.tolist())):
        here = fold == number
        spread = spread_of(residuals[~here])
        low[here] *= spread.low
        high[here] *= spread.high
    return Forecast(value=value, low=low, high=high, beyond=np.zeros(len(value), dtype=np.bool_))


def _by_system(calls: Calls, known: Iterable[str]) -> list[tuple[str, Flags]]:
    """Return systems that are known, with the calls on each."""
    asked = set(calls.system.tolist())
    return [(name, calls.system == name) for name in sorted(asked.intersection(known))]
