"""The coordinator's settings, read from its environment."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ebbtide.wire import names
from ebbtide.wire.messages import WorkSpec

MAX_TOKEN_BYTES = 4096


class UsageError(ValueError):
    """The environment does not say what the coordinator needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What one coordinator is started with."""

    attempt: int
    work: WorkSpec
    token: bytes
    host: str
    port: int
    metrics_port: int | None = None
    """Where metrics are served; None: nowhere."""


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Read the environment; say which variable is wrong and how."""
    attempt = _read_number(environment, names.ENV_ATTEMPT, least=1)
    try:
        work = msgspec.json.decode(_read(environment, names.ENV_WORK), type=WorkSpec)
    except msgspec.MsgspecError as error:
        raise UsageError(f"{names.ENV_WORK} is not a WorkSpec: {error}") from error
    return Settings(
        attempt=attempt,
        work=work,
        token=read_token(environment),
        host=environment.get(names.ENV_ADDRESS, ""),
        port=_read_port(environment),
        metrics_port=(
            _read_number(environment, names.ENV_METRICS_PORT, least=0)
            if environment.get(names.ENV_METRICS_PORT)
            else None
        ),
    )


def read_token(environment: Mapping[str, str]) -> bytes:
    """Read the job's token from its file."""
    path = Path(environment.get(names.ENV_TOKEN_FILE, names.TOKEN_PATH))
    try:
        with path.open("rb") as file:
            token = file.read(MAX_TOKEN_BYTES).strip()
    except OSError as error:
        raise UsageError(f"the token file {path} cannot be read: {error.strerror}") from error
    if not token:
        raise UsageError(f"the token file {path} is empty")
    return token


def _read(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name, "")
    if not value:
        raise UsageError(f"{name} is not set")
    return value


def _read_number(environment: Mapping[str, str], name: str, *, least: int) -> int:
    value = _read(environment, name)
    try:
        number = int(value)
    except ValueError:
        raise UsageError(f"{name} must be a whole number, not {value!r}") from None
    if number < least:
        raise UsageError(f"{name} must be at least {least}, not {number}")
    return number


def _read_port(environment: Mapping[str, str]) -> int:
    """The port part of EBBTIDE_COORDINATOR; the usual one where it is not set."""
    _, colon, port = environment.get(names.ENV_COORDINATOR, "").rpartition(":")
    if not colon:
        return names.COORDINATOR_PORT
    return _read_number({names.ENV_COORDINATOR: port}, names.ENV_COORDINATOR, least=0)
