"""Members whose scripts run on their own terms: no steps are told, only starts and ends."""

from dataclasses import dataclass, field

from ebbtide.coordinator.ledger import Ledger
from ebbtide.coordinator.outbox import Outbox
from ebbtide.wire.messages import (
    Broken,
    Call,
    Dismissed,
    Form,
    Formed,
    FromWorker,
    Idle,
    Leaving,
    Message,
    Reached,
    Reform,
    Register,
    Released,
    WorkSpec,
)

REGROUP = 30.0


@dataclass(slots=True)
class Agents:
    """A ledger, and agents that do as told; links are numbered by index and attempt."""

    work: WorkSpec
    now: float = 100.0
    inboxes: dict[int, list[Message]] = field(default_factory=dict)
    ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        self.ledger = Ledger(attempt=1, work=self.work, now=self.now, epoch=0.0)

    def join(self, index: int, *, attempt: int = 1) -> int:
        link = 10 * index + attempt
        self.inboxes[link] = []
        self._take(
            self.ledger.register(
                link,
                Register(
                    worker=f"w-{index}-{attempt}",
                    index=index,
                    attempt=attempt,
                    local_rank=0,
                    processes=1,
                    address=f"10.0.0.{index}",
                    store_port=1000,
                ),
                now=self.now,
            )
        )
        self.say(link, Idle(generation=0, step=0, holds_state=False))
        return link

    def say(self, link: int, message: FromWorker) -> None:
        self._take(self.ledger.hear(link, message, now=self.now))

    def stand(self, *links: int) -> int:
        """Have agents say that the newest generation stands; return its number."""
        for link in links:
            self.say(link, Formed(generation=self.form(link).generation, step=0))
        return self.form(links[0]).generation

    def hold_still(self, *links: int) -> None:
        for link in links:
            self.say(link, Idle(generation=self.form(link).generation, step=0, holds_state=False))

    def lose(self, link: int) -> None:
        self._take(self.ledger.lose(link, now=self.now))

    def wait(self, seconds: float) -> None:
        """Let time pass; everybody's heart beats on."""
        for process in self.ledger.state.processes():
            process.heard_at = self.now + seconds
        self.now += seconds
        self._take(self.ledger.tick(now=self.now))

    def is_finished(self) -> bool:
        return self.ledger.is_finished

    def form(self, link: int) -> Form:
        return next(m for m in reversed(self.inboxes[link]) if isinstance(m, Form))

    def forms(self, link: int) -> int:
        return sum(isinstance(m, Form) for m in self.inboxes[link])

    def _take(self, out: Outbox) -> None:
        for send in out.sends:
            self.inboxes.get(send.link, []).append(send.message)


def make_agents(*, least: int = 2, desired: int = 2) -> Agents:
    return Agents(
        WorkSpec(
            job="team/job",
            steps=0,
            global_batch_size=0,
            min_replicas=least,
            desired=desired,
            regroup=REGROUP,
        )
    )


def test_scripts_without_steps_can_be_configured() -> None:
    agents = make_agents()

    error, _ = agents.ledger.call(
        Call(id=1, name="configure", work=make_agents(desired=3).work), now=agents.now
    )

    assert error == ""


def test_the_first_generation_waits_for_all_but_not_for_ever() -> None:
    agents = make_agents(least=1, desired=2)
    first = agents.join(0)

    agents.wait(REGROUP - 1)
    assert agents.forms(first) == 0

    agents.wait(2.0)
    assert agents.form(first).world_size == 1


def test_with_everybody_there_it_forms_at_once() -> None:
    agents = make_agents()

    first, second = agents.join(0), agents.join(1)

    assert agents.form(first) == agents.form(second)


def test_a_lost_member_is_named_to_the_others() -> None:
    agents = make_agents()
    first, second = agents.join(0), agents.join(1)
    number = agents.stand(first, second)

    agents.lose(second)

    assert agents.inboxes[first][-1] == Reform(generation=number, hard=True, cause="w-1-1")


