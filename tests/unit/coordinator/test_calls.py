"""What the operator may ask, and what is refused."""

import msgspec
import pytest

from support.fake_members import make_members, start


@pytest.mark.parametrize(
    ("name", "fields", "error"),
    [
        pytest.param("status", {}, "", id="status"),
        pytest.param("dance", {}, "there is no call 'dance'", id="unknown"),
        pytest.param("stop", {}, "stop needs the name of a worker", id="nameless"),
        pytest.param("warn", {"worker": "w" * 300}, "warn needs the name of a worker", id="long"),
        pytest.param("configure", {}, "configure needs the working fields", id="no fields"),
        pytest.param("finish", {}, "the work is not done", id="too early"),
        pytest.param("stop", {"worker": "nobody", "seconds": 1.0}, "", id="not here yet"),
    ],
)
def test_answers_calls(name: str, fields: dict[str, str], error: str) -> None:
    assert make_members().call(name, **fields) == error


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"steps": -1}, id="less than no steps"),
        pytest.param({"global_batch_size": 0}, id="steps without samples"),
        pytest.param({"min_replicas": 0}, id="no members"),
        pytest.param({"desired": -1}, id="less than none"),
        pytest.param({"heartbeat": 0.0}, id="endless heartbeats"),
        pytest.param({"heartbeat": float("inf")}, id="no heartbeat"),
        pytest.param({"desired": 4097}, id="more workers than can be held"),
        pytest.param({"desired": 4096, "processes_per_worker": 65}, id="too large a world"),
    ],
)
def test_refuses_impossible_working_fields(change: dict[str, float]) -> None:
    members = make_members()
    before = members.work

    assert members.configure(msgspec.structs.replace(before, **change))
    assert members.ledger.report().work == before


def test_a_world_that_is_too_large_is_refused_with_both_numbers() -> None:
    members = make_members()
    wanted = msgspec.structs.replace(members.work, desired=5000)

    assert members.configure(wanted) == (
        "5000 workers are wanted, this coordinator takes at most 4096"
    )


def test_an_expelled_worker_is_out_and_stays_out() -> None:
    members = make_members()
    procs = start(members, 0, 1)

    members.call("expel", worker="w-0-1")
    members.run(1.0)

    assert procs[0].exit == "expelled"
    assert members.members() == ("w-1-1",)

    (again,) = members.join(0)
    assert again.exit == "expelled"
    members.run(1.0)
    assert members.members() == ("w-1-1",)


def test_orders_reach_a_worker_that_comes_later() -> None:
    members = make_members()
    members.call("warn", worker="w-0-1", on=True)
    members.call("stop", worker="w-1-1", seconds=10.0)

    members.join(0)
    (stopped,) = members.join(1)
    members.deliver()

    report = {worker.worker: worker for worker in members.ledger.report().workers}
    assert report["w-0-1"].warned
    assert stopped.exit == "left"
    assert members.members() == ("w-0-1",)


def test_a_warning_that_passes_counts_no_more() -> None:
    members = make_members()
    start(members, 0, 1)

    members.call("warn", worker="w-0-1", on=True)
    members.call("warn", worker="w-0-1", on=False)

    assert not any(worker.warned for worker in members.ledger.report().workers)
    assert members.members() == ("w-0-1", "w-1-1")


def test_the_version_grows_with_changes_and_not_with_steps() -> None:
    members = make_members(desired=1)
    (proc,) = start(members, 0)
    before = members.ledger.version

    members.step()
    members.beat(proc)
    members.deliver()
    assert members.ledger.version == before
    assert members.ledger.report().step == proc.step

    members.call("warn", worker="w-0-1", on=True)
    assert members.ledger.version > before


def test_a_failed_save_is_told_until_one_succeeds() -> None:
    members = make_members(desired=1)
    (proc,) = start(members, 0)

    members.fail_save(proc, error="no space left on device")
    assert members.ledger.report().checkpoint_error == "no space left on device"

    members.step()
    members.save()
    members.deliver()
    assert members.ledger.report().checkpoint_error == ""
