"""
Speed of a cluster with parameter servers: the sum of its workers, until the servers saturate.

The default fits all clusters at once: three times per update (see `saturation`), of which the
servers' are shared by all workloads as powers of their bytes, so that a workload seen on few
workers, or never, borrows its ceiling from the others. Named alternatives fit each series by
itself: `p-norm`, `linear-sum` (CM-DARE's sum of speeds), `hard-cap`; `optimus` each GPU type and
workload.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from ebbtide.core.models import lone_series, saturation
from ebbtide.core.models.clusters import (
    BYTES,
    GPU,
    INPUTS,
    SERVERS,
    SPEED,
    WORKERS,
    WORKLOAD,
    Clusters,
)
from ebbtide.core.models.forecast import BEYOND, Forecast
from ebbtide.core.models.kinds import Kind
from ebbtide.core.models.quality import Quality, hold_out, judge, leave_one_out
from ebbtide.core.models.residuals import is_covered, spread_of
from ebbtide.core.models.saturation import Ceilings, Series, Shared
from ebbtide.core.models.stored import Json
from ebbtide.core.models.table import (
    Column,
    DataError,
    Flags,
    Floats,
    Indices,
    Table,
    Texts,
    check,
)
from ebbtide.core.models.unsampled import CERTAIN, New, Spreads, residuals_of

WORKER_SPEED: Final = Column(name="worker_steps_per_s", unit="steps/s", most=1e6, optional=True)
"""What one worker of the row does alone, where the one who asks knows better (step-time model)."""

Fitted: TypeAlias = tuple[Shared | None, list[Series]]
"""What the workloads share, where the method shares; and the times of each series."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterServer:
    """A fitted model; made by one of `METHODS`."""

    method: str
    quality: Quality
    spreads: Spreads
    shared: Shared | None
    series: tuple[Series, ...]

    def predict(self, table: Table) -> Forecast:
        """
        Steps per second of each row's cluster.

        Beyond the data are: more workers or other servers than sampled for the row's GPU and
        workload, sizes outside those sampled, and what was never sampled: its interval is that of
        held-out series of its kind. A GPU type and a workload that were sampled apart take the
        ratio of the types over other workloads. An unknown GPU type is taken for the slowest
        known, an unknown workload for the one nearest in bytes (slower in proportion to its
        bytes where it is larger); its ceiling comes from its bytes.
        """
        check(table, INPUTS)
        workers = table.numbers(WORKERS)
        return self._answer(table, workers=workers, known=table.numbers(WORKER_SPEED))

    def predict_mixed(
        self, workers: Mapping[str, int], *, workload: str, servers: int, size: float
    ) -> Forecast:
        """
        Steps per second of one cluster whose workers have several GPU types (type -> number).

        Demand is the sum of what the workers do alone (CM-DARE); the servers limit it as ever.
        """
        kinds = [gpu for gpu, number in workers.items() if number]
        if not kinds:
            raise DataError("a cluster without workers has no speed: name at least one GPU type")
        number = sum(workers.values())
        table = Table.of(
            gpu=kinds,
            workload=[workload] * len(kinds),
            workers=[workers[gpu] for gpu in kinds],
            servers=[servers] * len(kinds),
            bytes=[size] * len(kinds),
        )
        check(table, INPUTS)
        ceilings, new, off = self._resolve(table)
        demand = np.array([float((table.numbers(WORKERS) * ceilings.worker).sum())])
        one = Ceilings(
            worker=demand / number,
            work=ceilings.work[:1],
            serial=ceilings.serial[:1],
            exponent=ceilings.exponent[:1],
        )
        many = number > max(item.most for item in self.series)
        # the guess about the type that is known least rules
        return self._around(
            one.speed(demand, table.numbers(SERVERS)[:1]),
            new=new.max(keepdims=True),
            far=np.array([off.any() or many]),
        )

    def gain(self, table: Table) -> Floats:
        """By which fraction one more server would raise the speed of each row's cluster."""
        check(table, INPUTS)
        more = Table(
            {**table.cells, SERVERS.name: (table.numbers(SERVERS) + 1).astype(object)}, table.rows
        )
        result: Floats = self.predict(more).value / self.predict(table).value - 1
        return result

    def parameters(self) -> Json:
        """Return what `from_json` needs."""
        return {
            "spreads": self.spreads.to_json(),
            "shared": self.shared.to_json() if self.shared is not None else None,
            "series": [asdict(item) for item in self.series],
        }

    def _answer(self, table: Table, *, workers: Floats, known: Floats) -> Forecast:
        ceilings, new, off = self._resolve(table)
        given = np.isfinite(known)
        worker = np.where(given, known, ceilings.worker)
        # a worker's speed that is given leaves only the ceiling to guess, which follows bytes
        off |= given & (new > New.NOTHING) & ~self._is_sampled(table.numbers(BYTES))
        new = np.where(given, New.NOTHING, new)
        value = replace(ceilings, worker=worker).speed(workers * worker, table.numbers(SERVERS))
        return self._around(value, new=new, far=off | (workers > self._most(table)))

    def _around(self, value: Floats, *, new: Indices, far: Flags) -> Forecast:
        """Put intervals around values; `far` lies beyond the samples of a known series."""
        low, high = self.spreads.of(new)
        power = np.where(far & (new == New.NOTHING), BEYOND, 1.0)
        return Forecast(
            value=value,
            low=value * low**power,
            high=value * high**power,
            beyond=far | (new > New.NOTHING),
        )

    def _is_sampled(self, size: Floats) -> Flags:
        sizes = [item.size for item in self.series]
        inside: Flags = (size >= min(sizes)) & (size <= max(sizes))
        return inside if self.shared is not None else np.zeros(len(size), dtype=np.bool_)

    def _most(self, table: Table) -> Floats:
        """Workers up to which the series of each row was sampled, or any where there is none."""
        largest = max(item.most for item in self.series)
        most = {(item.gpu, item.workload, item.servers): item.most for item in self.series}
        keys = zip(table.texts(GPU), table.texts(WORKLOAD), table.numbers(SERVERS), strict=True)
        return np.array([most.get(key, largest) for key in keys])

    def _resolve(self, table: Table) -> tuple[Ceilings, Indices, Flags]:
        """The times of each row, what of it is new, and whether its size is not that sampled."""
        gpu, workload = table.texts(GPU), table.texts(WORKLOAD)
        servers, size = table.numbers(SERVERS), table.numbers(BYTES)
        workloads = {item.workload for item in self.series}
        # only what was never sampled is looked for by its size
        asked = np.where(np.isin(workload, sorted(workloads)), 0.0, size)
        keys = list(zip(gpu, workload, servers, asked, strict=True))
        found = {key: self._find(key) for key in set(keys)}
        chosen = [found[key] for key in keys]
        own = np.array([item.size for item in chosen])
        ceilings = self._scale(chosen, relative=size / own, alike=workload)
        # another precision of a known workload is another size
        off = np.abs(np.log(size / own)) > np.log(saturation.OTHER_SIZE)
        kinds = {key: self._tell_new(*key[:3]) for key in found}
        return ceilings, np.array([kinds[key] for key in keys], dtype=np.intp), off

    def _tell_new(self, gpu: str, workload: str, servers: float) -> New:
        """Return what of a series was not sampled."""
        if all(item.gpu != gpu for item in self.series):
            return New.GPU
        if all(item.workload != workload for item in self.series):
            return New.WORKLOAD
        mine = [item for item in self.series if (item.gpu, item.workload) == (gpu, workload)]
        if not mine:
            return New.PAIR
        return New.NOTHING if any(item.servers == servers for item in mine) else New.SERVERS

    def _find(self, key: tuple[str, str, float, float]) -> Series:
        """The series most like a GPU type, workload, servers, and bytes of what is not known."""
        gpu, workload, servers, size = key
        alike = [item for item in self.series if item.workload == workload]
        if not alike:
            nearest = min(self.series, key=lambda item: abs(np.log(item.size / size))).workload
            alike = [item for item in self.series if item.workload == nearest]
        mine = [item for item in alike if item.gpu == gpu]
        if not mine:
            slowest = min(alike, key=lambda item: item.worker).gpu
            ratio = self._ratio(gpu, slowest)
            mine = [
                replace(item, worker=item.worker * ratio) for item in alike if item.gpu == slowest
            ]
        fewer = [item for item in mine if item.servers <= servers]
        # series come in order of their servers: the last that has no more, else the first
        return fewer[-1] if fewer else mine[0]

    def _ratio(self, gpu: str, other: str) -> float:
        """How much faster one worker of a type is, over what both were sampled on; 1 if nothing."""
        speeds = {(item.gpu, item.workload, item.servers): item.worker for item in self.series}
        ratios = [
            worker / speeds[other, workload, servers]
            for (own, workload, servers), worker in speeds.items()
            if own == gpu and (other, workload, servers) in speeds
        ]
        return float(np.exp(np.log(ratios).mean())) if ratios else 1.0

    def _scale(self, chosen: list[Series], *, relative: Floats, alike: Texts) -> Ceilings:
        """The times of series for workloads of `relative` times their bytes."""
        work = np.array([item.work for item in chosen])
        serial = np.array([item.serial for item in chosen])
        own = np.array([item.size for item in chosen])
        strange = np.array([item.workload for item in chosen], dtype=object) != alike
        larger = np.maximum(relative, 1.0)
        if self.shared is not None:
            # what a borrowed workload's ceiling has of its own is not the asked one's
            by_bytes = self.shared.at(own)
            work = np.where(strange, by_bytes[0], work) * relative**self.shared.power
            serial = np.where(strange, by_bytes[1], serial) * relative
        else:
            work, serial = work * larger, serial * larger
        worker = np.array([item.worker for item in chosen])
        return Ceilings(
            worker=np.where(strange, worker / larger, worker),
            work=work,
            serial=serial,
            exponent=np.array([item.exponent for item in chosen]),
        )


