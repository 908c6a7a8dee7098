"""What a user's own number of workers comes to: planMode Manual, foreseen as plans are."""

from dataclasses import replace

from ebbtide.core.planner.fixed_size import fix_size
from ebbtide.core.planner.inputs import Inputs
from ebbtide.core.values.job import Job


def pin(inputs: Inputs, job: Job) -> Inputs:
    """Leave only the fleet that planMode Manual runs: so many workers, the cheapest pools first."""
    placement = fix_size(job, [state.pool for state in inputs.pools])
    load: dict[str, int] = {}
    for index in range(placement.desired):
        pool = placement.place(index, load=load)
        if pool is None:
            break  # fewer places than workers: whoever plans says so
        load[pool.name] = load.get(pool.name, 0) + 1
    return replace(
        inputs,
        sizes=(placement.desired,),
        spares=placement.spares,
        pools=tuple(
            replace(state, free=-(-load[name] // state.pool.workers_per_node(job.gpus_per_worker)))
            for state in inputs.pools
            if (name := state.pool.name) in load
        ),
    )
