"""What ships inside the package: the catalogue and the models fitted from public data."""

import json
from importlib.resources import files
from typing import Any, Final, TypeAlias

from ebbtide.core.models import kinds
from ebbtide.core.models.stored import Model, StoredModelError
from ebbtide.data.catalogue import Catalogue, load_catalogue

Json: TypeAlias = dict[str, Any]

PACKAGE: Final = "ebbtide.data"
FOLDER: Final = "models"


def embedded_catalogue() -> Catalogue:
    """Read the list of prices and GPU types that ships with the package."""
    return load_catalogue(files(PACKAGE).joinpath("catalogue.json").read_text(encoding="utf-8"))


def embedded_models() -> tuple[str, ...]:
    """Return the kinds of which a fitted model ships with the package."""
    found = files(PACKAGE).joinpath(FOLDER).iterdir()
    return tuple(sorted(entry.name[:-5] for entry in found if entry.name.endswith(".json")))


def embedded_model(kind: str) -> Model:
    """Read a model that ships with the package; raises KeyError where none does."""
    stored = _read(kind)
    return kinds.find(kind).from_json(stored["model"])


def provenance(kind: str) -> Json:
    """Return source, commit, licence and date of the data of an embedded model."""
    found: Json = _read(kind)["provenance"]
    return found


def _read(kind: str) -> Json:
    entry = files(PACKAGE).joinpath(FOLDER, f"{kind}.json")
    if kind not in kinds.MODULES or not entry.is_file():
        raise KeyError(kind)
    try:
        found: Json = json.loads(entry.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StoredModelError(f"the embedded model {kind} is damaged: {error}") from error
    return found
