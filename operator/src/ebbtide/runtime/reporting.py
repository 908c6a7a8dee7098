"""What a trainer says on standard output, a line at a time, whole even among several processes."""

import sys


def say(text: str) -> None:
    """Print one line, at once."""
    sys.stdout.write(f"ebbtide: {text}\n")
    sys.stdout.flush()
