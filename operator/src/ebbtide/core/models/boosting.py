"""Boosted trees of xgboost, kept as the library's own JSON; loaded only where they are needed."""

from collections.abc import Mapping
from typing import Any, Final

from ebbtide.core.models.table import Floats

ROUNDS: Final = 200
SETTINGS: Final[Mapping[str, Any]] = {
    "max_depth": 3,
    "learning_rate": 0.05,
    "nthread": 1,
    "verbosity": 0,
}


def grow(features: Floats, values: Floats, *, tree_method: str) -> str:
    """Grow trees for values, a row of features each, and return them as JSON text."""
    import xgboost  # noqa: PLC0415 -- loads only where a fit needs it

    data = xgboost.DMatrix(features, label=values)
    settings = {**SETTINGS, "tree_method": tree_method}
    text: str = xgboost.train(settings, data, num_boost_round=ROUNDS).save_raw("json").decode()
    return text


def load(stored: str) -> Any:  # noqa: ANN401 -- its type would load the library
    """Return the booster that `grow` wrote, ready to be asked."""
    import xgboost  # noqa: PLC0415 -- loads only where a model needs it

    booster = xgboost.Booster()
    booster.load_model(bytearray(stored.encode()))
    booster.set_param({"nthread": SETTINGS["nthread"]})
    return booster
