"""
How whoever listens meets a caller: how many strangers may wait, and what proves one of them.

The listener sends a `Challenge`, the caller an `Answer`; whoever fails is told why by `Refused`.
Pure.
"""

from collections import Counter
from collections.abc import Collection
from typing import Final, Generic, TypeVar

from ebbtide.wire.frames import is_proof
from ebbtide.wire.messages import MAX_NAME, PROTOCOL, Answer

MAX_STRANGERS: Final = 256

Caller = TypeVar("Caller")


class Strangers(Generic[Caller]):
    """The callers that have not proven themselves yet, oldest first, never more than `limit`."""

    def __init__(self, *, limit: int = MAX_STRANGERS) -> None:
        self._limit = limit
        self._hosts: dict[Caller, str] = {}

    def __len__(self) -> int:
        return len(self._hosts)

    def admit(self, newcomer: Caller, *, host: str) -> Caller | None:
        """
        Take in a newcomer from an address; return whom to cut off for it, if anybody.

        Where all places are taken, the address with the most gives up its oldest, so that no one
        address keeps the others out. When that would be the newcomer's own, it is returned itself.
        """
        loser = None
        if len(self._hosts) >= self._limit:
            held = Counter(self._hosts.values())
            busiest, most = held.most_common(1)[0]
            if most <= held[host] + 1:
                return newcomer
            loser = next(caller for caller, its in self._hosts.items() if its == busiest)
            del self._hosts[loser]
        self._hosts[newcomer] = host
        return loser

    def dismiss(self, caller: Caller) -> None:
        """Forget one that has proven itself, or is gone."""
        self._hosts.pop(caller, None)


def find_fault(
    answer: Answer, *, token: bytes, nonce: str, sides: Collection[str], caller: str, here: str
) -> str:
    """Say what is wrong with the answer of a caller to `here`, naming both; empty when nothing."""
    if answer.protocol != PROTOCOL:
        return (
            f"{caller} speaks protocol {answer.protocol}, this {here} {PROTOCOL}: use images of one"
            " release"
        )
    is_known = answer.side in sides
    if not is_known or not is_proof(answer.digest, token=token, nonce=nonce, side=answer.side):
        return (
            f"the token is wrong: {caller} did not prove to this {here}, as"
            f" {answer.side[:MAX_NAME]!r}, that it knows the one of this job"
        )
    return ""
