"""The script of our workers: `small` over `job.steps`."""

import ebbtide.runtime as ebb
from runtime import small


def main() -> None:
    """Train until the work is done, and mark each step."""
    marker = small.Marker()
    job = ebb.join()
    model = small.make_model()
    model, optimizer, _ = job.wrap(model, small.make_optimizer(model))
    for batch in job.steps(job.shard(small.make_data(), seed=0)):
        small.compute(model, batch.x, batch.y).backward()
        optimizer.step()
        optimizer.zero_grad()
        marker.leave(job.step)


if __name__ == "__main__":
    main()
