"""
At most so many different pools in one plan.

Without that limit the answer bounds all others. Where it has too many pools, one of them is either
left out or counts as one of the few; each way is a question again, the most promising first. Once
the few are all named, no other pool is left. Exact for every goal; the work is limited, and what
is left open then is told by the bound.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from ebbtide.core.planner.solver.answer import Answer, Infeasible, Outcome
from ebbtide.core.planner.solver.cover import CLOSED
from ebbtide.core.planner.solver.question import CheapestAt, LeastTotal, Question

QUESTIONS: Final = 2_000
"""Asked at most for one answer."""

Ask: TypeAlias = Callable[[Question], Outcome]


@dataclass(frozen=True, slots=True)
class _Part:
    """Questions in which some pools are named and some are left out."""

    named: frozenset[str]
    left_out: frozenset[str]

    def pose(self, question: Question, most: int) -> Question:
        """Return the question without the limit."""
        fleet = question.fleet
        pools = tuple(pool for pool in fleet.pools if pool.name not in self.left_out)
        if len(self.named) == most:
            pools = tuple(pool for pool in pools if pool.name in self.named)
        return replace(question, fleet=replace(fleet, pools=pools, most_pools=None))


def solve_few(question: Question, most: int, ask: Ask) -> Outcome:
    """Return the best plan of at most so many pools."""
    whole = _Part(frozenset(), frozenset())
    first = ask(whole.pose(question, most))
    if isinstance(first, Infeasible) or len(first.counts) <= most:
        return first
    return _Few(question, most, ask).run(whole, first)


class _Few:
    def __init__(self, question: Question, most: int, ask: Ask) -> None:
        self.question = question
        self.most = most
        self.ask = ask
        self.is_least = isinstance(question.goal, CheapestAt | LeastTotal)
        self.best: Answer | None = None
        self.heap: list[tuple[float, int, _Part, Answer]] = []
        self.asked = 0
        self.pushed = 0

    def run(self, whole: _Part, first: Answer) -> Outcome:
        self._push(whole, first)
        while self.heap and self.asked < QUESTIONS:
            promise, _, part, answer = heapq.heappop(self.heap)
            if not self._could_be_better(promise):
                self.heap.clear()
                break
            self._branch(part, answer)
        open_ends = [end for end in self.heap if self._could_be_better(end[0])]
        if self.best is None:
            reason = f"no plan of at most {self.most} pools"
            more = f" was found in {self.asked} tries" if open_ends else " meets the limits"
            return Infeasible(reason + more, None)
        if not open_ends:
            return self.best
        bound = min(end[0] for end in open_ends)
        value = self._value(self.best)
        return replace(
            self.best,
            bound=bound if self.is_least else -bound,
            proven=False,
            gap=abs(value - bound) / abs(value),
        )

    def _branch(self, part: _Part, answer: Answer) -> None:
        """Name one more pool of the answer, or leave it out."""
        rates = {pool.name: pool.rate for pool in self.question.fleet.pools}
        name = max(
            (name for name in answer.counts if name not in part.named),
            key=lambda name: (answer.counts[name] * rates[name], name),
        )
        self._look_at(replace(part, named=part.named | {name}), answer)
        self._look_at(replace(part, left_out=part.left_out | {name}), None)

    def _look_at(self, part: _Part, known: Answer | None) -> None:
        """Ask, unless the answer is known already: naming a pool alone changes nothing."""
        if known is not None and len(part.named) < self.most:
            self._push(part, known)
            return
        posed = part.pose(self.question, self.most)
        if not posed.fleet.pools:
            return
        self.asked += 1
        answer = self.ask(posed)
        if isinstance(answer, Infeasible):
            return
        if len(answer.counts) > self.most:
            self._push(part, answer)
        elif self.best is None or self._value(answer) < self._value(self.best):
            self.best = answer

    def _push(self, part: _Part, answer: Answer) -> None:
        promise = answer.bound if self.is_least else -answer.bound
        if self._could_be_better(promise):
            heapq.heappush(self.heap, (promise, self.pushed, part, answer))
            self.pushed += 1

    def _could_be_better(self, promise: float) -> bool:
        if self.best is None:
            return True
        value = self._value(self.best)
        return promise < value - CLOSED * abs(value)

    def _value(self, answer: Answer) -> float:
        """Return what is to be as low as possible."""
        match self.question.goal:
            case CheapestAt():
                return answer.cost
            case LeastTotal():
                return answer.cost_over_rate
            case _:
                return -answer.rate
