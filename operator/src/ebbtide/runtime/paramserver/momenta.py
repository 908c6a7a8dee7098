"""
Whose momentum a push is trained with: while several workers push, each has one of its own.

Pushes of several workers in turn on one momentum act like more momentum than the script asked for
(Mitliagkas et al., "Asynchrony begets momentum", 2016), and at the script's rate training stops. A
momentum for each worker, and each push looking ahead along its own, keeps a gradient about as near
to the parameters that it meets as it would be without momentum, at the rate and the momentum of
the script: DANA, of Hakimi, Barkai, Gabel and Schuster, "Taming Momentum in a Distributed
Asynchronous Environment", 2019.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import torch
from torch import Tensor

MOMENTUM: Final = "momentum_buffer"


@dataclass(slots=True, kw_only=True)
class Momenta:
    """The momentum of each worker's pushes beside `common`, which is saved and moved; by space."""

    common: Mapping[str, Tensor]
    _own: dict[str, dict[str, Tensor]] = field(default_factory=dict)  # by worker; empty: common

    def choose(self, client: str, *, is_alone: bool) -> Mapping[str, Tensor]:
        """
        Return what to train a worker's push with: `common` for one that is alone.

        The first of several takes `common` over; those who come to it begin at nothing.
        """
        if not self.common:
            return self.common
        if is_alone:
            if client in self._own:
                self._own = {client: self._own[client]}
            self.gather()
            self._own.clear()
            return self.common
        if client not in self._own:
            begin = torch.zeros_like if self._own else torch.clone
            self._own[client] = {space: begin(tensor) for space, tensor in self.common.items()}
        return self._own[client]

    def drop(self, client: str) -> None:
        """Forget a worker's; that of the last one stays as `common`."""
        if list(self._own) == [client]:
            self.gather()
        self._own.pop(client, None)

    def gather(self) -> None:
        """Let `common` be the mean of all workers': what one worker would go on with."""
        for space, tensor in self.common.items() if self._own else ():
            tensor.zero_()
            for own in self._own.values():
                tensor.add_(own[space], alpha=1 / len(self._own))
