"""
The rendezvous for a plain torchrun: `torchrun --rdzv-backend ebbtide`, in a worker of a job.

Torch finds it by the entry point `torchrun.handlers` and reads that with its own first import, so
what makes the handler is imported only when one is wanted.
"""

import os
from collections.abc import Callable

from torch.distributed.elastic.rendezvous.api import (
    RendezvousHandler,
    RendezvousParameters,
    rendezvous_handler_registry,
)

from ebbtide.runtime.environment import read_place


def plug_in() -> Callable[[RendezvousParameters], RendezvousHandler]:
    """Return the maker of handlers, as torch's registry asks."""
    return create


def register() -> None:
    """Let torch find the backend where the package is on the path but not installed."""
    rendezvous_handler_registry.register("ebbtide", create)


def create(parameters: RendezvousParameters) -> RendezvousHandler:
    """Make the handler of this worker; who meets and where is in the environment, as EBBTIDE_*."""
    from ebbtide.runtime.launching.rendezvous import Rendezvous  # noqa: PLC0415 -- only when one is wanted

    if parameters.backend != "ebbtide":
        raise ValueError(f"this makes 'ebbtide' rendezvous, not {parameters.backend!r}")
    return Rendezvous(read_place(os.environ))
