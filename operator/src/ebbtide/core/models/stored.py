"""Models as plain JSON: versioned, with a checksum, and never a pickle."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from ebbtide.core.models.forecast import Forecast
from ebbtide.core.models.quality import Quality
from ebbtide.core.models.table import Table
from ebbtide.core.values.errors import EbbtideError

Json: TypeAlias = dict[str, Any]

VERSION: Final = 2
"""Raised when a stored model of before can no longer be read."""


class StoredModelError(EbbtideError, ValueError):
    """A stored model that is damaged, of another version, or no model at all."""


@runtime_checkable
class Model(Protocol):
    """Something fitted."""

    @property
    def method(self) -> str:
        """The name of the way in which it was fitted."""

    @property
    def quality(self) -> Quality:
        """Samples and held-out errors."""

    def predict(self, table: Table) -> Forecast:
        """Answer for each row of a table; raises DataError for a question without sense."""

    def parameters(self) -> Json:
        """Return what `from_json` of its module needs, as plain JSON."""


def seal(kind: str, model: Model) -> Json:
    """Return the stored form of a model."""
    body: Json = {
        "ebbtide": kind,
        "version": VERSION,
        "method": model.method,
        "quality": model.quality.to_json(),
        "parameters": model.parameters(),
    }
    return {**body, "checksum": _checksum(body)}


def parse(text: str) -> object:
    """Read JSON as it stands in a file, and nothing but JSON: no text can run code here."""
    try:
        stored: object = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise StoredModelError(f"this is no stored model, for it is no JSON: {error}") from error
    return stored


def unseal(stored: object, *, kind: str) -> tuple[str, Quality, Json]:
    """Check a stored model; return its method, its quality and its parameters."""
    if not isinstance(stored, Mapping) or "ebbtide" not in stored:
        raise StoredModelError("this is no stored model: there is no field `ebbtide`")
    if stored["ebbtide"] != kind:
        raise StoredModelError(f"this is a {stored['ebbtide']} model; {kind} is wanted")
    if stored.get("version") != VERSION:
        raise StoredModelError(
            f"stored by version {stored.get('version')}, this reads version {VERSION}: fit it anew"
        )
    body = {name: value for name, value in stored.items() if name != "checksum"}
    if stored.get("checksum") != _checksum(body):
        raise StoredModelError("the checksum does not fit: the model is damaged, fit it anew")
    try:
        quality = Quality.from_json(stored["quality"])
        return str(stored["method"]), quality, dict(stored["parameters"])
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise StoredModelError(f"a field is missing or has another shape: {error!r}") from error


def _checksum(body: Mapping[str, Any]) -> str:
    try:
        text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise StoredModelError(f"a stored model is plain, finite JSON: {error}") from error
    return hashlib.sha256(text.encode()).hexdigest()


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not a number of JSON")
