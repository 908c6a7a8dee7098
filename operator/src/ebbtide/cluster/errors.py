"""What the API server may answer, as far as callers must tell it apart."""

from ebbtide.core.values.errors import EbbtideError


class ClusterError(EbbtideError):
    """A request did not do what was asked; `message` is the server's own text."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class NotFoundError(ClusterError):
    """The object is not there."""


class ConflictError(ClusterError):
    """The object exists already, or is not the one we looked at: look again."""


class RejectedError(ClusterError):
    """The server refuses what we sent, and will refuse it again."""


class ForbiddenError(RejectedError):
    """A right is missing, or a quota or policy does not let it through."""


class GoneError(ClusterError):
    """The history that a watch asks for is no longer kept: list again."""


class UnavailableError(ClusterError):
    """The server does not answer, or answers that it cannot now."""


class ThrottledError(UnavailableError):
    """The server asks us to come back later."""

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class CredentialsError(UnavailableError):
    """The server does not know us (any more)."""
