"""A training script to be measured: right, or wrong in the way that its first argument names."""

import argparse
import sys
from typing import TYPE_CHECKING

import ebbtide.runtime as ebb

if TYPE_CHECKING:  # half of the scripts come to their end before they need it
    from torch import Tensor

WIDTH = 1 << 24  # a sample of 64 MiB


class Wide:
    """A thousand samples, each made when it is asked for."""

    def __init__(self, width: int) -> None:
        self._width = width

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> "Tensor":
        import torch  # noqa: PLC0415 -- loaded by now, see below

        return torch.full((self._width,), float(index))


def main() -> None:
    """Train, or do what a script should not do."""
    parser = argparse.ArgumentParser()
    parser.add_argument("how", nargs="?", default="right")
    parser.add_argument("--width", type=int, default=16)
    options = parser.parse_args()
    if options.how == "never":
        sys.stdout.write("there is nothing to join\n")
        return
    if options.how == "crash":
        raise ValueError("the data are not there")
    import torch  # noqa: PLC0415 -- half of the scripts end before
    from torch import nn  # noqa: PLC0415 -- half of the scripts end before

    model = nn.Linear(16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    job = ebb.join(local=4, steps=10, global_batch_size=8)
    if options.how == "no-loop":
        return
    model, optimizer, _ = job.wrap(model, optimizer)
    job.track(total=torch.zeros(3))
    for batch in job.steps(job.shard(Wide(options.width))):
        if options.how == "early" and job.step == 2:
            break
        if options.how == "late-crash" and job.step == 4:
            raise ValueError("a bad sample")
        loss = model(batch.x[:, :16]).pow(2).mean()
        loss.backward()
        total = job.all_reduce(loss)
        if options.how != "no-step":
            optimizer.step()
        optimizer.zero_grad()
        job.log(loss=total)


if __name__ == "__main__":
    main()
