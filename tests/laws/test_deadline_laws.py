"""
A whole job never misses a deadline that on-demand could have kept.

*Could have kept* is meant so. When spot goes, on-demand needs: the time until the loss is seen (a
notice, or until a node counts as lost), one look of the operator (`planSeconds`), and twice the
start that is planned with. What is then left of the work, from the last checkpoint on, takes the
time that the largest legal fleet of on-demand nodes takes for it. A job that has so much time when
its spot nodes go ends before its deadline, even where starts do take twice as long; and a job that
has it, and one start more, when it begins has it as long as it trains.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.core.simulator.virtual.run import Outcome, Run
from ebbtide.core.simulator.virtual.timing import Timing
from ebbtide.core.values.job import Job
from ebbtide.core.values.objective import Objective, PlanMode
from ebbtide.core.values.observed import Observed
from ebbtide.core.values.pool import Pool
from support.builders import ON_DEMAND, SPOT, START, make_job
from support.knowing import Known
from support.virtual import STEP_S, make_loop, nodes

RESTORE_S = 5.0
"""What `Known` says of a load from a checkpoint."""
STALL_S = 1.0
"""How long one save makes training wait."""
JOIN_S = 10.0
"""From a Ready node to a worker that trains."""
SEEN_S = 60.0
"""From the loss of a node until its pod is made again: a notice of 30 s, or a node that is not
Ready for ten, and what the coordinator takes to end what is left."""
NEVER_S = 1e6


@dataclass(frozen=True, kw_only=True)
class Plight:
    """A job, its deadline, and when its spot nodes come and go."""

    job: Job
    start_s: float  # planned with
    times: float  # so many times of that a start takes really
    on_demand: int  # nodes
    gone: tuple[tuple[float, float], ...]  # from, for so many seconds
    warned: bool
    save_s: float  # between checkpoints

    @property
    def pools(self) -> tuple[Pool, ...]:
        return SPOT, replace(ON_DEMAND, max_nodes=self.on_demand)

    @property
    def due(self) -> datetime:
        due = self.job.objective.due(START)
        assert due is not None
        return due

    def on_demand_s(self, steps: float) -> float:
        """How long the largest fleet on demand takes for so many steps."""
        alone_s = steps * STEP_S * (1 + STALL_S / self.save_s)
        return alone_s / min(self.on_demand, self.job.max_replicas)

    @property
    def needed_s(self) -> float:
        return SEEN_S + 2 * (self.start_s + RESTORE_S)

    @property
    def slack_s(self) -> float:
        """Of the job when it begins."""
        return (self.due - START).total_seconds() - self.on_demand_s(self.job.steps)


@st.composite
def plights(draw: st.DrawFn) -> Plight:
    most = draw(st.integers(1, 4))
    on_demand = draw(st.integers(most if draw(st.booleans()) else 1, 4))
    start_s = float(draw(st.sampled_from([30, 60, 180])))
    save_s = float(draw(st.sampled_from([20, 60, 240])))
    least = draw(st.integers(1, min(most, on_demand)))
    steps = draw(st.integers(300, 3600))
    work_s = steps * STEP_S / min(on_demand, most)
    slack_s = 3 * start_s + draw(st.integers(0, 3000))
    gone, at_s = [], 0.0
    for _ in range(draw(st.integers(1, 3))):
        at_s += draw(st.floats(0.02, 1.2)) * work_s
        for_s = draw(st.sampled_from([200.0, 500.0, 1500.0, NEVER_S]))
        gone.append((at_s, for_s))
        if for_s == NEVER_S:
            break
        at_s += for_s
    job = make_job(
        plan_mode=PlanMode.AUTO,
        steps=steps,
        min_replicas=least,
        max_replicas=most,
        on_demand_floor=0,
        checkpoint_interval=timedelta(seconds=save_s),
        objective=Objective(deadline_after=timedelta(seconds=int(work_s + slack_s))),
    )
    return Plight(
        job=job,
        start_s=start_s,
        times=draw(st.sampled_from([1.0, 2.0])),
        on_demand=on_demand,
        gone=tuple(gone),
        warned=draw(st.booleans()),
        save_s=save_s,
    )


def live_through(plight: Plight) -> tuple[Run, list[float]]:
    """Run a job; return with it the slack that it held whenever its spot nodes went."""
    points = [(0.0, 8.0)]
    for at_s, for_s in plight.gone:
        points += [(at_s, 0.0), (at_s + for_s, 8.0)]
    efficiency = (1.0,) * plight.job.max_replicas
    loop = make_loop(
        plight.job,
        pools=plight.pools,
        trace=nodes(spot=tuple(points)),
        timing=Timing(
            silence_s=0.0,
            idle_s=60.0,
            restore_s=RESTORE_S,
            reform_s=1.0,
            stall_s=STALL_S,
            node_s=plight.start_s * plight.times - JOIN_S,
            warned_share=1.0 if plight.warned else 0.0,
        ),
        knowledge=Known(
            samples_per_s={"V100": 64 / STEP_S}, efficiency=efficiency, start_s=plight.start_s
        ),
    )
    held_s = []
    for at_s, _ in plight.gone:
        loop.run_until(START + timedelta(seconds=at_s))
        seen = loop.world.observe()
        if any(pod.pool == SPOT.name and pod.node and not pod.ended for pod in seen.pods):
            left_s = plight.on_demand_s(plight.job.steps - _read_safe_step(seen))
            held_s.append((plight.due - loop.world.agenda.now).total_seconds() - left_s)
    return loop.run(), held_s


def _read_safe_step(seen: Observed) -> int:
    """Return the step from which training goes on if all that is on spot goes now."""
    report = seen.coordinator.report
    if report is None:
        return 0
    stable = {pod.name for pod in seen.pods if pod.pool == ON_DEMAND.name}
    return report.step if stable & set(report.members) else max(report.checkpoint_step, 0)


@settings(max_examples=25)
@given(plights())
def test_a_deadline_that_on_demand_can_keep_is_kept_though_starts_take_twice_as_long(
    plight: Plight,
) -> None:
    found, held_s = live_through(plight)

    assert found.outcome is Outcome.COMPLETE, found.why
    if plight.slack_s >= plight.needed_s:
        assert all(slack_s >= plight.needed_s for slack_s in held_s)
        assert found.finish is not None
        assert found.finish <= plight.due
