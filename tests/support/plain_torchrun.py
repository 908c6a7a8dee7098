"""Torchrun as it is, in which our way to meet is one of those that it knows."""

from torch.distributed.run import main

from ebbtide.runtime.launching import plugin

if __name__ == "__main__":
    plugin.register()
    main()
