"""How training advances between two generations, and what is lost between them."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from ebbtide.core.simulator.virtual.agenda import seconds

SLACK: Final = 1e-6
"""Steps: what is so near to a whole step is one. Moments are whole microseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Steps that one generation made, for the record."""

    generation: int
    members: int
    began: datetime
    ended: datetime
    held_s: float  # of that time: training stood still for checkpoints
    steps_per_second: float
    first: int  # the step that it began at
    last: int  # ... and was left at


@dataclass(slots=True, kw_only=True)
class Pace:
    """A generation under way: its position is a function of time."""

    generation: int
    members: int
    began: datetime
    first: int
    rate: float  # steps per second
    since: datetime  # from when on it moves; may lie ahead
    done: float  # position at `since`
    held_s: float = 0.0
    frozen: bool = False

    def position(self, now: datetime) -> float:
        """Return steps applied, a begun one as its part."""
        if self.frozen or now <= self.since:
            return self.done
        return self.done + (now - self.since).total_seconds() * self.rate

    def step(self, now: datetime) -> int:
        """Return whole steps applied."""
        return int(self.position(now) + SLACK)

    def when(self, step: int) -> datetime:
        """Return when a step will be applied, if nothing comes between."""
        return self.since + seconds(max(step - self.done, 0.0) / self.rate)

    def next_boundary(self, now: datetime) -> datetime:
        """Return the next moment between two steps, now included."""
        reached = self.step(now)
        is_between = self.position(now) - reached <= SLACK
        return now if is_between else self.when(reached + 1)

    def hold(self, now: datetime, stall_s: float) -> None:
        """Stand still for a while."""
        self.done = self.position(now)
        self.since = max(now, self.since) + seconds(stall_s)
        self.held_s += stall_s

    def freeze(self, now: datetime) -> None:
        """Stand still for good: a collective cannot complete any more."""
        self.done = self.position(now)
        self.held_s -= max((self.since - now).total_seconds(), 0.0)
        self.since = now
        self.frozen = True

    def record(self, now: datetime) -> Stretch:
        """Return what came of it, ended now or when it was frozen."""
        ended = self.since if self.frozen else now
        ahead = 0.0 if self.frozen else max((self.since - now).total_seconds(), 0.0)
        return Stretch(
            generation=self.generation,
            members=self.members,
            began=self.began,
            ended=ended,
            held_s=self.held_s - ahead,
            steps_per_second=self.rate,
            first=self.first,
            last=self.step(now),
        )


@dataclass(slots=True)
class Tally:
    """What all generations of a job did together, whatever coordinators came and went."""

    stretches: list[Stretch] = field(default_factory=list)
    num_trained: int = 0  # steps applied, those again that were lost before
    num_lost: int = 0
    reach: int = 0  # the newest state that anybody held
    checkpoint_step: int = -1  # the newest that is durable; -1 = none
    checkpoint_at: datetime | None = None

    def begin(self, step: int) -> None:
        """Go on from a state; what lay beyond it is lost."""
        self.num_lost += max(self.reach - step, 0)
        self.reach = step

    def end(self, stretch: Stretch) -> None:
        """Write down a generation that has ended."""
        self.stretches.append(stretch)
        self.num_trained += stretch.last - stretch.first
        self.reach = max(self.reach, stretch.last)

    def commit(self, step: int, now: datetime) -> None:
        """Make a checkpoint durable."""
        if step > self.checkpoint_step:
            self.checkpoint_step, self.checkpoint_at = step, now
