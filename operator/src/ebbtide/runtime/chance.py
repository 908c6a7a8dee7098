"""The random numbers of a step: the same for the same seed, step and rank, whoever computes it."""

import numpy as np
import torch


def reseed(*, seed: int, step: int, rank: int) -> None:
    """Set torch's generators for one rank's part of one step."""
    word = int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0]) >> 1
    torch.default_generator.manual_seed(word)
    # torch.manual_seed would queue a call with its stack, every step, where CUDA is not in use.
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(word)
