from ebbtide.runtime.watchdog import LEAVE_SECONDS, SHUT_SECONDS, Watchdog


class Bench:
    """A watchdog whose clock is the test's."""

    def __init__(self) -> None:
        self.overdue = True
        self.done: list[str] = []
        self.dog = Watchdog(
            overdue=lambda: self.overdue,
            shut=lambda: self.done.append("shut"),
            leave=lambda: self.done.append("leave"),
        )


def test_a_call_that_is_not_overdue_may_last() -> None:
    bench = Bench()
    bench.overdue = False
    with bench.dog.watching():
        bench.dog.look(now=0.0)
        bench.dog.look(now=1000.0)

    assert bench.done == []


def test_what_is_overdue_is_shut_first_and_left_at_last() -> None:
    bench = Bench()
    with bench.dog.watching():
        bench.dog.look(now=0.0)
        bench.dog.look(now=SHUT_SECONDS)
        bench.dog.look(now=LEAVE_SECONDS)

    assert bench.done == ["shut", "leave"]


def test_outside_of_a_call_nothing_is_overdue() -> None:
    bench = Bench()
    bench.dog.look(now=0.0)
    bench.dog.look(now=1000.0)

    assert bench.done == []


def test_the_next_call_begins_anew() -> None:
    bench = Bench()
    with bench.dog.watching():
        bench.dog.look(now=0.0)
    bench.dog.look(now=5.0)
    with bench.dog.watching():
        bench.dog.look(now=20.0)

    assert bench.done == []
