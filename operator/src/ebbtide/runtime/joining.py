"""From an environment to a `Job`: connections, threads and the folder of checkpoints."""

import atexit
import os
import sys
from typing import NoReturn

import torch

from ebbtide.runtime import local
from ebbtide.runtime.checkpoint import Shelf
from ebbtide.runtime.collective import Group
from ebbtide.runtime.crew import Crew
from ebbtide.runtime.environment import Place, read_place, read_token
from ebbtide.runtime.errors import CheckpointError, LeaveTraining, UsageError
from ebbtide.runtime.job import Job
from ebbtide.runtime.links import Links
from ebbtide.runtime.membership import Identity, Membership, MustLeave
from ebbtide.runtime.notice import watch_notice
from ebbtide.runtime.reporting import say
from ebbtide.runtime.staging import Saver
from ebbtide.runtime.telemetry import Telemetry
from ebbtide.wire import names


def join_by_environment() -> Job:
    """Join the job that the environment names; a wrong environment ends the process, exit 64."""
    try:
        place = read_place(os.environ)
        shelf = Shelf(place.checkpoint_path, owner=place.worker)
        token = read_token(place.token_file)
    except (UsageError, CheckpointError) as error:
        refuse(str(error))
    return join_as(place, token=token, shelf=shelf)


def join_as(place: Place, *, token: bytes, shelf: Shelf) -> Job:
    """Join as one process of one worker."""
    return _begin(_link(place, token=token, shelf=shelf))


def _begin(links: Links) -> Job:
    """Connect, and wait to be welcome."""
    place, membership = links.place, links.membership
    watch_notice(membership, seconds=place.notice_seconds)
    if place.local_rank == 0:
        links.shelf.probe_early()
    try:
        membership.start()
    except MustLeave as order:
        say(f"leaving before the first step: {order.leave.reason}")
        raise LeaveTraining(order.leave.reason) from order
    return Job(links)


def link_to_nobody(place: Place) -> Links:
    """Return what a job is made of, connected to nothing: for a script that is measured alone."""
    return _link(place, token=b"", shelf=Shelf(place.checkpoint_path, owner=place.worker))


def _link(place: Place, *, token: bytes, shelf: Shelf) -> Links:
    """Prepare one process's connections; nothing is connected yet."""
    device = device_of(place.local_rank)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    group = Group(
        place.address,
        coordinator_port=_port(place.coordinator),
        gpu=device if device.type == "cuda" else None,
    )
    membership = Membership(
        Identity(
            worker=place.worker,
            index=place.index,
            attempt=place.attempt,
            local_rank=place.local_rank,
            processes=place.processes,
            address=place.address,
            store_port=group.store_port,
            pool=place.pool,
            node=place.node,
            gpu=place.gpu,
        ),
        token=token,
        coordinator=place.coordinator,
        on_break=group.break_,
    )
    return Links(
        place=place,
        membership=membership,
        group=group,
        shelf=shelf,
        saver=Saver(shelf, listener=membership, may_commit=membership.duty),
        telemetry=Telemetry(membership),
        device=device,
        token=token,
    )


def device_of(local_rank: int) -> torch.device:
    """Return the device of a process: a GPU of its own where the worker has some, else the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", local_rank % torch.cuda.device_count())


def join_locally(
    processes: int, *, steps: int, global_batch_size: int, checkpoint_path: str
) -> Job:
    """Join a job of so many processes on this machine, made for this script's run."""
    if processes < 1:
        raise UsageError(f"join(local={processes}): a job has at least 1 process")
    if steps < 1 or global_batch_size < 1:
        raise UsageError(
            f"join(steps={steps}, global_batch_size={global_batch_size}): a job has at least 1 "
            "step, and at least 1 sample in each"
        )
    place, forks = local.start(
        processes,
        work=local.work_for(processes, steps=steps, global_batch_size=global_batch_size),
        checkpoint_path=checkpoint_path,
    )
    shelf = Shelf(place.checkpoint_path, owner=place.worker)
    links = _link(place, token=read_token(place.token_file), shelf=shelf)
    if forks:
        crew = Crew(forks, links.membership, links.group)
        atexit.register(crew.end)  # before what `local` registered, as these go backwards
        crew.start()
    return _begin(links)


def refuse(reason: str) -> NoReturn:
    """End the process: what it was given cannot work."""
    sys.stderr.write(f"ebbtide: {reason}\n")
    raise SystemExit(names.EXIT_USAGE)


def _port(coordinator: str) -> int:
    host, _, port = coordinator.rpartition(":")
    if not host or not port.isdigit():
        refuse(f"{names.ENV_COORDINATOR} is {coordinator!r}, not host:port")
    return int(port)
