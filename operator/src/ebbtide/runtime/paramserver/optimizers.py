"""
SGD, Adagrad, Adam and AdamW on flat buffers and on single rows, as `torch.optim` computes them.

On one worker the result equals torch.optim's within the rounding of float32, whatever the cut:
each rule works element by element. Rows that a sparse gradient does not name stay as they are,
with their state, as in torch's SGD, Adagrad and SparseAdam.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer

from ebbtide.runtime.errors import UsageError
from ebbtide.runtime.paramserver.momenta import MOMENTUM

WARM_UP_EPOCHS: Final = 5  # as Goyal et al. and Hakimi et al. have it

Hyper = dict[str, float]  # what one group of parameters is trained with now
States = dict[str, Tensor]

_KINDS: Final[Mapping[type[Optimizer], str]] = {
    SGD: "sgd",
    Adagrad: "adagrad",
    Adam: "adam",
    AdamW: "adamw",
}
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "sgd": ("lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize"),
    "adagrad": ("lr", "lr_decay", "weight_decay", "eps", "maximize", "initial_accumulator_value"),
    "adam": ("lr", "weight_decay", "eps", "maximize"),
    "adamw": ("lr", "weight_decay", "eps", "maximize"),
}
_STATES: Final[Mapping[str, tuple[str, ...]]] = {
    "sgd": (MOMENTUM,),
    "adagrad": ("sum",),
    "adam": ("exp_avg", "exp_avg_sq"),
    "adamw": ("exp_avg", "exp_avg_sq"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Elements (or rows) of one group: values, their states, and how often they were updated."""

    value: Tensor
    states: States
    times: int  # updates before this one


def kind_of(optimizer: Optimizer) -> str:
    """Return the name of an optimizer that servers can run; `UsageError` for any other."""
    kind = _KINDS.get(type(optimizer))
    if kind is None:
        raise UsageError(
            f"a {type(optimizer).__name__} cannot run on parameter servers; what can: "
            + ", ".join(known.__name__ for known in _KINDS)
        )
    for number, group in enumerate(optimizer.param_groups):
        if group.get("amsgrad"):
            raise UsageError(f"group {number}: amsgrad cannot run on parameter servers")
    return kind


def read_hyper(kind: str, group: Mapping[str, Any]) -> Hyper:
    """Return the numbers that one group of an optimizer is trained with now."""
    hyper = {name: float(group[name]) for name in _FIELDS[kind]}
    if kind in {"adam", "adamw"}:
        hyper["beta1"], hyper["beta2"] = (float(beta) for beta in group["betas"])
        hyper["decoupled"] = float(kind == "adamw" or group.get("decoupled_weight_decay", False))
    return hyper


def read_fields(kind: str) -> tuple[str, ...]:
    """Return the names of the numbers that a group of this kind has; none for an unknown kind."""
    more = ("beta1", "beta2", "decoupled") if kind in {"adam", "adamw"} else ()
    return (*_FIELDS.get(kind, ()), *more)


def state_names(kind: str, groups: list[Hyper]) -> tuple[str, ...]:
    """Return which states a server keeps beside the values: none for SGD without momentum."""
    if kind == "sgd" and not any(hyper["momentum"] for hyper in groups):
        return ()
    return _STATES[kind]


def initial_fill(kind: str, hyper: Hyper) -> float:
    """Return what a state is filled with before the first update."""
    return hyper.get("initial_accumulator_value", 0.0) if kind == "adagrad" else 0.0