def test_who_reports_a_broken_collective_first_is_to_blame() -> None:
    agents = make_agents()
    first, second = agents.join(0), agents.join(1)
    number = agents.stand(first, second)

    agents.say(second, Broken(generation=number, error="rank 1 exited 1"))
    agents.say(first, Broken(generation=number, error="connection reset"))

    word = Reform(generation=number, hard=True, cause="w-1-1")
    assert agents.inboxes[first][-1] == agents.inboxes[second][-1] == word


def test_survivors_go_on_at_once_and_take_newcomers_in_later() -> None:
    agents = make_agents(least=1, desired=2)
    first, second = agents.join(0), agents.join(1)
    agents.stand(first, second)
    agents.lose(second)
    agents.hold_still(first)
    assert agents.form(first).world_size == 1
    number = agents.stand(first)

    agents.join(1, attempt=2)
    agents.wait(REGROUP - 1)
    assert agents.form(first).generation == number

    agents.wait(2.0)
    assert agents.inboxes[first][-1] == Reform(generation=number, hard=False, cause="w-1-2")


def test_the_work_is_done_when_every_member_has_come_to_the_end() -> None:
    agents = make_agents()
    first, second = agents.join(0), agents.join(1)
    agents.stand(first, second)

    agents.say(first, Reached(step=0))
    assert not agents.is_finished()

    agents.say(second, Reached(step=0))
    assert agents.is_finished()
    assert isinstance(agents.inboxes[first][-1], Released)


def test_who_was_done_runs_once_more_when_another_was_lost_before_its_end() -> None:
    agents = make_agents()
    first, second = agents.join(0), agents.join(1)
    agents.stand(first, second)
    agents.say(first, Reached(step=0))

    agents.lose(second)
    again = agents.join(1, attempt=2)

    assert not agents.is_finished()
    assert agents.forms(first) == 2
    assert agents.form(again) == agents.form(first)


def test_who_comes_after_the_end_is_released_at_once() -> None:
    agents = make_agents()
    first, second = agents.join(0), agents.join(1)
    agents.stand(first, second)
    for link in (first, second):
        agents.say(link, Reached(step=0))

    late = agents.join(1, attempt=2)

    assert isinstance(agents.inboxes[late][-1], Released)


def test_a_leaver_ends_the_generation_softly_and_is_dismissed_without_a_save() -> None:
    agents = make_agents(least=1)
    first, second = agents.join(0), agents.join(1)
    number = agents.stand(first, second)

    agents.say(second, Leaving(seconds_left=10.0))
    assert agents.inboxes[first][-1] == Reform(generation=number, hard=False, cause="w-1-1")
    agents.hold_still(first, second)

    assert agents.inboxes[second][-1] == Dismissed(save=False)
    assert agents.form(first).world_size == 1


def test_nobody_holds_checkpoint_duty() -> None:
    agents = make_agents()
    agents.stand(agents.join(0), agents.join(1))

    assert agents.ledger.report().duty == ""


def test_b048_a_polite_leaver_closes_nothing_and_comes_back() -> None:
    agents = make_agents(least=1, desired=3)
    links = [agents.join(index) for index in range(3)]
    agents.stand(*links)
    agents.say(links[0], Leaving(seconds_left=10.0))
    agents.hold_still(*links)
    agents.lose(links[0])
    agents.stand(*links[1:])
    assert agents.form(links[1]).world_size == 2

    back = agents.join(0, attempt=2)
    agents.wait(REGROUP + 1)
    agents.hold_still(*links[1:])

    assert agents.form(back).world_size == 3


def test_b055_an_agent_that_died_while_it_waited_is_in_no_generation() -> None:
    agents = make_agents(least=2, desired=2)
    ghost = agents.join(0)
    agents.lose(ghost)

    second, third = agents.join(1), agents.join(2)

    assert agents.forms(ghost) == 0
    assert [m.worker for m in agents.form(second).members] == ["w-1-1", "w-2-1"]
    assert agents.form(third) == agents.form(second)
