"""Every step is applied once whoever comes and goes, and no gradient is older than the bound."""

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.runtime.paramserver.tickets import Tickets

CLIENTS = "abcdef"
EVENTS = st.lists(
    st.tuples(st.sampled_from(["take", "push", "drop"]), st.sampled_from(CLIENTS)), max_size=200
)


def play(book: Tickets, events: list[tuple[str, str]]) -> list[tuple[int, int]]:
    """Play what clients do; return the step and staleness of each push that was applied."""
    applied = []
    for event, client in events:
        if event == "drop":
            book.drop(client)
        elif event == "take" and client not in book.out:
            book.hand_out(client)
        elif event == "push" and client in book.out and not book.must_wait(client):
            applied.append((book.out[client].step, book.staleness(client)))
            book.apply(client)
    return applied


def finish(book: Tickets) -> list[tuple[int, int]]:
    """Let all who are still at work come in, oldest first, then one do the rest."""
    applied = []
    while not book.is_done:
        if not book.out:
            book.hand_out("z")
        oldest = max(book.out, key=book.staleness)
        assert not book.must_wait(oldest)
        applied.append((book.out[oldest].step, book.staleness(oldest)))
        book.apply(oldest)
    return applied


@given(events=EVENTS, steps=st.integers(1, 40), bound=st.none() | st.integers(0, 6))
def test_each_step_is_applied_exactly_once_and_none_is_too_old(
    events: list[tuple[str, str]], steps: int, bound: int | None
) -> None:
    book = Tickets(steps=steps, max_staleness=bound)

    applied = play(book, events) + finish(book)

    assert sorted(step for step, _ in applied) == list(range(steps))
    assert book.version == book.num_applied == book.floor == steps
    if bound is not None:
        assert max(staleness for _, staleness in applied) <= bound


@given(events=EVENTS, steps=st.integers(1, 40))
def test_two_never_work_on_one_step(events: list[tuple[str, str]], steps: int) -> None:
    book = Tickets(steps=steps)

    for event in events:
        play(book, [event])

        out = [outing.step for outing in book.out.values()]
        assert len(out) == len(set(out))
        assert not any(book.is_applied(step) for step in out)


@given(events=EVENTS)
def test_b076_a_gradient_far_older_than_its_peers_counts_less(
    events: list[tuple[str, str]],
) -> None:
    book = Tickets(steps=1000)
    book.hand_out("late")

    for _ in range(20):
        book.hand_out("quick")
        book.apply("quick")

    assert book.staleness("late") == 20
    assert book.weight("late") == 1 / 21
    book.hand_out("quick")
    assert book.weight("quick") == 1.0


def test_b076_a_worker_that_was_given_up_pushes_nothing_when_it_returns() -> None:
    book = Tickets(steps=10)
    step = book.hand_out("away")
    book.drop("away")
    again = book.hand_out("other")

    assert step == again == 0
    assert not book.is_owner("away", 0)
    assert book.is_owner("other", 0)


def test_with_a_bound_of_nothing_workers_take_turns() -> None:
    book = Tickets(steps=10, max_staleness=0)

    assert book.hand_out("a") == 0
    assert book.hand_out("b") is None
    book.apply("a")
    assert book.hand_out("b") == 1


def test_a_restart_goes_on_where_the_state_stands() -> None:
    book = Tickets(steps=10)
    book.hand_out("a")

    book.restart(floor=3, ahead=[4], version=4)

    assert book.num_applied == 4
    assert [book.hand_out(client) for client in "abc"] == [3, 5, 6]
    book.keep_out("d", step=7, version=2)
    assert book.staleness("d") == 2
    book.keep_out("e", step=4, version=2)
    assert "e" not in book.out


def test_at_work_are_those_with_a_step_and_who_asks() -> None:
    book = Tickets(steps=10)
    book.hand_out("a")

    assert book.num_at_work("a") == 1
    assert book.num_at_work("b") == 2
