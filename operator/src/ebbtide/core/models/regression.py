"""
Plain regressions that several models share; each keeps its own numbers, so none is pickled.

Features are arrays of shape (rows, features), targets of shape (rows,).
"""

from dataclasses import dataclass
from typing import Final, Literal, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ebbtide.core.models.forecast import Json
from ebbtide.core.models.table import Floats

Kernel: TypeAlias = Literal["rbf", "poly"]

MOST_ROWS: Final = 1_000
"""Rows that a support vector fit takes at most; its time grows with their cube."""
CHUNK: Final = 2_000
"""Rows whose kernel values are held at once."""
DEGREE: Final = 2
COEF0: Final = 1.0
"""Of the polynomial kernel (gamma <u, v> + 1)^2, as CM-DARE has it."""


class Regression(Protocol):
    """Something fitted that gives a number for a row of features."""

    def at(self, features: Floats) -> Floats:
        """Return a number for each row; any number, also below zero."""

    def to_json(self) -> Json:
        """Return plain JSON."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Linear:
    """A constant and a weight for each feature."""

    constant: float
    weights: Floats

    def at(self, features: Floats) -> Floats:
        """Return constant + features . weights."""
        return self.constant + features @ self.weights

    def to_json(self) -> Json:
        """Return plain JSON."""
        return {"constant": self.constant, "weights": self.weights.tolist()}

    @classmethod
    def from_json(cls, stored: Json) -> Self:
        """Read what `to_json` wrote."""
        return cls(
            constant=float(stored["constant"]),
            weights=np.array(stored["weights"], dtype=np.float64),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SupportVectors:
    """A support vector regression: sum over vectors of dual * kernel(row, vector) + constant."""

    kernel: Kernel
    gamma: float
    constant: float
    vectors: Floats
    """Shape (vectors, features)."""
    dual: Floats
    """Shape (vectors,)."""

    def at(self, features: Floats) -> Floats:
        """Return a number for each row; the constant far away from all vectors (rbf)."""
        parts = [features[start : start + CHUNK] for start in range(0, len(features), CHUNK)]
        found = [self._kernel(part) @ self.dual + self.constant for part in parts]
        return np.concatenate(found) if found else np.zeros(0)

    def _kernel(self, features: Floats) -> NDArray[np.float64]:
        product = features @ self.vectors.T
        if self.kernel == "poly":
            values: NDArray[np.float64] = (self.gamma * product + COEF0) ** DEGREE
            return values
        squares = (features**2).sum(axis=1)[:, None] + (self.vectors**2).sum(axis=1)
        near: NDArray[np.float64] = np.exp(-self.gamma * np.maximum(squares - 2 * product, 0.0))
        return near

    def to_json(self) -> Json:
        """Return plain JSON."""
        return {
            "kernel": self.kernel,
            "gamma": self.gamma,
            "constant": self.constant,
            "vectors": self.vectors.tolist(),
            "dual": self.dual.tolist(),
        }

    @classmethod
    def from_json(cls, stored: Json) -> Self:
        """Read what `to_json` wrote."""
        dual = np.array(stored["dual"], dtype=np.float64)
        # Where all samples lie inside the margin there is no vector, and a list says no shape.
        vectors = np.array(stored["vectors"], dtype=np.float64).reshape(
            len(dual), round(1 / float(stored["gamma"]))
        )
        return cls(
            kernel="poly" if stored["kernel"] == "poly" else "rbf",
            gamma=float(stored["gamma"]),
            constant=float(stored["constant"]),
            vectors=vectors,
            dual=dual,
        )


def from_json(stored: Json) -> Regression:
    """Read any regression."""
    return SupportVectors.from_json(stored) if "dual" in stored else Linear.from_json(stored)


def fit_linear(features: Floats, target: Floats) -> Linear:
    """Fit by plain least squares; the smallest weights where features do not tell rows apart."""
    center = features.mean(axis=0)
    weights = np.linalg.lstsq(features - center, target - target.mean())[0]
    return Linear(constant=float(target.mean() - center @ weights), weights=weights)


def fit_principal(features: Floats, target: Floats, *, components: int) -> Linear:
    """Fit a line on the first principal components of the features (not scaled)."""
    center = features.mean(axis=0)
    directions = np.linalg.svd(features - center, full_matrices=False)[2][:components].T
    inner = fit_linear((features - center) @ directions, target)
    weights = directions @ inner.weights
    return Linear(constant=float(inner.constant - center @ weights), weights=weights)


def fit_relative(features: Floats, target: Floats) -> Floats:
    """
    Return weights of at least zero that minimise sum((features . weights / target - 1)^2).

    The target is positive; relative errors make small and large targets count alike.
    """
    return fit_positive(features / target[:, None], np.ones(len(target)))


def fit_positive(matrix: Floats, target: Floats) -> Floats:
    """Return weights of at least zero that minimise |matrix . weights - target|."""
    from scipy.optimize import nnls  # noqa: PLC0415 -- only a fit needs scipy

    size = np.maximum(np.abs(matrix).max(axis=0), np.finfo(np.float64).tiny)
    weights: Floats = nnls(matrix / size, target)[0] / size
    return weights


def fit_support_vectors(
    features: Floats, target: Floats, *, kernel: Kernel, cost: float, margin: float
) -> SupportVectors:
    """
    Fit an epsilon-insensitive support vector regression; `margin` is in the target's unit.

    The width of the kernel is 1 / features (`gamma="auto"`). Of more than 1,000 rows an evenly
    spread part is taken.
    """
    from sklearn.svm import SVR  # noqa: PLC0415 -- only a fit needs scikit-learn

    step = max(len(target) / MOST_ROWS, 1.0)
    chosen = np.arange(0, len(target), step).astype(np.intp)
    machine = SVR(kernel=kernel, degree=DEGREE, coef0=COEF0, gamma="auto", C=cost, epsilon=margin)
    machine.fit(features[chosen], target[chosen])
    return SupportVectors(
        kernel=kernel,
        gamma=1.0 / features.shape[1],
        constant=float(machine.intercept_[0]),
        vectors=np.array(machine.support_vectors_, dtype=np.float64),
        dual=np.array(machine.dual_coef_[0], dtype=np.float64),
    )
