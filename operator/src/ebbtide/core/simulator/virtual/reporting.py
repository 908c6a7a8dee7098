"""What a coordinator in virtual time tells the operator, in the message that the real one sends."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ebbtide.core.simulator.virtual.hands import Hand
from ebbtide.core.simulator.virtual.progress import Tally
from ebbtide.wire.messages import Report, WorkerReport, WorkSpec


class Resumed(NamedTuple):
    """The newest start from a checkpoint."""

    generation: int = 0
    step: int = 0
    num_redone: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How its generation stands."""

    attempt: int
    version: int
    current: tuple[str, ...]  # members of the generation that forms, trains or was the last
    formed: tuple[str, ...]  # ... of the last that stood
    generation: int  # ... and its number
    is_training: bool
    is_finished: bool
    step: int  # the largest that was ever heard of
    rate: float  # steps per second
    duty: str
    resumed: Resumed


def build_report(
    hands: Iterable[Hand], standing: Standing, *, work: WorkSpec, tally: Tally
) -> Report:
    """Describe the state; a coordinator without workers knows of no checkpoint."""
    known = sorted(hands, key=lambda hand: (hand.index, hand.attempt))
    saved_at = tally.checkpoint_at if known else None
    return Report(
        attempt=standing.attempt,
        version=standing.version,
        generation=standing.generation,
        members=standing.formed,
        training=standing.is_training,
        step=standing.step,
        steps_per_second=standing.rate,
        checkpoint_step=tally.checkpoint_step if known else -1,
        checkpoint_time=saved_at.timestamp() if saved_at is not None else 0.0,
        duty=standing.duty,
        resumed_generation=standing.resumed.generation,
        resumed_step=standing.resumed.step,
        steps_redone=standing.resumed.num_redone,
        finished=standing.is_finished,
        work=work,
        workers=tuple(
            WorkerReport(
                worker=hand.name,
                index=hand.index,
                attempt=hand.attempt,
                state=hand.describe(standing.current),
                warned=hand.warned,
                generation=hand.generation,
                step=max(hand.state_step, 0),
            )
            for hand in known
        ),
    )
