"""One lease, one holder: what makes it change hands, and what does not."""

from support.fake_members import Members, Proc, make_members, start


def tick(members: Members, *procs: Proc, seconds: float = 0.25) -> None:
    """Let these processes beat and hear, then let time pass."""
    for proc in procs:
        members.beat(proc)
        while proc.outbox:
            members.say(proc)
        while proc.inbox:
            members.tell(proc)
    members.pass_time(seconds)


def test_one_member_holds_duty_and_its_first_process_alone() -> None:
    members = make_members(desired=1)
    start(members, 0, processes=2)

    assert [members.has_duty(proc) for proc in members.procs] == [True, False]


def test_a_warned_holder_gives_duty_to_one_who_is_not_warned() -> None:
    members = make_members()
    procs = start(members, 0, 1)
    assert members.has_duty(procs[0])

    members.call("warn", worker="w-0-1", on=True)
    members.run(1.0)

    assert members.holders() == ["w-1-1"]
    assert members.ledger.report().duty == "w-1-1"


def test_duty_stays_where_it_is_when_all_are_warned() -> None:
    members = make_members()
    start(members, 0, 1)

    members.call("warn", worker="w-0-1", on=True)
    members.call("warn", worker="w-1-1", on=True)
    members.run(1.0)

    assert len(members.holders()) == 1


def test_a_heartbeat_sent_before_the_dismissal_was_read_does_not_free_the_lease() -> None:
    members = make_members()
    procs = start(members, 0, 1)
    assert members.has_duty(procs[0])
    members.call("warn", worker="w-0-1", on=True)

    for _ in range(3):  # it speaks, and hears nothing yet
        members.beat(procs[0])
        members.say(procs[0])
        tick(members, procs[1], seconds=0.1)

    assert members.has_duty(procs[0])
    assert members.holders() == ["w-0-1"]

    tick(members, procs[0], procs[1])
    tick(members, procs[0], procs[1])
    tick(members, procs[1])
    assert members.holders() == ["w-1-1"]


def test_a_lost_holders_lease_runs_out_before_another_gets_it() -> None:
    members = make_members()
    procs = start(members, 0, 1)
    members.cut(procs[0])

    waited = 0.0
    while not members.has_duty(procs[1]):
        assert members.holders() in ([], ["w-0-1"])
        tick(members, procs[1])
        members.step()
        waited += 0.25

    assert 3.0 < waited < 6.0


def test_a_leaver_frees_the_lease_with_its_last_word() -> None:
    members = make_members()
    procs = start(members, 0, 1)
    members.leave("w-0-1")

    members.run(1.0)

    assert procs[0].exit == "left"
    assert members.holders() == ["w-1-1"]


def test_a_new_coordinator_grants_nothing_while_old_grants_may_be_valid() -> None:
    members = make_members()
    procs = start(members, 0, 1)
    members.restart()
    members.cut(procs[0])  # the old holder is out of reach, and may still save
    granted_at = members.now

    members.connect(procs[1])
    while not members.has_duty(procs[1]):
        assert members.holders() in ([], ["w-0-1"])
        tick(members, procs[1])
        members.step()

    assert members.now - granted_at >= 4.0


def test_a_checkpoint_asked_for_is_asked_of_the_holder_alone() -> None:
    members = make_members()
    procs = start(members, 0, 1)

    members.call("checkpoint")
    members.run(0.5)

    assert [proc.saves_asked for proc in procs] == [1, 0]


def test_a_checkpoint_asked_for_while_nobody_holds_duty_is_remembered() -> None:
    members = make_members(desired=1)
    members.call("checkpoint")

    (proc,) = start(members, 0)

    assert proc.saves_asked == 1
