"""
A small transformer learns to write like Shakespeare, letter by letter.

Shows the whole loop: a schedule, further state that must survive (an average of all weights), a
gradient that is clipped, a sum over all ranks of the script's own, and a step as a scope.
"""

import argparse
import math
import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from typing_extensions import override

import ebbtide.runtime as ebb

TEXT = Path(__file__).with_name("romeo-and-juliet.txt")
CONTEXT = 64  # letters that the model sees
BATCH = 32  # windows of a step, of all ranks together
WARM_UP = 20  # steps until the full learning rate


class Windows:
    """Each stretch of the text with the one that is a letter further."""

    def __init__(self, letters: Tensor) -> None:
        self._letters = letters

    def __len__(self) -> int:
        return len(self._letters) - CONTEXT

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return (
            self._letters[index : index + CONTEXT],
            self._letters[index + 1 : index + CONTEXT + 1],
        )


class Writer(nn.Module):
    """Letters and places in, two blocks of attention, and a score for each next letter out."""

    def __init__(self, alphabet: int, *, width: int = 64, heads: int = 4, blocks: int = 2) -> None:
        super().__init__()
        self.letters = nn.Embedding(alphabet, width)
        self.places = nn.Embedding(CONTEXT, width)
        block = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.1, batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(block, blocks, enable_nested_tensor=False)
        self.scores = nn.Linear(width, alphabet)
        mask = nn.Transformer.generate_square_subsequent_mask(CONTEXT)
        self.register_buffer("mask", mask, persistent=False)

    @override
    def forward(self, letters: Tensor) -> Tensor:
        """Give (samples, letters, alphabet) scores."""
        length = letters.shape[1]
        places = self.places(torch.arange(length, device=letters.device))
        mask = self.get_buffer("mask")[:length, :length]
        seen = self.blocks(self.letters(letters) + places, mask=mask, is_causal=True)
        scores: Tensor = self.scores(seen)
        return scores


def rate_at(step: int, *, steps: int) -> float:
    """Return the share of the learning rate: up to all of it, then down along a cosine."""
    if step < WARM_UP:
        return (step + 1) / WARM_UP
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - WARM_UP) / max(1, steps - WARM_UP))))


@torch.no_grad()
def write(model: nn.Module, alphabet: str, *, start: str, count: int) -> str:
    """Let the model go on from `start`."""
    model.eval()
    written = [alphabet.index(letter) for letter in start]
    for _ in range(count):
        seen = torch.tensor([written[-CONTEXT:]], device=next(model.parameters()).device)
        scores = model(seen)[0, -1]
        written.append(int(torch.multinomial(torch.softmax(scores, 0), 1)))
    return "".join(alphabet[number] for number in written)


def main() -> None:
    """Train, and let the averaged model write a few lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300, help="of a local job")
    parser.add_argument("--local", type=int, default=None, help="so many processes, no cluster")
    options = parser.parse_args()
    text = TEXT.read_text(encoding="utf-8")
    alphabet = "".join(sorted(set(text)))
    known = torch.tensor([alphabet.index(letter) for letter in text])

    job = ebb.join(local=options.local, steps=options.steps, global_batch_size=BATCH)
    torch.manual_seed(0)
    model = Writer(len(alphabet)).to(job.device)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.98))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = LambdaLR(optimizer, lambda step: rate_at(step, steps=options.steps))
    model, optimizer, schedule = job.wrap(model, optimizer, scheduler=schedule)
    job.track(average=average)
    loss_of = nn.CrossEntropyLoss()
    mean = torch.zeros(())
    for step in job.steps(job.shard(Windows(known), seed=0)):
        with step as batch:  # a member that is lost in here ends this try, and the step comes again
            letters, following = batch.x.to(job.device), batch.y.to(job.device)
            loss = loss_of(model(letters).flatten(0, 1), following.flatten())
            loss.backward()
            job.reduce_gradients()  # now they are those of the whole batch, and may be clipped
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            mean = job.all_reduce(loss.detach() * len(letters)) / BATCH
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            average.update_parameters(model)
            job.log(loss=mean)

    sys.stdout.write(f"loss {float(mean):.4f} after {job.step} steps\n")
    if job.is_chief:
        sys.stdout.write(write(average.module, alphabet, start="ROMEO:\n", count=200) + "\n")


if __name__ == "__main__":
    main()
