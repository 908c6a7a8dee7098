"""Who is let in, who gives way, and what a caller is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ebbtide.wire.frames import prove
from ebbtide.wire.greeting import Strangers, find_fault
from ebbtide.wire.messages import PROTOCOL, Answer

TOKEN = b"secret"


def ask(answer: Answer) -> str:
    return find_fault(
        answer, token=TOKEN, nonce="n", sides=("worker",), caller="10.0.0.7:99", here="coordinator"
    )


def make_answer(
    *, protocol: int = PROTOCOL, side: str = "worker", token: bytes = TOKEN, nonce: str = "n"
) -> Answer:
    digest = prove(token=token, nonce=nonce, side=side)
    return Answer(protocol=protocol, side=side, digest=digest)


def test_who_knows_the_token_is_let_in() -> None:
    assert ask(make_answer()) == ""


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        pytest.param(
            make_answer(protocol=PROTOCOL + 1),
            f"10.0.0.7:99 speaks protocol {PROTOCOL + 1}, this coordinator {PROTOCOL}: use images",
            id="protocol",
        ),
        pytest.param(
            make_answer(token=b"guessed"),
            "the token is wrong: 10.0.0.7:99 did not prove to this coordinator, as 'worker'",
            id="token",
        ),
        pytest.param(make_answer(nonce="old"), "the token is wrong", id="an answer heard before"),
        pytest.param(make_answer(side="reader"), "as 'reader'", id="side"),
    ],
)
def test_who_is_not_let_in_is_told_what_both_sides_have(answer: Answer, told: str) -> None:
    assert told in ask(answer)


@given(some.lists(some.sampled_from("abcd"), max_size=40), some.integers(1, 6))
def test_an_address_gives_way_only_to_one_that_has_less(hosts: list[str], limit: int) -> None:
    strangers: Strangers[int] = Strangers(limit=limit)
    inside: dict[int, str] = {}
    for caller, host in enumerate(hosts):
        loser = strangers.admit(caller, host=host)
        inside[caller] = host
        if loser is None:
            assert len(inside) <= limit
            continue
        busiest = inside.pop(loser)
        held = list(inside.values())
        if loser != caller:
            assert held.count(busiest) >= held.count(host)
            assert loser == min([loser, *(c for c, its in inside.items() if its == busiest)])
        assert len(strangers) == len(inside) == limit


def test_who_is_no_stranger_any_more_makes_a_place() -> None:
    strangers: Strangers[str] = Strangers(limit=1)
    strangers.admit("first", host="a")
    assert strangers.admit("second", host="a") == "second"

    strangers.dismiss("first")

    assert strangers.admit("third", host="a") is None
