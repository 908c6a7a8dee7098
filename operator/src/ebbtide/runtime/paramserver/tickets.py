"""
Which steps are out with workers, which are applied, and how old a gradient may be. Pure.

Each step is one ticket: its batch is computed by one worker and pushed once. A step that a worker
took with it comes again for another. The version grows by one with every push that is applied, and
a push's staleness is how many others were applied since its worker last took the parameters.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class Outing:
    """A client at work: on which step, and since which version."""

    step: int
    version: int


@dataclass(slots=True, kw_only=True)
class Tickets:
    """The book of one training."""

    steps: int  # how many the job has
    max_staleness: int | None = None
    version: int = 0
    floor: int = 0  # all steps below are applied
    ahead: set[int] = field(default_factory=set)  # applied steps above the floor
    out: dict[str, Outing] = field(default_factory=dict)  # by client

    @property
    def num_applied(self) -> int:
        """How many steps are applied."""
        return self.floor + len(self.ahead)

    @property
    def is_done(self) -> bool:
        """Whether every step is applied."""
        return self.num_applied >= self.steps

    def is_applied(self, step: int) -> bool:
        """Tell whether a step needs no further push."""
        return step < self.floor or step in self.ahead

    def hand_out(self, client: str) -> int | None:
        """
        Give a client the lowest step that nobody has; None when there is none now.

        With a staleness bound of s no more than s + 1 clients are at work at a time.
        """
        self.out.pop(client, None)
        if self.max_staleness is not None and len(self.out) > self.max_staleness:
            return None
        taken = {outing.step for outing in self.out.values()}
        step = self.floor
        while step in self.ahead or step in taken:
            step += 1
        if step >= self.steps:
            return None
        self.out[client] = Outing(step=step, version=self.version)
        return step

    def keep_out(self, client: str, *, step: int, version: int) -> None:
        """Note a client that comes back with a step it is at work on, as after a change of lead."""
        if not self.is_applied(step):
            self.out[client] = Outing(step=step, version=version)

    def drop(self, client: str) -> None:
        """Take back what a client is at work on: it is gone."""
        self.out.pop(client, None)

    def staleness(self, client: str) -> int:
        """Return how many pushes were applied since this client took its parameters."""
        return self.version - self.out[client].version

    def is_owner(self, client: str, step: int) -> bool:
        """Tell whether a push of this step by this client is to be applied at all."""
        outing = self.out.get(client)
        return outing is not None and outing.step == step and not self.is_applied(step)

    def must_wait(self, client: str) -> bool:
        """
        Tell whether applying this client's push now would make another one's too old in the end.

        With a bound the fast wait for the slow. If all others came in next, oldest first, each
        would be one older than the one before it; none may pass the bound. The oldest of all never
        has to wait, so training always goes on.
        """
        if self.max_staleness is None:
            return False
        others = (self.staleness(name) + 1 for name in self.out if name != client)
        ages = sorted(others, reverse=True)
        return any(age + place > self.max_staleness for place, age in enumerate(ages))

    def num_at_work(self, client: str) -> int:
        """Return how many are at work now, this client among them."""
        return len(self.out.keys() | {client})

    def delay(self, client: str) -> int:
        """Return how much of a push's staleness is no more than its peers make it."""
        return min(self.staleness(client), max(0, len(self.out) - 1))

    def weight(self, client: str) -> float:
        """
        Return what a push is scaled by: 1, or less when it is older than its peers make it.

        Among n workers in turn a gradient is n - 1 versions old; one that is older by far points
        where the parameters were, and counts n / (staleness + 1).
        """
        return (self.delay(client) + 1) / (self.staleness(client) + 1)

    def apply(self, client: str) -> int:
        """Note that this client's push is applied; return the new version."""
        self.note(self.out.pop(client).step)
        return self.version

    def note(self, step: int) -> None:
        """Note that a step is applied."""
        self.version += 1
        self.ahead.add(step)
        while self.floor in self.ahead:
            self.ahead.remove(self.floor)
            self.floor += 1

    def restart(self, *, floor: int, ahead: Iterable[int], version: int) -> None:
        """Go on from a state in which these steps are applied; nobody is at work."""
        self.floor, self.ahead, self.version = floor, set(ahead), version
        self.out.clear()
