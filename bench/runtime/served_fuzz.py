"""A hundred thousand malformed frames to a parameter server: what they may not bring about."""

import tempfile
from pathlib import Path
from typing import Final

import torch
from torch import nn

from rows import Row
from support.served import Servers, Trainer
from support.served_fuzzing import Fuzz, resident

FRAMES: Final = 100_000
MOST_GROWTH_MB: Final = 200.0


def rows() -> list[Row]:
    """Send them while an honest worker is connected; then let it take a step."""
    with tempfile.TemporaryDirectory() as folder:
        servers = Servers(folder=Path(folder))
        servers.start("a")
        model = nn.Linear(1000, 10)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        trainer = Trainer(servers, model, optimizer, name="honest")
        trainer.until = float("inf")
        trainer.client.enter()
        before = resident()
        sent = Fuzz(servers.running["a"].address, seed=1, trainer=trainer).run(FRAMES)
        grown = (resident() - before) / (1 << 20)
        lives = trainer.take().step >= 0
        servers.close()
    return [
        Row("server fuzz: frames", sent, "", "higher", FRAMES),
        Row("... after which an honest worker gets its step", float(lives), "", "higher", 1),
        Row("... memory that stayed", grown, "MB", "lower", MOST_GROWTH_MB),
    ]