# ---------------------------------------------------------------- fitting

Way: TypeAlias = Callable[[Clusters], Fitted]


def _fit_all(clusters: Clusters) -> Fitted:
    return saturation.fit_shared(clusters)


def _fit_each(clusters: Clusters, *, one: lone_series.One) -> Fitted:
    return None, lone_series.fit_each(clusters, one)


def _fit_optimus(clusters: Clusters) -> Fitted:
    return None, lone_series.fit_optimus(clusters)


WAYS: Final[Mapping[str, Way]] = {
    "shared-knee": _fit_all,
    "p-norm": partial(_fit_each, one=lone_series.bend),
    "linear-sum": partial(_fit_each, one=lone_series.add_speeds),
    "hard-cap": partial(_fit_each, one=lone_series.cut_off),
    "optimus": _fit_optimus,
}
LONE: Final = ("p-norm", "linear-sum", "hard-cap")
"""Those that fit each series by itself."""


def fit(table: Table, *, method: str = "shared-knee") -> ParameterServer:
    """
    Fit one of WAYS to measured clusters; raises DataError.

    Its errors and its interval come from holding out one number of workers at a time. Where all
    samples have the same number the interval is a factor of two, and no errors are stated. The
    intervals of what was never sampled come from holding that out: see `unsampled`.
    """
    clusters = Clusters.of(table)
    way = WAYS[method]
    quality = Quality(samples=len(table), split="none")
    spread = spread_of(np.empty(0))
    if len(set(clusters.workers.tolist())) > 1:
        averaged = _as_table(clusters)
        names = np.array([f"{number:g}" for number in clusters.workers], dtype=object)
        held = hold_out(
            averaged,
            leave_one_out(names),
            lambda known: _build(way(Clusters.of(known)), method=method).predict,
        )
        measured, forecast = clusters.speed[held.rows], held.forecast
        # the interval is wider beyond the data: what was missed there counts less
        missed = np.log(measured / forecast.value) / np.where(forecast.beyond, BEYOND, 1.0)
        spread = spread_of(missed)
        quality = replace(
            judge(
                measured,
                spread.around(forecast.value, beyond=forecast.beyond),
                groups=names[held.rows],
                split="leave-one-out:workers",
                samples=len(table),
            ),
            coverage=float(is_covered(missed).mean()),
        )
    whole = way(clusters)
    spreads = Spreads.learn(
        spread, residuals_of(clusters, partial(_ask, way=_way_of(method, whole), method=method))
    )
    return replace(_build(whole, method=method), spreads=spreads, quality=quality)


