"""Leavers: who must save before it goes, who may go at once."""

from ebbtide.wire.messages import Dismissed
from support.fake_members import Members, Proc, make_members, start


def advance_unsaved(members: Members) -> None:
    """Apply one more step that nobody saves."""
    members.step()
    for proc in members.alive():
        members.beat(proc)
    members.deliver()


def hold_at_boundary(members: Members) -> None:
    """Let the soft reform come through without anybody saving."""
    members.deliver()
    members.step()


def dismissals(proc: Proc) -> list[bool]:
    return [message.save for message in proc.inbox if isinstance(message, Dismissed)]


def test_a_leaver_whose_state_others_hold_need_not_save() -> None:
    members = make_members()
    procs = start(members, 0, 1)
    saved = members.disk

    members.leave("w-1-1")
    hold_at_boundary(members)
    members.deliver()

    assert procs[1].exit == "left"
    assert members.disk == saved


def test_the_only_member_saves_before_a_spare_goes_on_from_there() -> None:
    members = make_members(desired=1)
    procs = start(members, 0, 1)
    advance_unsaved(members)
    saved = members.disk

    members.leave("w-0-1")
    hold_at_boundary(members)
    members.deliver()
    members.pass_time(0.25)

    assert procs[0].exit == "left"
    assert members.disk > saved
    members.run(1.0)
    assert members.members() == ("w-1-1",)
    assert members.forms[-1].source == "checkpoint"
    assert members.forms[-1].step == procs[0].step


def test_when_all_leave_one_saves_and_the_others_wait_for_it() -> None:
    members = make_members(min_replicas=2)
    procs = start(members, 0, 1)
    advance_unsaved(members)

    for worker in ("w-0-1", "w-1-1"):
        members.call("stop", worker=worker, seconds=10.0)
    members.deliver()
    members.step()
    members.say_all()

    told = {proc.worker: dismissals(proc) for proc in procs}
    assert told == {"w-0-1": [True], "w-1-1": []}

    members.tell_all(procs[0])
    assert dismissals(procs[1]) == [False]
    members.deliver()
    assert members.disk == procs[0].step
    assert [proc.exit for proc in procs] == ["left", "left"]


def test_another_leaver_steps_in_when_the_one_that_saves_is_lost() -> None:
    members = make_members(min_replicas=2)
    procs = start(members, 0, 1)
    advance_unsaved(members)
    for worker in ("w-0-1", "w-1-1"):
        members.call("stop", worker=worker, seconds=10.0)
    members.deliver()
    members.step()
    members.say_all()

    members.kill("w-0-1")
    members.run(6.0)

    assert procs[1].exit == "left"
    assert members.disk == procs[1].step


def test_a_spare_that_leaves_goes_at_once() -> None:
    members = make_members(desired=1)
    procs = start(members, 0, 1)

    members.leave("w-1-1")
    members.deliver()

    assert procs[1].exit == "left"
    assert procs[0].phase == "busy"
    assert not procs[0].pending


def test_a_generation_waits_for_a_leavers_save_only_until_its_time_is_up() -> None:
    members = make_members(desired=1)
    procs = start(members, 0, 1)
    advance_unsaved(members)
    saved = members.disk
    members.call("stop", worker="w-0-1", seconds=2.0)
    members.tell_all(procs[0])
    members.step()
    members.say_all()
    assert dismissals(procs[0]) == [True]

    for _ in range(12):  # it saves for ever, and beats
        for proc in procs:
            members.beat(proc)
            members.say(proc)
        members.pass_time(0.25)

    assert members.members() == ("w-1-1",)
    assert members.forms[-1].step == saved
