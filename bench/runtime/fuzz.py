"""A hundred thousand malformed conversations with a coordinator: what they may not bring about."""

import asyncio
import sys
from typing import Final

from rows import Row
from support import fuzzing
from support.fuzzing import Outcome

INPUTS: Final = 100_000
ROUND: Final = 10_000
MOST_GROWTH_MB: Final = 64.0


def rows() -> list[Row]:
    """Play them, each round with a coordinator of its own."""
    outcomes = []
    for seed in range(INPUTS // ROUND):
        outcomes.append(asyncio.run(fuzzing.play(ROUND, seed=seed)))
        print(f" {(seed + 1) * ROUND}", end="", flush=True, file=sys.stderr)
    return rows_of(outcomes)


def rows_of(outcomes: list[Outcome]) -> list[Row]:
    """Judge what became of the coordinators."""
    faults = [fault for outcome in outcomes for fault in outcome.faults]
    hurt = sum(outcome.witness_lost or not outcome.answers for outcome in outcomes)
    grown = max(outcome.grown_bytes for outcome in outcomes) / (1 << 20)
    return [
        Row("fuzz: inputs", sum(o.inputs for o in outcomes), "", "higher", INPUTS),
        Row("... that raised what nobody foresaw", len(faults), "", "lower", 0),
        Row("... whose connection stayed open", sum(o.hung for o in outcomes), "", "lower", 0),
        Row("... rounds in which an honest member suffered", hurt, "", "lower", 0),
        Row("... memory that stayed, worst round", grown, "MB", "lower", MOST_GROWTH_MB),
    ]
