"""Numbers that users write on a command line."""

import math
from typing import Any

import click
from typing_extensions import override


class RealRange(click.FloatRange):
    """A range of real numbers: NaN, which passes every comparison of click's own, is refused."""

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; raises BadParameter."""
        found = super().convert(value, param, ctx)
        if math.isnan(found):
            self.fail(f"{value} is no number", param, ctx)
        return found
