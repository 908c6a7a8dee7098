"""The operator's configuration file: YAML, every field optional, none unknown."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from ebbtide.api.convert import parse_pool
from ebbtide.core.values.errors import EbbtideError, InvalidManifestError
from ebbtide.core.values.settings import Settings
from ebbtide.data.listed_prices import embedded_price
from ebbtide.wire.names import API_VERSION, CAPACITY_POOL

_DEFAULTS: Final = Settings()
_LONGEST: Final = 30 * 24 * 3600.0


class ConfigurationError(EbbtideError):
    """The configuration file cannot be used; the message names file, field and what is right."""


def _seconds(default: timedelta, description: str, *, least: float = 0.0) -> Any:  # noqa: ANN401 -- as pydantic's Field
    return Field(default=default.total_seconds(), ge=least, le=_LONGEST, description=description)


class _PoolEntry(BaseModel):
    """A pool in the shape of a CapacityPool object."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field(min_length=1, max_length=63)
    labels: dict[str, str] = {}
    spec: dict[str, Any]

    def manifest(self) -> dict[str, Any]:
        """The object it stands for."""
        return {
            "apiVersion": API_VERSION,
            "kind": CAPACITY_POOL,
            "metadata": {"name": self.name, "labels": self.labels},
            "spec": self.spec,
        }


class _File(BaseModel):
    """The file as it is written."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=False)

    capacity_wait_seconds: float = _seconds(_DEFAULTS.capacity_wait, "until the next pool is tried")
    node_lost_seconds: float = _seconds(_DEFAULTS.node_lost, "until a silent node counts as lost")
    coordinator_grace_seconds: float = _seconds(
        _DEFAULTS.coordinator_grace, "members go on so long without a coordinator"
    )
    image_wait_seconds: float = _seconds(_DEFAULTS.image_wait, "until images count as not pullable")
    finish_grace_seconds: float = _seconds(
        _DEFAULTS.finish_grace, "members may take so long to exit once the work is done"
    )
    zombie_seconds: float = _seconds(
        _DEFAULTS.zombie, "until a deleted pod on an unreachable node is forced away"
    )
    failure_delay_seconds: float = _seconds(_DEFAULTS.failure_delay, "wait after a first failure")
    failure_delay_limit_seconds: float = _seconds(
        _DEFAULTS.failure_delay_limit, "the longest wait after failures"
    )
    failure_window_seconds: float = _seconds(
        _DEFAULTS.failure_window, "failures of one generation so close together count once"
    )
    progress_seconds: float = _seconds(
        _DEFAULTS.progress_interval, "progress alone is written so often", least=0.1
    )
    heartbeat_seconds: float = _seconds(
        _DEFAULTS.heartbeat, "a member silent for four of these is lost", least=0.01
    )
    regroup_seconds: float = _seconds(
        _DEFAULTS.regroup, "newcomers to a torchrun job wait so long: joining restarts all scripts"
    )
    aftermath_seconds: float = _seconds(
        _DEFAULTS.aftermath,
        "a torchrun or plain worker that exits badly so soon after another's loss is not to blame",
    )
    plan_seconds: float = _seconds(
        _DEFAULTS.plan_interval, "a plan is looked at again after so long", least=0.1
    )
    start_seconds: float = _seconds(
        _DEFAULTS.start, "expected from the request of a node to a worker that trains"
    )
    time_scale: float = Field(
        default=_DEFAULTS.time_scale,
        ge=1.0,
        le=1e6,
        description="one second counts as so many for the deadline policy; above 1 where days pass"
        " in minutes",
    )
    silent_watch_seconds: float = _seconds(
        timedelta(seconds=70), "a watch that says nothing for so long is dead", least=1.0
    )
    compile_pools: int = Field(
        default=32,
        ge=0,
        le=100_000,
        description="from so many pools on the planner's loops are compiled; 0: never",
    )
    coordinator_image: str = ""
    namespaces: list[str] = Field(default=[], max_length=1000)
    pools: list[_PoolEntry] = Field(default=[], max_length=1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The file's content, checked."""

    settings: Settings = _DEFAULTS
    silent_watch_seconds: float = 70.0
    compile_pools: int = 32
    coordinator_image: str = ""
    namespaces: tuple[str, ...] = ()  # none: all of them
    pools: tuple[dict[str, Any], ...] = ()  # as CapacityPool objects; none: those of the cluster


def read_configuration(path: Path | None) -> Configuration:
    """
    Read the file; without one every default holds.

    Raises:
        ConfigurationError: it cannot be read, or a field is wrong.
    """
    if path is None:
        return Configuration()
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{path}: {error}") from error
    if content is not None and not isinstance(content, dict):
        raise ConfigurationError(f"{path}: a mapping of settings is expected at the top")
    try:
        found = _File.model_validate(content or {})
    except ValidationError as error:
        raise ConfigurationError(_explain(path, error)) from error
    return Configuration(
        settings=_settings(found),
        silent_watch_seconds=found.silent_watch_seconds,
        compile_pools=found.compile_pools,
        coordinator_image=found.coordinator_image,
        namespaces=tuple(found.namespaces),
        pools=tuple(_pool(path, index, entry) for index, entry in enumerate(found.pools)),
    )


def _settings(found: _File) -> Settings:
    return Settings(
        capacity_wait=timedelta(seconds=found.capacity_wait_seconds),
        node_lost=timedelta(seconds=found.node_lost_seconds),
        coordinator_grace=timedelta(seconds=found.coordinator_grace_seconds),
        image_wait=timedelta(seconds=found.image_wait_seconds),
        finish_grace=timedelta(seconds=found.finish_grace_seconds),
        zombie=timedelta(seconds=found.zombie_seconds),
        failure_delay=timedelta(seconds=found.failure_delay_seconds),
        failure_delay_limit=timedelta(seconds=found.failure_delay_limit_seconds),
        failure_window=timedelta(seconds=found.failure_window_seconds),
        progress_interval=timedelta(seconds=found.progress_seconds),
        heartbeat=timedelta(seconds=found.heartbeat_seconds),
        regroup=timedelta(seconds=found.regroup_seconds),
        aftermath=timedelta(seconds=found.aftermath_seconds),
        plan_interval=timedelta(seconds=found.plan_seconds),
        start=timedelta(seconds=found.start_seconds),
        time_scale=found.time_scale,
    )


def _pool(path: Path, index: int, entry: _PoolEntry) -> dict[str, Any]:
    manifest = entry.manifest()
    try:
        parse_pool(manifest, embedded_price)
    except InvalidManifestError as error:
        raise ConfigurationError(f"{path}: pools[{index}] {entry.name}: {error}") from error
    return manifest


def _explain(path: Path, error: ValidationError) -> str:
    known = ", ".join(sorted(field.alias or name for name, field in _File.model_fields.items()))
    lines = []
    for found in error.errors(include_url=False):
        where = ".".join(str(part) for part in found["loc"])
        if found["type"] == "extra_forbidden":
            lines.append(f"{where}: there is no such setting; known are {known}")
        else:
            lines.append(f"{where}: {found['msg']}, found {str(found.get('input'))[:80]!r}")
    return f"{path}: " + "; ".join(lines)
