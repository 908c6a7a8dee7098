"""Workers as a coordinator knows them, and which of them train together."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime


@dataclass(slots=True, kw_only=True)
class Hand:
    """One worker: what the coordinator keeps of it, its processes taken as one."""

    name: str
    index: int
    attempt: int
    is_ready: bool = False  # could be put into a generation
    is_cut: bool = False  # its node has no power; nobody knows yet
    warned: bool = False
    leave_by: datetime | None = None
    is_dismissed: bool = False  # may go, and does
    left: bool = False
    lost: bool = False
    generation: int = 0  # the last one it was a member of
    state_step: int = -1  # of the state in its memory; -1 = none

    @property
    def is_there(self) -> bool:
        """As far as the coordinator knows, it has not gone."""
        return not (self.left or self.lost)

    @property
    def is_eligible(self) -> bool:
        """It may be counted on: there, ready, and staying."""
        return self.is_there and self.is_ready and self.leave_by is None and not self.is_dismissed

    def describe(self, current: Collection[str]) -> str:
        """Name its state in the words of the report."""
        if self.lost:
            return "lost"
        if self.left:
            return "left"
        if self.leave_by is not None:
            return "leaving"
        if not self.is_ready:
            return "joining"
        return "member" if self.name in current else "spare"


def choose_members(
    hands: Iterable[Hand], *, present: Collection[str], desired: int
) -> tuple[str, ...]:
    """
    Choose up to `desired` of these hands, one attempt of each index, by index.

    As the coordinator does: who is present stays, then who is not warned comes first, then the
    lower index, then the newer attempt.
    """

    def taste(hand: Hand) -> tuple[bool, bool, int, int]:
        return hand.name not in present, hand.warned, hand.index, -hand.attempt

    by_index: dict[int, Hand] = {}
    for hand in sorted(hands, key=taste):
        by_index.setdefault(hand.index, hand)
    chosen = list(by_index.values())[: max(desired, 0)]
    return tuple(hand.name for hand in sorted(chosen, key=lambda hand: hand.index))


def are_others_wanted(
    hands: Iterable[Hand], *, present: Collection[str], desired: int, least: int
) -> bool:
    """Tell whether a generation under way should be changed at will: more hands, or fewer."""
    eligible = (hand for hand in hands if hand.is_eligible)
    target = set(choose_members(eligible, present=present, desired=desired))
    joining, surplus = target - set(present), set(present) - target
    return bool(joining and len(target) >= len(present)) or bool(surplus and len(target) >= least)


def choose_saver(hands: Iterable[Hand], *, beyond: int, by: datetime) -> Hand | None:
    """Choose the leaver that saves what it alone holds, of those that can do so in time."""
    able = [
        (hand.state_step, hand.leave_by, -hand.index, hand)
        for hand in hands
        if hand.is_there and not hand.is_cut and not hand.is_dismissed
        if hand.leave_by is not None and hand.leave_by >= by and hand.state_step > beyond
    ]
    return max(able, key=lambda one: one[:3])[3] if able else None
