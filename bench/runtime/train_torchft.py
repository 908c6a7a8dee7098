"""
The script of torchft: `small` with a manager that takes part in a quorum in every step.

Its DistributedDataParallel, under torch 2.15, ends with an AssertionError when a peer is killed, so
gradients are reduced one by one, as its PureDistributedDataParallel does.
"""

from datetime import timedelta

import torch
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # exported, not declared
from torchft import Manager, ProcessGroupGloo

from runtime import small

HERE = "127.0.0.1"
PATIENCE = timedelta(seconds=10)
HEARTBEAT = timedelta(milliseconds=50)


def main() -> None:
    """Train until it is ended; the mark of a step has for its number how many replicas made it."""
    marker = small.Marker()
    model = small.make_model()
    optimizer = small.make_optimizer(model)
    store = TCPStore(HERE, 0, is_master=True, wait_for_workers=False)
    manager = Manager(
        pg=ProcessGroupGloo(timeout=PATIENCE),
        load_state_dict=lambda state: (
            model.load_state_dict(state["model"]),
            optimizer.load_state_dict(state["optimizer"]),
        ),
        state_dict=lambda: {"model": model.state_dict(), "optimizer": optimizer.state_dict()},
        min_replica_size=1,
        timeout=PATIENCE,
        quorum_timeout=PATIENCE,
        connect_timeout=PATIENCE,
        rank=0,
        world_size=1,
        store_addr=HERE,
        store_port=store.port,
        hostname=HERE,
        heartbeat_interval=HEARTBEAT,
        init_sync=False,  # as is advised where all begin with the same seed
        quorum_retries=3,
    )
    points, labels = small.make_data().tensors
    share = small.GLOBAL_BATCH // 2
    while True:
        manager.start_quorum()
        optimizer.zero_grad()
        chosen = torch.randint(0, len(points), (share,))
        small.compute(model, points[chosen], labels[chosen]).backward()
        for work in [manager.allreduce(each.grad) for each in model.parameters()]:
            work.wait()
        if manager.should_commit():
            optimizer.step()
            marker.leave(manager.num_participants())


if __name__ == "__main__":
    main()
