"""Errors that callers must tell apart."""

from dataclasses import dataclass

from typing_extensions import override


class EbbtideError(Exception):
    """Base of everything we raise on purpose."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing that is wrong with a manifest, in words for whoever wrote it."""

    path: str  # as in spec.capacity.pools[0]
    message: str  # names the value seen, the limit and what would be right

    @override
    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class UnknownPriceError(EbbtideError):
    """No price list that we have says what a node costs; the message says what it does have."""


class InvalidManifestError(EbbtideError):
    """A manifest that the API server let through and we cannot use."""

    def __init__(self, errors: tuple[FieldError, ...]) -> None:
        super().__init__("; ".join(str(error) for error in errors))
        self.errors = errors
