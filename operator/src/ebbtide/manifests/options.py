"""What the operator's configuration has to say about the objects it makes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The same for every job of one operator."""

    coordinator_image: str
    python: str = "python"  # in images whose own interpreter is not named by the command
    coordinator_python: str = "python"
