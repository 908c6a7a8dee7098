"""Whose momentum a push is trained with, as workers come and go."""

import torch
from torch import Tensor

from ebbtide.runtime.paramserver.momenta import Momenta


def make(*values: float) -> Momenta:
    return Momenta(common={"dense": torch.tensor(values)})


def common(momenta: Momenta) -> list[float]:
    return momenta.common["dense"].tolist()


def own(momenta: Momenta, client: str) -> Tensor:
    return momenta.choose(client, is_alone=False)["dense"]


def test_a_worker_that_is_alone_uses_what_is_saved() -> None:
    momenta = make(1.0, 2.0)

    assert momenta.choose("a", is_alone=True)["dense"] is momenta.common["dense"]


def test_the_first_of_several_takes_over_and_the_others_begin_at_nothing() -> None:
    momenta = make(1.0, 2.0)

    assert own(momenta, "a").tolist() == [1.0, 2.0]
    assert own(momenta, "b").tolist() == [0.0, 0.0]


def test_what_one_worker_gathers_is_not_seen_by_another() -> None:
    momenta = make(0.0)

    own(momenta, "a").add_(3)
    own(momenta, "b").add_(5)

    assert own(momenta, "a").tolist() == [3.0]
    assert own(momenta, "b").tolist() == [5.0]


def test_what_is_saved_is_the_mean_of_all() -> None:
    momenta = make(0.0)
    own(momenta, "a").add_(3)
    own(momenta, "b").add_(5)

    momenta.gather()

    assert common(momenta) == [4.0]
    assert own(momenta, "a").tolist() == [3.0]


def test_a_worker_that_is_left_alone_goes_on_with_its_own() -> None:
    momenta = make(0.0)
    own(momenta, "a").add_(3)
    own(momenta, "b").add_(5)

    assert momenta.choose("b", is_alone=True)["dense"].tolist() == [5.0]
    assert own(momenta, "a").tolist() == [5.0]


def test_a_newcomer_that_is_alone_goes_on_from_the_mean() -> None:
    momenta = make(0.0)
    own(momenta, "a").add_(3)
    own(momenta, "b").add_(5)

    assert momenta.choose("c", is_alone=True)["dense"].tolist() == [4.0]


def test_the_last_ones_momentum_stays_when_it_goes() -> None:
    momenta = make(0.0)
    own(momenta, "a").add_(3)
    own(momenta, "b").add_(5)

    momenta.drop("a")
    momenta.drop("b")
    momenta.drop("never here")

    assert common(momenta) == [5.0]


def test_an_optimizer_without_momentum_has_none_of_it() -> None:
    momenta = Momenta(common={})

    assert momenta.choose("a", is_alone=False) == {}
    momenta.gather()
    momenta.drop("a")
