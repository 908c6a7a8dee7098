"""How fast workers are, from the best that is known: profile, models, measurements, a prior."""

from ebbtide.core.values.plan import Measured

__all__ = ["Measured"]
