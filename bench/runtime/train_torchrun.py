"""The script of torchrun: `small` under DistributedDataParallel, as its manual writes it."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from runtime import small

STEPS = 1_000_000


def main() -> None:
    """Train until it is ended, and mark each step. What was trained before is not loaded."""
    marker = small.Marker()
    dist.init_process_group("gloo")
    model = DistributedDataParallel(small.make_model())
    optimizer = small.make_optimizer(model)
    points, labels = small.make_data().tensors
    share = small.GLOBAL_BATCH // dist.get_world_size()
    for step in range(STEPS):
        chosen = torch.randint(0, len(points), (share,))
        small.compute(model, points[chosen], labels[chosen]).backward()
        optimizer.step()
        optimizer.zero_grad()
        marker.leave(step)


if __name__ == "__main__":
    main()
