"""What a change in the ledger makes the coordinator do: send, close, and note in the log."""

from dataclasses import dataclass, field

from ebbtide.wire.messages import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """One message for one connection."""

    link: int
    message: Message


@dataclass(slots=True, kw_only=True)
class Outbox:
    """In order: the shell carries it out and forgets it."""

    sends: list[Send] = field(default_factory=list)
    closes: list[int] = field(default_factory=list)  # after everything is sent
    notes: list[str] = field(default_factory=list)  # log lines

    def send(self, link: int, message: Message) -> None:
        """Add a message."""
        self.sends.append(Send(link=link, message=message))

    def close(self, link: int) -> None:
        """Close a connection once what was sent to it is out."""
        self.closes.append(link)

    def note(self, text: str) -> None:
        """Add a log line."""
        self.notes.append(text)
