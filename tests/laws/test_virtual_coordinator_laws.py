"""The coordinator of virtual worlds does what the real one does, whatever happens to members."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.simulator.virtual.agenda import Agenda, seconds
from ebbtide.core.simulator.virtual.coordinator import Coordinator
from ebbtide.core.simulator.virtual.hands import Hand
from ebbtide.core.simulator.virtual.progress import Tally
from ebbtide.core.simulator.virtual.timing import Timing
from ebbtide.wire.messages import Report, WorkSpec
from support.builders import START
from support.fake_members import Members

REST_S = 4.0
"""Until everything that an act brings about has happened."""
PRESENT = ("member", "spare", "joining")
ACTS = ("join", "kill", "leave", "stop", "warn", "calm", "expel", "shrink", "grow")


@dataclass
class Site:
    """A world in which processes do as they are told, at the pace of `Members`."""

    agenda: Agenda = field(default_factory=lambda: Agenda(START))
    timing: Timing = field(
        default_factory=lambda: Timing(reform_s=0.3, restore_s=0.3, commit_s=0.1)
    )
    tally: Tally = field(default_factory=Tally)
    coordinator: Coordinator | None = None

    def rate(self, workers: tuple[str, ...]) -> float:
        """Return four steps per second, whoever trains."""
        return 4.0 if workers else 0.0

    def leave(self, worker: str, code: int) -> None:
        """Let a process end."""
        self.agenda.after(0.1, lambda: self._end(worker, code))

    def tell(self) -> None:
        """Nobody listens."""

    def _end(self, worker: str, code: int) -> None:
        if self.coordinator is not None and code >= 0:
            self.coordinator.gone(worker, by_choice=True)


class Both:
    """The real ledger with its processes, and the model, told the same."""

    def __init__(self, work: WorkSpec) -> None:
        self.work = work
        self.real = Members(work)
        self.site = Site()
        self.model = Coordinator(self.site, attempt=1, work=work)
        self.site.coordinator = self.model
        self.attempts: dict[int, int] = {}

    def play(self, act: str, number: int) -> None:
        """Have one thing happen to both, and let it take effect."""
        names = sorted({proc.worker for proc in self.real.alive()})
        name = names[number % len(names)] if names else ""
        match act:
            case "join":
                self.join(number % 4)
            case "shrink" | "grow":
                self.resize(self.work.desired + (1 if act == "grow" else -1))
            case _ if name:
                self.touch(act, name)
            case _:
                pass
        self.rest()

    def join(self, index: int) -> None:
        """Have a further attempt of an index come."""
        attempt = self.attempts[index] = self.attempts.get(index, 0) + 1
        self.real.join(index, attempt=attempt)
        name = f"w-{index}-{attempt}"
        self.model.join(Hand(name=name, index=index, attempt=attempt))
        self.model.ready(name)

    def resize(self, desired: int) -> None:
        """Ask for another number of workers, within what is legal."""
        desired = max(self.work.min_replicas, min(desired, 4))
        fields = {name: getattr(self.work, name) for name in self.work.__struct_fields__}
        self.work = WorkSpec(**fields | {"desired": desired})
        self.real.configure(self.work)
        self.model.configure(self.work)

    def touch(self, act: str, name: str) -> None:
        """Do something to one worker."""
        match act:
            case "kill":
                self.real.kill(name)
                self.model.gone(name, by_choice=False)
            case "leave":
                self.real.leave(name)
                self.model.leave(name, self.site.agenda.now + seconds(10.0))
            case "stop":
                self.real.call("stop", worker=name, seconds=10.0)
                self.model.leave(name, self.site.agenda.now + seconds(10.0))
            case "expel":
                self.real.call("expel", worker=name)
                self.model.expel(name)
            case _:
                self.real.call("warn", worker=name, on=act == "warn")
                self.model.warn(name, on=act == "warn")

    def rest(self) -> None:
        """Let time pass in both."""
        self.real.run(REST_S)
        self.site.agenda.advance(self.site.agenda.now + seconds(REST_S))


def summary(report: Report) -> dict[str, object]:
    """Return what the operator decides by."""
    there = {w.worker: (w.state, w.warned) for w in report.workers if w.state in PRESENT}
    return {
        "training": report.training,
        "members": report.members if report.training else (),
        "workers": there,
    }


@given(
    minimum=st.integers(1, 2),
    more=st.integers(0, 2),
    script=st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 9)), max_size=10),
)
def test_members_and_spares_are_those_of_the_real_coordinator(
    minimum: int, more: int, script: list[tuple[str, int]]
) -> None:
    both = Both(
        WorkSpec(
            job="default/law",
            steps=10**6,
            global_batch_size=8,
            min_replicas=minimum,
            desired=minimum + more,
            checkpoint_interval=1.0,
        )
    )
    for index in range(minimum + more):
        both.join(index)
    both.rest()
    for act, number in script:
        both.play(act, number)

        assert summary(both.model.report()) == summary(both.real.ledger.report()), act
