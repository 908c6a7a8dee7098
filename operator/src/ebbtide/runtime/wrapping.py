"""
What a script hands to `wrap`, held to what every rank can keep equal.

Only the gradients of the wrapped model's parameters are summed over the ranks. Whatever else an
optimizer trains, or trains by another way, would become another one on each rank, without a word.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn
from torch.nn import Parameter
from torch.optim import Optimizer

from ebbtide.runtime.errors import UsageError


def check_parts(model: nn.Module, optimizer: Optimizer) -> None:
    """Refuse an optimizer that trains what is no part of the model."""
    own = {id(parameter) for parameter in model.parameters()}
    strangers = [
        f"number {number} of group {at}, {' x '.join(map(str, parameter.shape)) or 'a scalar'}"
        for at, group in enumerate(optimizer.param_groups)
        for number, parameter in enumerate(group["params"])
        if id(parameter) not in own
    ]
    if strangers:
        raise UsageError(
            f"the optimizer trains {len(strangers)} parameters that are not the wrapped model's "
            f"(first: {strangers[0]}): every rank would train its own; put all that is trained "
            "into one module, and wrap that"
        )


def check_call(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Refuse `optimizer.step(closure)`: the gradients are summed before it would compute any."""
    closure = arguments[0] if arguments else keywords.get("closure")
    if closure is not None:
        raise UsageError(
            "optimizer.step(closure) can't be shared: gradients are summed over the ranks before "
            "the step, and a closure computes them within; call loss.backward() and then "
            "optimizer.step() (LBFGS, which needs a closure, has no place here)"
        )


def check_trained(model: nn.Module, optimizer: Optimizer, reduced: frozenset[int]) -> None:
    """Refuse a gradient that the optimizer is about to use and that no rank would share."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None and id(parameter) not in reduced:
                raise UsageError(
                    f"{_name(model, parameter)} is trained now and was not when the loop began: "
                    "its gradients are not summed over the ranks; let it require gradients from "
                    "the start, and set its .grad to None in the steps that are to leave it alone"
                )


def check_other(model: nn.Module, other: Optimizer) -> None:
    """Refuse the step of an optimizer that was not wrapped and trains the wrapped model."""
    own = {id(parameter) for parameter in model.parameters()}
    if any(id(parameter) in own for group in other.param_groups for parameter in group["params"]):
        raise UsageError(
            f"a second optimizer, {type(other).__name__}, trains the wrapped model: every rank "
            "would step by its own gradients; use one optimizer with several parameter groups"
        )


def _name(model: nn.Module, parameter: Parameter) -> str:
    return next(
        (name for name, known in model.named_parameters() if known is parameter),
        "a parameter that is not the wrapped model's",
    )