def _way_of(method: str, whole: Fitted) -> Way:
    """Return how to fit without whole series: those fitted each alone stay as they are."""
    if method not in LONE:
        return WAYS[method]

    def leave(known: Clusters) -> Fitted:
        keys = set(known.keys())
        return None, [item for item in whole[1] if (item.gpu, item.workload, item.servers) in keys]

    return leave


def _ask(known: Clusters, held: Clusters, *, way: Way, method: str) -> tuple[Floats, Indices]:
    """Return the speeds of held-out clusters, and what of each the fit had not seen."""
    model, table = _build(way(known), method=method), _as_table(held)
    _, new, _ = model._resolve(table)  # noqa: SLF001 -- the same module
    return model.predict(table).value, new


def _build(fitted: Fitted, *, method: str) -> ParameterServer:
    shared, series = fitted
    return ParameterServer(
        method=method,
        quality=Quality(samples=0, split="none"),
        spreads=CERTAIN,
        shared=shared,
        series=tuple(series),
    )


def _as_table(clusters: Clusters) -> Table:
    return Table.of(
        gpu=clusters.gpu,
        workload=clusters.workload,
        workers=clusters.workers,
        servers=clusters.servers,
        bytes=clusters.size,
        steps_per_s=clusters.speed,
    )


def _read(method: str, quality: Quality, stored: Json) -> ParameterServer:
    if method not in WAYS or not stored["series"]:
        raise ValueError(f"method {method} with {len(stored['series'])} series: nothing to ask")
    return ParameterServer(
        method=method,
        quality=quality,
        spreads=Spreads.from_json(stored["spreads"]),
        shared=Shared.from_json(stored["shared"]) if stored["shared"] is not None else None,
        series=tuple(Series(**item) for item in stored["series"]),
    )


METHODS: Final[Mapping[str, Callable[[Table], ParameterServer]]] = {
    name: partial(fit, method=name) for name in WAYS
}

KIND: Final = Kind(
    name="parameter-server",
    inputs=INPUTS,
    target=SPEED,
    group=WORKERS.name,
    methods=METHODS,
    read=_read,
)
