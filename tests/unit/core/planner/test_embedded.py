"""Answers of the embedded models, asked again and again."""

from dataclasses import replace
from datetime import timedelta

from ebbtide.core.planner.knowledge import Workload
from ebbtide.core.values.plan import Measured
from ebbtide.core.values.workload import Profile, StepTime
from ebbtide.data.knowledge import embedded_knowledge
from support.builders import ON_DEMAND, SPOT, make_job

POOLS = (SPOT, ON_DEMAND)
LINE = tuple(StepTime(gpu="V100", local_batch=n, seconds=0.01 + 0.002 * n) for n in (16, 32, 64))
PROFILE = Profile(workload="mine", step_times=LINE)
KNOWLEDGE = embedded_knowledge(start=timedelta(seconds=180))


def test_the_same_question_has_the_same_answer_without_being_worked_out_again() -> None:
    asked = Workload(job=make_job(), profile=PROFILE)

    first = KNOWLEDGE.speed(asked, POOLS)

    assert KNOWLEDGE.speed(replace(asked, job=make_job(steps=7)), POOLS) is first


def test_whatever_a_speed_depends_on_gives_another_one() -> None:
    asked = Workload(job=make_job(), profile=PROFILE)
    first = KNOWLEDGE.speed(asked, POOLS)
    slower = replace(PROFILE, step_times=tuple(replace(t, seconds=2 * t.seconds) for t in LINE))
    measured = Measured(workers={"V100": 2}, steps_per_second=first.paces["V100"].value / 64)

    others = [
        replace(asked, profile=None),
        replace(asked, profile=slower),
        replace(asked, job=make_job(max_replicas=2)),
        replace(asked, job=make_job(global_batch_size=128)),
        replace(asked, job=make_job(servers=2)),
        replace(asked, measured=measured),
    ]

    assert all(KNOWLEDGE.speed(other, POOLS) != first for other in others)
    assert KNOWLEDGE.speed(asked, POOLS) == first
