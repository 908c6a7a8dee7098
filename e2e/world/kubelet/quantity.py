"""Resource quantities such as 500m, 4Gi or 2."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from typing import Final

SUFFIXES: Final = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
PATTERN: Final = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([A-Za-z]*)")


def parse(text: str) -> Decimal:
    """Return a quantity as a plain number."""
    match = PATTERN.fullmatch(text)
    if match is None or match[2] not in SUFFIXES:
        message = f"{text!r} is no quantity"
        raise ValueError(message)
    return Decimal(match[1]) * SUFFIXES[match[2]]


def divide(amount: str, divisor: str) -> str:
    """Return how many times the divisor goes into the amount, rounded up."""
    unit = parse(divisor) or Decimal(1)  # the API server fills in "0" for none
    return str(int((parse(amount) / unit).to_integral_value(ROUND_CEILING)))
