"""The servers' optimizers are torch.optim's, whatever the cut over servers."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer, SparseAdam

from ebbtide.runtime.errors import UsageError
from ebbtide.runtime.paramserver.momenta import MOMENTUM, Momenta
from ebbtide.runtime.paramserver.optimizers import (
    Slot,
    allow_for_peers,
    initial_fill,
    kind_of,
    read_hyper,
    state_names,
    update,
    update_rows,
    warm_up_steps,
)
from ebbtide.runtime.paramserver.spaces import bounds

Make = Callable[[list[Tensor]], Optimizer]
SIZE = 37


def case(kind: type[Optimizer], **settings: Any) -> Any:
    text = ", ".join(f"{name}={value}" for name, value in settings.items())
    return pytest.param(lambda given: kind(given, **settings), id=f"{kind.__name__}({text})")


MAKES = [
    case(SGD, lr=0.1),
    case(SGD, lr=0.1, momentum=0.9),
    case(SGD, lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.01),
    case(SGD, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01, maximize=True),
    case(Adagrad, lr=0.1),
    case(Adagrad, lr=0.1, lr_decay=0.1, weight_decay=0.01, initial_accumulator_value=0.2),
    case(Adam, lr=0.1),
    case(Adam, lr=0.1, betas=(0.8, 0.95), weight_decay=0.1, maximize=True),
    case(AdamW, lr=0.1, weight_decay=0.1),
]


class Flat:
    """What servers hold of one group, each its part."""

    def __init__(self, optimizer: Optimizer, values: Tensor, *, servers: int) -> None:
        self.kind = kind_of(optimizer)
        self.optimizer = optimizer
        self.value = values.clone()
        fill = initial_fill(self.kind, self.hyper)
        names = state_names(self.kind, [self.hyper])
        self.states = {name: torch.full_like(values, fill) for name in names}
        self.cuts = [bounds(len(values), servers=servers, place=n) for n in range(servers)]
        self.times = 0

    @property
    def hyper(self) -> dict[str, float]:
        return read_hyper(self.kind, self.optimizer.param_groups[0])

    def push(self, gradient: Tensor) -> None:
        for start, stop in self.cuts:
            slot = Slot(
                value=self.value[start:stop],
                states={name: state[start:stop] for name, state in self.states.items()},
                times=self.times,
            )
            update(self.kind, slot, gradient[start:stop].clone(), self.hyper)
        self.times += 1


@pytest.mark.parametrize("make", MAKES)
@given(seed=st.integers(0, 2**31), servers=st.integers(1, 5), steps=st.integers(1, 8))
def test_a_run_over_servers_ends_where_torch_does(
    make: Make, seed: int, servers: int, steps: int
) -> None:
    chance = torch.Generator().manual_seed(seed)
    parameter = torch.nn.Parameter(torch.randn(SIZE, generator=chance))
    optimizer = make([parameter])
    flat = Flat(optimizer, parameter.detach(), servers=servers)

    for step in range(steps):
        gradient = torch.randn(SIZE, generator=chance)
        optimizer.param_groups[0]["lr"] = 0.1 / (step + 1)  # as a schedule does
        flat.push(gradient)
        parameter.grad = gradient
        optimizer.step()

    torch.testing.assert_close(flat.value, parameter.detach(), rtol=1e-5, atol=1e-6)


ROW_CASES = [
    pytest.param(lambda given: SGD(given, lr=0.1), lambda given: SGD(given, lr=0.1), id="SGD"),
    pytest.param(
        lambda given: Adagrad(given, lr=0.1), lambda given: Adagrad(given, lr=0.1), id="Adagrad"
    ),
    pytest.param(
        lambda given: SparseAdam(given, lr=0.1), lambda given: Adam(given, lr=0.1), id="Adam"
    ),
]


@pytest.mark.parametrize(("theirs", "ours"), ROW_CASES)
@given(seed=st.integers(0, 2**31), steps=st.integers(1, 6))
def test_rows_are_updated_as_torch_updates_sparse_gradients(
    theirs: Make, ours: Make, seed: int, steps: int
) -> None:
    chance = torch.Generator().manual_seed(seed)
    table = torch.nn.Parameter(torch.randn(11, 3, generator=chance))
    optimizer = theirs([table])
    flat = Flat(ours([table]), table.detach(), servers=1)

    for _ in range(steps):
        rows = torch.randperm(11, generator=chance)[:4]
        gradient = torch.randn(4, 3, generator=chance)
        slot = Slot(value=flat.value, states=flat.states, times=flat.times)
        update_rows(flat.kind, slot, rows=rows, gradient=gradient.clone(), hyper=flat.hyper)
        flat.times += 1
        with torch.sparse.check_sparse_tensor_invariants():
            table.grad = torch.sparse_coo_tensor(rows.unsqueeze(0), gradient, table.shape)
            optimizer.step()

    # SparseAdam adds epsilon before it corrects for the first steps, Adam after: about 1e-5.
    torch.testing.assert_close(flat.value, table.detach(), rtol=1e-4, atol=1e-4)


LOST = 1e3  # further away than anything that comes back
HEAVY = {"momentum": 0.9, "lr": 0.1, "nesterov": 0.0}


def effective(hyper: Mapping[str, float]) -> float:
    """How far one gradient moves the parameters in the end."""
    return hyper["lr"] / (1 - hyper["momentum"])


@given(num=st.integers(2, 64), momentum=st.floats(0, 0.99), warmth=st.floats(0, 1))
def test_b076_workers_among_peers_warm_up_to_the_rate_and_momentum_of_the_script(
    num: int, momentum: float, warmth: float
) -> None:
    script = {**HEAVY, "momentum": momentum}

    cold = allow_for_peers("sgd", script, num=num, warmth=0)
    found = allow_for_peers("sgd", script, num=num, warmth=warmth)
    warm = allow_for_peers("sgd", script, num=num, warmth=1)

    assert effective(cold) == pytest.approx(effective(script) / num)
    assert (warm["lr"], warm["momentum"]) == pytest.approx((0.1, momentum))
    for key in ("lr", "momentum"):
        assert cold[key] - 1e-12 <= found[key] <= warm[key] + 1e-12
    assert found["nesterov"] == float(momentum > 0)


@pytest.mark.parametrize(
    ("num", "rate", "momentum"),
    [
        pytest.param(4, 0.1, 0.6, id="momentum alone reaches far enough"),
        pytest.param(20, 0.05, 0.0, id="the rate does the rest"),
    ],
)
def test_a_warm_up_lowers_momentum_first(num: int, rate: float, momentum: float) -> None:
    cold = allow_for_peers("sgd", HEAVY, num=num, warmth=0)

    assert (cold["lr"], cold["momentum"]) == pytest.approx((rate, momentum))


def test_a_momentum_that_never_forgets_is_left_as_it_is() -> None:
    script = {**HEAVY, "momentum": 1.0}

    assert allow_for_peers("sgd", script, num=4, warmth=0) == {**script, "nesterov": 1.0}


def descend(curvature: float, *, workers: int, pushes: int = 4000) -> float:
    """How far from its lowest point a parabola is left by workers who push in turn."""
    value = torch.ones(1, dtype=torch.float64)
    momenta = Momenta(common={"dense": torch.zeros(1, dtype=torch.float64)})
    hyper = {**HEAVY, "lr": 1.0, "dampening": 0.0, "weight_decay": 0.0, "maximize": 0.0}
    hyper = allow_for_peers("sgd", hyper, num=workers, warmth=1)
    taken = [value.clone() for _ in range(workers)]
    for push in range(pushes):
        place = push % workers
        own = momenta.choose(str(place), is_alone=workers == 1)["dense"]
        slot = Slot(value=value, states={MOMENTUM: own}, times=push)
        update("sgd", slot, curvature * taken[place], hyper)
        taken[place] = value.clone()
        if abs(float(value)) > LOST:
            break
    return abs(float(value))


@pytest.mark.parametrize(
    ("workers", "stable", "unstable"),
    [(1, 3.7, 3.9), (2, 0.5, 0.6), (4, 0.2, 0.24), (8, 0.09, 0.11)],
)
def test_more_workers_are_stable_at_lower_curvature_only(
    workers: int, stable: float, unstable: float
) -> None:
    assert descend(stable, workers=workers) < 0.01
    assert descend(unstable, workers=workers) > LOST


@pytest.mark.parametrize("warmth", [0, 0.5, 1])
def test_one_worker_trains_as_the_script_says(warmth: float) -> None:
    assert allow_for_peers("sgd", HEAVY, num=1, warmth=warmth) == HEAVY


def test_optimizers_that_scale_each_gradient_are_left_as_they_are() -> None:
    assert allow_for_peers("adam", {"lr": 0.1}, num=4, warmth=0) == {"lr": 0.1}


def test_plain_descent_warms_up_and_has_nothing_to_look_ahead_along() -> None:
    plain = {"momentum": 0.0, "lr": 0.1, "nesterov": 0.0}

    assert allow_for_peers("sgd", plain, num=4, warmth=1) == plain


@pytest.mark.parametrize(
    ("steps", "samples", "expected"),
    [
        pytest.param(64_000, 50_000, 5 * 50_000 / 100, id="five epochs"),
        pytest.param(1_000, 50_000, 250, id="a quarter of a short job"),
        pytest.param(0, 50_000, 0, id="none of no steps"),
    ],
)
def test_the_warm_up_is_five_epochs_or_a_quarter(steps: int, samples: int, expected: float) -> None:
    assert warm_up_steps(steps=steps, samples=samples, batch=100) == expected


def test_only_plain_momentum_needs_no_state() -> None:
    parameter = [torch.zeros(2, requires_grad=True)]
    plain, heavy = SGD(parameter, lr=1.0), SGD(parameter, lr=1.0, momentum=0.5)

    assert state_names("sgd", [read_hyper("sgd", plain.param_groups[0])]) == ()
    assert state_names("sgd", [read_hyper("sgd", heavy.param_groups[0])]) == ("momentum_buffer",)


def test_an_optimizer_that_servers_cannot_run_is_refused_by_name() -> None:
    parameter = [torch.zeros(2, requires_grad=True)]

    with pytest.raises(UsageError, match=r"a RMSprop cannot run .* SGD, Adagrad, Adam, AdamW"):
        kind_of(torch.optim.RMSprop(parameter))
    with pytest.raises(UsageError, match="group 0: amsgrad"):
        kind_of(Adam(parameter, amsgrad=True))
