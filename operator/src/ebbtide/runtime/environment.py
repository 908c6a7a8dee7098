"""What the environment says about this process: read once, checked, and said in words if wrong."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ebbtide.runtime.errors import UsageError
from ebbtide.wire import names

DEFAULT_NOTICE: Final = 30.0
MAX_TOKEN: Final = 4096
_REQUIRED: Final = (
    names.ENV_JOB,
    names.ENV_WORKER,
    names.ENV_INDEX,
    names.ENV_ADDRESS,
    names.ENV_COORDINATOR,
    names.ENV_CHECKPOINT_PATH,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a worker's process stands: job, pod, peers' way to it, and its files."""

    job: str
    worker: str
    index: int
    attempt: int
    local_rank: int
    processes: int
    address: str
    coordinator: str
    token_file: str
    checkpoint_path: str
    pool: str = ""
    node: str = ""
    gpu: str = ""
    notice_seconds: float = DEFAULT_NOTICE
    is_local: bool = False  # nobody replaces or repairs anything while the job waits


def read_place(environ: Mapping[str, str]) -> Place:
    """Return the place that the environment describes; `UsageError` names all that is wrong."""
    faults = [f"{name} is not set" for name in _REQUIRED if not environ.get(name)]
    whole = {
        name: _number(environ, name, default, faults)
        for name, default in (
            (names.ENV_INDEX, 0),
            (names.ENV_ATTEMPT, 1),
            (names.ENV_LOCAL_RANK, 0),
            (names.ENV_PROCESSES, 1),
        )
    }
    notice = _seconds(environ, names.ENV_NOTICE_SECONDS, faults)
    processes, local_rank = whole[names.ENV_PROCESSES], whole[names.ENV_LOCAL_RANK]
    if processes < 1:
        faults.append(f"{names.ENV_PROCESSES} is {processes}; a worker runs at least 1 process")
    elif local_rank >= processes:
        faults.append(
            f"{names.ENV_LOCAL_RANK} is {local_rank}, but the worker runs {processes} processes"
        )
    if faults:
        raise UsageError("; ".join(faults))
    return Place(
        job=environ[names.ENV_JOB],
        worker=environ[names.ENV_WORKER],
        index=whole[names.ENV_INDEX],
        attempt=whole[names.ENV_ATTEMPT],
        local_rank=local_rank,
        processes=processes,
        address=environ[names.ENV_ADDRESS],
        coordinator=environ[names.ENV_COORDINATOR],
        token_file=environ.get(names.ENV_TOKEN_FILE, names.TOKEN_PATH),
        checkpoint_path=environ[names.ENV_CHECKPOINT_PATH],
        pool=environ.get(names.ENV_POOL, ""),
        node=environ.get(names.ENV_NODE, ""),
        gpu=environ.get(names.ENV_GPU, ""),
        notice_seconds=notice,
    )


def read_token(path: str) -> bytes:
    """Return the job's token."""
    try:
        with Path(path).open("rb") as file:
            token = file.read(MAX_TOKEN).strip()
    except OSError as error:
        raise UsageError(f"{names.ENV_TOKEN_FILE}: {path}: {error.strerror}") from error
    if not token:
        raise UsageError(f"{names.ENV_TOKEN_FILE}: {path} is empty")
    return token


def _number(environ: Mapping[str, str], name: str, default: int, faults: list[str]) -> int:
    text = environ.get(name, "")
    if not text:
        return default
    if text.isascii() and text.isdigit():
        return int(text)
    faults.append(f"{name} is {text!r}, not a whole number of 0 or more")
    return default


def _seconds(environ: Mapping[str, str], name: str, faults: list[str]) -> float:
    text = environ.get(name, "")
    if not text:
        return DEFAULT_NOTICE
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if 0 <= value < float("inf"):
        return value
    faults.append(f"{name} is {text!r}, not a number of seconds")
    return DEFAULT_NOTICE
