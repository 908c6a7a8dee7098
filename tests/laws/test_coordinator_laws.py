"""Whatever happens to members and coordinator, in whatever order, these hold."""

from collections import Counter

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from typing_extensions import override

from ebbtide.wire.messages import Form, WorkSpec
from ebbtide.wire.names import GENERATIONS_PER_ATTEMPT
from support.fake_members import Members, Proc, break_collective

indices = st.integers(0, 3)
picks = st.integers(0, 10_000)


class CoordinatorMachine(RuleBasedStateMachine):
    """Random joins, losses, leaves, reconnects, restarts and delays."""

    @initialize(
        minimum=st.integers(1, 2), more=st.integers(0, 2), steps=st.sampled_from([40, 1_000_000])
    )
    def begin(self, minimum: int, more: int, steps: int) -> None:
        self.work = WorkSpec(
            job="default/law",
            steps=steps,
            global_batch_size=8,
            min_replicas=minimum,
            desired=minimum + more,
        )
        self.members = Members(self.work)
        self.members.on_form = self.check_form
        self.attempts: Counter[int] = Counter()
        self.newest_number = 0
        self.expelled: set[str] = set()
        for index in range(minimum + more):
            self.attempts[index] += 1
            self.members.join(index, attempt=1, processes=1 + index % 2)
        self.members.run(1.0)

    def is_crowded(self) -> bool:
        """Enough are there for one to be taken away."""
        return len({proc.worker for proc in self.members.alive()}) > self.work.min_replicas

    def pick(self, number: int) -> Proc | None:
        alive = self.members.alive()
        return alive[number % len(alive)] if alive else None

    # ------------------------------------------------------------ what may happen

    @rule(index=indices, processes=st.integers(1, 2))
    def join(self, index: int, processes: int) -> None:
        if len(self.members.alive()) < 10:
            self.attempts[index] += 1
            self.members.join(index, attempt=self.attempts[index], processes=processes)

    @precondition(is_crowded)
    @rule(number=picks)
    def kill(self, number: int) -> None:
        if proc := self.pick(number):
            self.members.kill(proc.worker)

    @rule(number=picks)
    def cut(self, number: int) -> None:
        if proc := self.pick(number):
            self.members.cut(proc)

    @rule(number=picks)
    def reconnect(self, number: int) -> None:
        if proc := self.pick(number):
            self.members.connect(proc)

    @precondition(is_crowded)
    @rule(number=picks)
    def leave(self, number: int) -> None:
        if proc := self.pick(number):
            self.members.leave(proc.worker)

    @precondition(is_crowded)
    @rule(number=picks)
    def stop(self, number: int) -> None:
        if proc := self.pick(number):
            self.members.call("stop", worker=proc.worker, seconds=10.0)

    @rule(number=picks, on=st.booleans())
    def warn(self, number: int, *, on: bool) -> None:
        if proc := self.pick(number):
            self.members.call("warn", worker=proc.worker, on=on)

    @precondition(is_crowded)
    @rule(number=picks)
    def expel(self, number: int) -> None:
        if proc := self.pick(number):
            self.expelled.add(proc.worker)
            self.members.call("expel", worker=proc.worker)

    @rule(number=picks)
    def break_one(self, number: int) -> None:
        proc = self.pick(number)
        if proc and proc.phase == "busy" and proc.link:
            break_collective(self.members, proc)

    @precondition(lambda self: self.members.attempt < 4)
    @rule()
    def restart(self) -> None:
        self.members.restart()
        for worker in self.expelled:  # the operator tells every new coordinator
            self.members.call("expel", worker=worker)

    @rule(desired=st.integers(1, 4))
    def resize(self, desired: int) -> None:
        minimum = self.work.min_replicas
        self.work = msgspec.structs.replace(self.work, desired=max(minimum, desired))
        self.members.configure(self.work)

    @rule(number=picks)
    def say(self, number: int) -> None:
        if proc := self.pick(number):
            self.members.say(proc)

    @rule(number=picks)
    def tell(self, number: int) -> None:
        if proc := self.pick(number):
            self.members.tell(proc)

    @rule(number=picks)
    def beat(self, number: int) -> None:
        proc = self.pick(number)
        if proc and proc.link:
            self.members.beat(proc)

    @rule()
    def step(self) -> None:
        self.members.step()

    @rule()
    def save(self) -> None:
        self.members.save()

    @rule()
    def deliver(self) -> None:
        self.members.deliver()

    @rule(seconds=st.sampled_from([0.05, 0.25, 1.5, 4.0]))
    def pass_time(self, seconds: float) -> None:
        self.members.pass_time(seconds)

    @rule(seconds=st.sampled_from([0.5, 3.0]))
    def run(self, seconds: float) -> None:
        self.members.run(seconds)

    # ------------------------------------------------------------ what must hold

    def check_form(self, form: Form) -> None:
        assert form.generation > self.newest_number
        assert form.generation < (self.members.attempt + 1) * GENERATIONS_PER_ATTEMPT
        self.newest_number = form.generation
        names = [member.worker for member in form.members]
        assert len(names) >= self.work.min_replicas
        assert not self.expelled & set(names)
        assert max(Counter(name.split("-")[1] for name in names).values()) == 1
        ranks = [proc for name in names for proc in self.members.of(name)]
        assert len(ranks) == form.world_size
        assert all(proc.link for proc in ranks)
        assert all(proc.phase in {"idle", "reached"} for proc in ranks)
        assert not any(proc.told_leaving for proc in ranks)
        self.check_source(form, ranks)
        self.check_nobody_else_is_busy(form)

    def check_source(self, form: Form, ranks: list[Proc]) -> None:
        newest = max((proc.step for proc in ranks if proc.holds_state), default=-1)
        source = ranks[form.source_rank]
        if form.source == "memory":
            assert source.holds_state
            assert source.step == form.step == newest
        else:
            assert form.step > newest or form.step == 0
            known = max(proc.checkpoint_step for proc in ranks)
            assert form.step == max(self.members.ledger.state.checkpoints.step, known, 0)
            assert form.step <= max(self.members.disk, 0)
        agree = all(proc.holds_state and proc.step == form.step for proc in ranks)
        assert form.sync or agree

    def check_nobody_else_is_busy(self, form: Form) -> None:
        """Of those that were never missed, nobody trains in the generation before."""
        before = self.members.ledger.state.formed
        if before is None:
            return
        for worker in self.members.ledger.state.eligible():
            was_missed = any(
                proc.worker == worker.name and proc.strayed == before.number
                for proc in self.members.procs
            )
            for process in worker.processes.values():
                assert was_missed or not process.is_busy_in(before.number)

    @invariant()
    def at_most_one_worker_may_save(self) -> None:
        assert len(self.members.holders()) <= 1

    @override
    def teardown(self) -> None:
        """Left alone, with everybody well, the job goes on or waits for a stated reason."""
        if not hasattr(self, "members"):
            return
        self.members.run(20.0)
        state = self.members.ledger.state
        if state.finished:
            return
        able = {w.index for w in state.workers.values() if w.is_eligible}
        if len(able) >= self.work.min_replicas:
            current = state.current
            assert current is not None
            assert current.formed_at is not None
            assert current.ending is None
            assert len(current.names) == min(len(able), self.work.desired)
            assert self.members.holders() == [state.lease.holder]


def test_the_laws_of_membership_hold_for_any_order_of_events() -> None:
    run_state_machine_as_test(
        CoordinatorMachine,
        settings=settings(
            max_examples=150,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
