"""A status as the API server keeps it, read into its model."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from ebbtide.api.fields import Schema
from ebbtide.core.values.errors import FieldError, InvalidManifestError

Model = TypeVar("Model", bound=Schema)


def read_stored(model: type[Model], status: Mapping[str, Any] | None) -> Model:
    """
    Return a stored status; nothing stored gives the model's defaults.

    A field that a later version wrote is passed over. Raises InvalidManifestError where the status
    is none of ours.
    """
    try:
        return model.model_validate({} if status is None else status, extra="ignore")
    except ValidationError as error:
        raise InvalidManifestError(
            tuple(
                FieldError(".".join(("status", *map(str, finding["loc"]))), finding["msg"])
                for finding in error.errors(include_url=False, include_input=False)
            )
        ) from error
