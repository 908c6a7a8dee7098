"""
A hundred kills in one run: the job finishes, with each sample once and the undisturbed result.

Two members and a spare; kills of members at any moment, one after the other; each next attempt
comes as the new spare. The same work is done once more without any kill.
"""

import json
import random
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rows import Row
from runtime import bed, recovery, small
from support.nursery import Nursery
from support.processes import Job

KILLS: Final = 100
STEPS_EACH: Final = 150
"""Enough for the next spare to come meanwhile."""
COUNTED: Final = Path(__file__).parent / "train_counted.py"
SAMPLES: Final = 200
WORLD: Final = 2
_PATIENCE_S: Final = 900.0


@dataclass(slots=True, kw_only=True)
class Account:
    """What all processes of a run wrote down."""

    samples: dict[int, dict[int, tuple[int, ...]]] = field(default_factory=dict)
    """By step and rank."""
    applied: dict[int, int] = field(default_factory=dict)
    """How many processes applied each step."""
    faults: list[str] = field(default_factory=list)

    def read(self, name: str, lines: Iterable[str]) -> None:
        """Take in what one process wrote; its last line may be cut off."""
        last = -1
        for line in lines:
            try:
                what, step, *rest = json.loads(line)
            except ValueError:
                continue
            if what == "tried":
                rank, world, ids = rest
                if world != WORLD:
                    self.faults.append(f"{name} tried step {step} in a world of {world}")
                self._note(name, step, rank, tuple(ids))
                continue
            if last not in {-1, step - 1}:
                self.faults.append(f"{name} applied step {step} after step {last}")
            last = step
            self.applied[step] = self.applied.get(step, 0) + 1

    def _note(self, name: str, step: int, rank: int, ids: tuple[int, ...]) -> None:
        known = self.samples.setdefault(step, {}).setdefault(rank, ids)
        if known != ids:
            self.faults.append(f"{name} tried step {step} with other samples than rank {rank} had")

    def check(self, steps: int) -> list[str]:
        """Return what is wrong: steps that are missing, and epochs without each sample once."""
        missing = [step for step in range(steps) if not self.applied.get(step)]
        found = [*self.faults, *(f"nobody applied step {step}" for step in missing)]
        stream = [
            number
            for step in range(steps)
            for rank in range(WORLD)
            for number in self.samples.get(step, {}).get(rank, ())
        ]
        if len(stream) != steps * small.GLOBAL_BATCH:
            found.append(f"{len(stream)} samples in {steps} steps of {small.GLOBAL_BATCH}")
        for start in range(0, len(stream) - SAMPLES + 1, SAMPLES):
            counts = Counter(stream[start : start + SAMPLES])
            if len(counts) != SAMPLES:
                found.append(f"{SAMPLES - len(counts)} samples are missing in epoch {start}")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a run."""

    kills: int
    is_same: bool
    """The final weights are those of the undisturbed run, bit for bit."""
    faults: tuple[str, ...]
    steps_redone: int


def rows() -> list[Row]:
    """Kill a hundred members."""
    with bed.open_nursery() as nursery:
        outcome = play(nursery, kills=KILLS, chance=random.Random(5))
    return rows_of(outcome)


def rows_of(outcome: Outcome) -> list[Row]:
    """Judge what became of the run."""
    for fault in outcome.faults[:10]:
        print(f" {fault}", file=sys.stderr)
    return [
        Row("random kills in one run, which finished", outcome.kills, "", "higher", KILLS),
        Row("... samples or steps not exactly once", len(outcome.faults), "", "lower", 0),
        Row("... result is the undisturbed one", float(outcome.is_same), "", "higher", 1),
        Row("... committed steps done again", outcome.steps_redone, "", "lower", 0),
    ]


def play(nursery: Nursery, *, kills: int, chance: random.Random) -> Outcome:
    """Train twice, once with so many kills; compare."""
    steps = kills * STEPS_EACH
    with bed.open_job(nursery, members=WORLD, script=COUNTED, steps=steps) as job:
        run = recovery.Run(job, spares=1)
        for _ in range(kills):
            run.kill_member(chance)
        results = _await_results(job)
        redone = job.report().steps_redone
        account = _read_account(job.checkpoints)
    with bed.open_job(nursery, members=WORLD, script=COUNTED, steps=steps) as job:
        recovery.Run(job, spares=0)
        undisturbed = _await_results(job)
    digests = {each["digest"] for each in (*results, *undisturbed)}
    return Outcome(
        kills=kills,
        is_same=len(digests) == 1,
        faults=tuple(account.check(steps)),
        steps_redone=redone,
    )


def _await_results(job: Job) -> Sequence[dict[str, Any]]:
    found = bed.await_some(
        lambda: results if len(results := job.results()) >= WORLD else None,
        "results of all members",
        seconds=_PATIENCE_S,
    )
    return tuple(found.values())


def _read_account(folder: Path) -> Account:
    account = Account()
    for path in sorted(folder.glob("account-*")):
        account.read(path.name, path.read_text(encoding="ascii").splitlines())
    return account
