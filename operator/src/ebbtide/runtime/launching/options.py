"""
Torchrun's options, read by torchrun's own parser; what the job decides is replaced.

Replaced are the number of nodes and of processes on each, everything about the rendezvous, and the
addresses of a static one. All others (`--module`, `--no-python`, `--log-dir`, `--max-restarts`,
`--tee` and so on) mean what they mean to torchrun.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from torch.distributed import launch as legacy_launcher
from torch.distributed import run as launcher
from torch.distributed.launcher.api import LaunchConfig

from ebbtide.runtime.environment import Place
from ebbtide.runtime.errors import UsageError
from ebbtide.runtime.launching.command_line import Request
from ebbtide.wire.messages import WorkSpec

BACKEND: Final = "ebbtide"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What each rank executes, and how."""

    config: LaunchConfig
    entry: Any  # the program's name, or torch's function that runs a path in the same interpreter
    arguments: tuple[str, ...]
    shutdown_seconds: float | None = None  # as the user gave it; None = they did not
    replaced: tuple[str, ...] = ()  # options that were given and do not count, as they were given


def parse(request: Request) -> argparse.Namespace:
    """Read the arguments as torchrun does; `UsageError` in its words."""
    parser = legacy_launcher if request.legacy else launcher
    try:
        found: argparse.Namespace = parser.parse_args(list(request.arguments))
    except SystemExit as end:
        if not end.code:
            raise  # it only wanted help
        raise UsageError(f"torchrun does not take {' '.join(request.arguments)!r}") from end
    script = Path(found.training_script)
    if not (found.module or found.no_python or script.exists()):
        raise UsageError(f"there is no {script} in {Path.cwd()}")
    return found


def settle(found: argparse.Namespace, place: Place, work: WorkSpec) -> Options:
    """Replace what the job decides."""
    ours: dict[str, Any] = {
        "nnodes": f"{work.min_replicas}:{max(work.desired, work.min_replicas)}",
        "nproc_per_node": str(place.processes),
        "rdzv_backend": BACKEND,
        "rdzv_endpoint": place.coordinator,
        "rdzv_id": run_id(place.job),
        "rdzv_conf": "",
        "standalone": False,
        "node_rank": 0,
        "local_addr": place.address,
    }
    usual = launcher.parse_args(["script"])
    given = vars(found)
    replaced = tuple(
        f"--{name.replace('_', '-')} {given[name]}"
        for name in ours
        if given[name] not in (getattr(usual, name), ours[name])
    )
    seconds = found.shutdown_timeout
    try:
        config, entry, arguments = launcher.config_from_args(
            argparse.Namespace(**{**given, **ours})
        )
    except (ValueError, AssertionError) as error:
        raise UsageError(f"torchrun's options cannot be used: {error}") from error
    return Options(
        config=config,
        entry=entry,
        arguments=tuple(arguments),
        shutdown_seconds=None if seconds is None else float(seconds),
        replaced=replaced,
    )


def run_id(job: str) -> str:
    """Name the run, as in TORCHELASTIC_RUN_ID: torch makes folders of it."""
    return job.replace("/", "-")
