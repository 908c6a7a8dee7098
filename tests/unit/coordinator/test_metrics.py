"""The coordinator's metrics: the official parser reads them, and they say what is so."""

import re

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ebbtide.coordinator.metrics import PREFIX, render
from ebbtide.wire.messages import CheckpointCommitted, FromWorker, Heartbeat
from support.fake_members import Members, Proc, make_members, start

Series = dict[tuple[str, str], float]


def read(members: Members) -> Series:
    """All series by name and by what tells them apart besides the job."""
    found: Series = {}
    for family in text_string_to_metric_families(render(members.ledger.state)):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert (labels.pop("namespace"), labels.pop("trainingjob")) == ("default", "fake")
            key = ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
            found[sample.name.removeprefix(PREFIX), key] = sample.value
    return found


def hear(members: Members, proc: Proc, message: FromWorker) -> None:
    members.apply(members.ledger.hear(proc.link, message, now=members.now))


def test_before_anybody_is_there_only_the_work_is_known() -> None:
    series = read(make_members())

    assert series["wanted_steps", ""] == 1_000_000
    assert series["global_batch_samples", ""] == 64
    assert series["training", ""] == 0
    assert series["workers", "state=member"] == 0
    assert ("loss", "") not in series
    assert ("checkpoint_step", "") not in series


def test_what_members_tell_is_given_by_kind_of_gpu() -> None:
    members = make_members()
    procs = start(members, 0, 1)
    for proc, compute in zip(procs, (0.2, 0.4), strict=True):
        proc.step += 1
        hear(
            members,
            proc,
            Heartbeat(
                generation=proc.generation,
                step=proc.step,
                step_seconds=1.0,
                compute_seconds=compute,
                communication_seconds=0.3,
                data_seconds=0.1,
                idle_seconds=0.2,
                local_batch=32,
                gradient_bytes=4000,
                gradient_tensors=4,
                peak_memory_bytes=1 << 30,
                loss=0.5,
            ),
        )

    series = read(members)

    assert series["step_part_seconds", "gpu=,part=compute"] == pytest.approx(0.3)
    assert series["step_part_seconds", "gpu=,part=idle"] == pytest.approx(0.2)
    assert series["step_seconds", "gpu="] == 1.0
    assert series["local_batch_samples", "gpu="] == 32
    assert series["gradient_bytes", "gpu="] == 4000
    assert series["peak_memory_bytes", "gpu="] == 1 << 30
    assert series["loss", ""] == 0.5
    assert series["training", ""] == 1
    assert series["workers", "state=member"] == 2
    assert series["generation", ""] > 0


def test_a_checkpoint_has_step_moment_size_and_time() -> None:
    members = make_members()
    proc = start(members, 0, 1)[0]

    hear(members, proc, CheckpointCommitted(step=7, seconds=1.5, bytes=300))

    series = read(members)
    assert series["checkpoint_step", ""] == 7
    assert series["checkpoint_bytes", ""] == 300
    assert series["checkpoint_write_seconds", ""] == 1.5
    assert series["checkpoint_timestamp_seconds", ""] > 0


def test_members_that_are_gone_leave_no_series_behind() -> None:
    members = make_members()
    procs = start(members, 0, 1)
    assert ("step_seconds", "gpu=") in read(members)

    for proc in procs:
        members.kill(proc.worker)
    members.run(10.0)

    series = read(members)
    assert ("step_seconds", "gpu=") not in series
    assert series["workers", "state=lost"] == 2


def test_what_a_worker_calls_its_gpu_cannot_break_a_line() -> None:
    members = make_members()
    start(members, 0, 1)
    nasty = 'x"} 1\nebbtide_trainer_fake{a="\\' + "y" * 100
    for process in members.ledger.state.processes():
        process.said = msgspec.structs.replace(process.said, gpu=nasty)

    series = read(members)

    assert ("step_seconds", f"gpu={nasty[:63]}") in series
    assert not any(name == "fake" for name, _ in series)


def test_names_have_our_prefix_and_end_in_their_unit() -> None:
    members = make_members()
    start(members, 0, 1)
    text = render(members.ledger.state)

    names = re.findall(r"^# TYPE (\S+) (\S+)$", text, flags=re.MULTILINE)
    assert len(names) == len({name for name, _ in names}) > 15
    assert all(name.startswith("ebbtide_trainer_") for name, _ in names)
    assert {kind for _, kind in names} == {"gauge"}
    assert not re.search(r"_(ms|mb|MiB|percent)\b", text)
    assert "worker-0" not in text, "no pod is named"
