"""Saves one checkpoint after the other until it is killed; says when it starts each."""

import sys

import torch

from ebbtide.runtime.checkpoint import Shelf

SIZE = 2_000_000


def main() -> None:
    """Save from the step after the newest one on."""
    path, owner = sys.argv[1:]
    shelf = Shelf(path, owner=owner)
    loaded = shelf.load()
    step = 0 if loaded is None else int(loaded.tree["step"])
    while True:
        step += 1
        tree = {"step": step, "weight": torch.full((SIZE,), float(step))}
        shelf.write(tree, step=step, lineage=1, world_size=1, may_commit=lambda: True)
        shelf.tidy(retain=2)


if __name__ == "__main__":
    main()
