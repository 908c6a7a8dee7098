"""
What the coordinator knows, in the text format that Prometheus reads. Pure.

Every series carries the job; none carries a pod, whose names come and go. What ranks tell of
themselves is given by kind of GPU: the mean of those in the current generation.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ebbtide.coordinator.reporting import build_report
from ebbtide.coordinator.state import Process, State
from ebbtide.wire.messages import Report

PREFIX: Final = "ebbtide_trainer_"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
MAX_LABEL: Final = 63
STATES: Final = ("joining", "member", "spare", "leaving", "left", "lost")

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One metric: its values by labels."""

    name: str
    help: str
    samples: Sequence[tuple[Labels, float]] = field(default_factory=tuple)


def render(state: State) -> str:
    """Return all metrics; a value that is not known yet has no line."""
    namespace, _, name = state.work.job.partition("/")
    own = {"namespace": namespace, "trainingjob": name}
    lines: list[str] = []
    for family in (*_of_job(state, build_report(state, version=0)), *_of_ranks(state)):
        full = PREFIX + family.name
        lines += [f"# HELP {full} {family.help}", f"# TYPE {full} gauge"]
        lines += [
            f"{full}{_write({**own, **labels})} {value!r}" for labels, value in family.samples
        ]
    return "\n".join(lines) + "\n"


def _of_job(state: State, report: Report) -> Iterable[Family]:
    saved = state.checkpoints
    states = [worker.state for worker in report.workers]
    last = report.recoveries[-1].stepping_after if report.recoveries else -1.0
    yield _one("step", "Steps applied, the largest heard of.", report.step)
    yield _one("wanted_steps", "Steps that the job takes in all.", state.work.steps)
    yield _one("steps_per_second", "Steps applied each second, lately.", report.steps_per_second)
    yield _one("loss", "The loss that the script logged last.", report.loss)
    yield _one(
        "global_batch_samples",
        "Samples of one step, whoever the members are.",
        state.work.global_batch_size,
    )
    yield _one("training", "1 while the members train.", int(report.training))
    yield _one("generation", "Number of the newest generation.", report.generation)
    yield Family(
        name="workers",
        help="Workers by what they are now.",
        samples=[({"state": each}, float(states.count(each))) for each in STATES],
    )
    yield _one(
        "last_recovery_seconds",
        "How long training stood still at the newest change of members.",
        last if last >= 0 else None,
    )
    known = report.checkpoint_step if report.checkpoint_step >= 0 else None
    yield _one("checkpoint_step", "Step of the newest checkpoint.", known)
    yield _one(
        "checkpoint_timestamp_seconds",
        "When it was committed, in epoch seconds.",
        saved.time or None,
    )
    yield _one("checkpoint_bytes", "Its size.", saved.bytes or None)
    yield _one("checkpoint_write_seconds", "How long its save took.", saved.seconds or None)


def _of_ranks(state: State) -> Iterable[Family]:
    by_gpu: dict[str, list[Process]] = {}
    generation = state.current or state.formed
    number = -1 if generation is None else generation.number
    for process in state.processes():
        if process.beat is not None and process.generation == number:
            by_gpu.setdefault(process.said.gpu[:MAX_LABEL], []).append(process)
    beats = {gpu: [p.beat for p in found if p.beat] for gpu, found in sorted(by_gpu.items())}
    parts = ("compute", "communication", "data", "idle")
    yield Family(
        name="step_part_seconds",
        help="Where the time of a step goes; idle: waiting for the slowest rank or a checkpoint.",
        samples=[
            ({"gpu": gpu, "part": part}, _mean(getattr(one, f"{part}_seconds") for one in found))
            for gpu, found in beats.items()
            for part in parts
        ],
    )
    for name, text, choose in (
        ("step_seconds", "Time of a step.", "step_seconds"),
        ("local_batch_samples", "Samples of one rank in a step.", "local_batch"),
        ("gradient_bytes", "Gradients that a rank sums up in a step.", "gradient_bytes"),
        ("gradient_tensors", "Tensors that those are in.", "gradient_tensors"),
        ("peak_memory_bytes", "Memory of a rank at its peak.", "peak_memory_bytes"),
    ):
        yield Family(
            name=name,
            help=text,
            samples=[
                ({"gpu": gpu}, _mean(getattr(one, choose) for one in found))
                for gpu, found in beats.items()
            ],
        )


def _one(name: str, text: str, value: float | None) -> Family:
    return Family(name=name, help=text, samples=() if value is None else [({}, float(value))])


def _mean(values: Iterable[float]) -> float:
    found = [float(value) for value in values]
    return sum(found) / len(found)


def _write(labels: Labels) -> str:
    written = ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())
    return "{" + written + "}"


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
