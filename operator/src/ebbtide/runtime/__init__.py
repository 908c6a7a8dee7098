"""
The trainer library: what a training script imports, and what a worker's container runs.

What belongs here: joining a job, forming and re-forming the group, dividing the data, reducing
gradients, checkpoints, leaving in time. torch is imported here and nowhere else in Ebbtide, and no
Kubernetes client is: a trainer knows its coordinator and its peers. Importing this package is
cheap; torch is loaded by `join`.

    import ebbtide.runtime as ebb

    job = ebb.join()
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ebbtide.runtime.errors import CheckpointError, CollectiveBroken, LeaveTraining, UsageError
from ebbtide.wire import names

if TYPE_CHECKING:
    from ebbtide.runtime.job import Job

__all__ = ["CheckpointError", "CollectiveBroken", "LeaveTraining", "UsageError", "join"]


def join(
    *,
    local: int | None = None,
    steps: int = 1000,
    global_batch_size: int = 32,
    checkpoint_path: str = "",
) -> Job:
    """
    Join the job that the environment names; or, with `local`, a job of that many processes here.

    The other arguments matter to a local job only: elsewhere the `TrainingJob` says them. A local
    job without `checkpoint_path` keeps its checkpoints in a folder that goes away with it.
    Under `ebbtide profile` the script joins that command and no job, whatever it asks for.
    """
    listener = os.environ.get(names.ENV_PROFILE)
    if listener:
        from ebbtide.runtime.profiler import rehearsal  # noqa: PLC0415 -- torch is loaded late

        return rehearsal.join(listener, global_batch_size=global_batch_size)
    from ebbtide.runtime import joining  # noqa: PLC0415 -- torch is loaded late, see above

    if local is None:
        return joining.join_by_environment()
    return joining.join_locally(
        local,
        steps=steps,
        global_batch_size=global_batch_size,
        checkpoint_path=checkpoint_path,
    )