def allow_for_peers(kind: str, hyper: Hyper, *, num: int, warmth: float) -> Hyper:
    """
    Return what to train a push with while `num` workers push: SGD warms up, and looks ahead.

    A momentum for each worker remembers its own pushes, which is `num` times as many pushes of all:
    what is stable alone then overshoots, most at the start, where curvature is high. So with
    `warmth`, which is how much of the warm-up is behind, 0 to 1, the effective rate,
    lr / (1 - momentum), grows from 1 / `num` of the script's to all of it, for as many workers
    (Goyal et al., "Accurate, Large Minibatch SGD", 2017). It does so by its momentum, as far as
    that reaches down to nothing, and by the rate for the rest: a low momentum also forgets sooner
    (a momentum that grows: Sutskever et al., "On the importance of initialization and momentum in
    deep learning", 2013; a lower one among several workers: Mitliagkas et al., 2016).

    In Nesterov's form the parameters are where the momentum so far will have led, so a worker that
    takes them computes its gradient nearer to what it meets (`momenta`).
    """
    if kind != "sgd" or num <= 1:
        return hyper
    full = hyper["momentum"]
    least = min(full, max(0.0, 1 - num * (1 - full)))
    share = 1.0 if least > 0 else 1 / (num * (1 - full))
    return {
        **hyper,
        "lr": hyper["lr"] * (share + (1 - share) * warmth),
        "momentum": least + (full - least) * warmth,
        "nesterov": float(hyper["nesterov"] or full > 0),
    }


def warm_up_steps(*, steps: int, samples: int, batch: int) -> float:
    """Return how many pushes the warm-up lasts: five epochs, but no more than a quarter of all."""
    return min(WARM_UP_EPOCHS * samples / max(1, batch), steps / 4)


@torch.no_grad()
def update(kind: str, slot: Slot, gradient: Tensor, hyper: Hyper) -> None:
    """Apply one gradient to values and states in place; `gradient` is used up."""
    if hyper["maximize"]:
        gradient.neg_()
    if hyper["weight_decay"] and not hyper.get("decoupled"):
        gradient.add_(slot.value, alpha=hyper["weight_decay"])
    match kind:
        case "sgd":
            _sgd(slot, gradient, hyper)
        case "adagrad":
            _adagrad(slot, gradient, hyper)
        case _:
            _adam(slot, gradient, hyper)


@torch.no_grad()
def update_rows(kind: str, slot: Slot, *, rows: Tensor, gradient: Tensor, hyper: Hyper) -> None:
    """Apply the gradients of some rows, each named once; the other rows stay as they are."""
    touched = Slot(
        value=slot.value[rows],
        states={name: state[rows] for name, state in slot.states.items()},
        times=slot.times,
    )
    update(kind, touched, gradient, hyper)
    slot.value[rows] = touched.value
    for name, state in touched.states.items():
        slot.states[name][rows] = state


def _sgd(slot: Slot, gradient: Tensor, hyper: Hyper) -> None:
    buffer = slot.states.get(MOMENTUM)
    if buffer is not None:
        if slot.times == 0 or not hyper["momentum"]:
            buffer.copy_(gradient)
        else:
            buffer.mul_(hyper["momentum"]).add_(gradient, alpha=1 - hyper["dampening"])
        if hyper["nesterov"]:
            gradient.add_(buffer, alpha=hyper["momentum"])
        else:
            gradient = buffer
    slot.value.add_(gradient, alpha=-hyper["lr"])


def _adagrad(slot: Slot, gradient: Tensor, hyper: Hyper) -> None:
    rate = hyper["lr"] / (1 + slot.times * hyper["lr_decay"])
    total = slot.states["sum"]
    total.addcmul_(gradient, gradient)
    slot.value.addcdiv_(gradient, total.sqrt().add_(hyper["eps"]), value=-rate)


def _adam(slot: Slot, gradient: Tensor, hyper: Hyper) -> None:
    if hyper["decoupled"]:
        slot.value.mul_(1 - hyper["lr"] * hyper["weight_decay"])
    beta1, beta2, times = hyper["beta1"], hyper["beta2"], slot.times + 1
    mean, square = slot.states["exp_avg"], slot.states["exp_avg_sq"]
    mean.lerp_(gradient, 1 - beta1)
    square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    root = square.sqrt().div_(math.sqrt(1 - beta2**times)).add_(hyper["eps"])
    slot.value.addcdiv_(mean, root, value=-hyper["lr"] / (1 - beta1**times))
