"""How generations begin and end, event by event."""

from ebbtide.wire.messages import Idle, Reform
from support.fake_members import break_collective, make_members, start


def test_nothing_forms_below_the_minimum() -> None:
    members = make_members(min_replicas=2)

    start(members, 0)

    assert members.forms == []


def test_the_first_generation_starts_from_initial_state_and_shares_it() -> None:
    members = make_members(min_replicas=2)

    start(members, 1, 0)

    form = members.forms[0]
    assert members.members() == ("w-0-1", "w-1-1")
    assert (form.source, form.step, form.sync, form.generation) == ("initial", 0, True, 1_000_001)


def test_a_worker_is_counted_only_when_all_its_processes_are_there() -> None:
    members = make_members(min_replicas=1, desired=1)
    procs = members.join(0, processes=2)

    members.say(procs[0])
    assert members.forms == []

    members.deliver()
    assert members.forms[0].world_size == 2


def test_a_lost_member_makes_every_survivor_break_at_once() -> None:
    members = make_members(desired=3)
    procs = start(members, 0, 1, 2)

    members.kill("w-1-1")

    told = [proc.inbox[-1] for proc in (procs[0], procs[2])]
    assert told == [Reform(generation=members.forms[-1].generation, hard=True, cause="w-1-1")] * 2


def test_survivors_and_a_spare_go_on_from_the_survivors_state() -> None:
    members = make_members(min_replicas=2, desired=2)
    start(members, 0, 1, 2)

    members.kill("w-0-1")
    members.run(1.0)

    assert members.members() == ("w-1-1", "w-2-1")
    assert members.forms[-1].source == "memory"
    assert members.forms[-1].source_rank == 0
    assert members.forms[-1].sync


def test_too_few_survivors_wait_with_their_state() -> None:
    members = make_members(min_replicas=2)
    procs = start(members, 0, 1)
    num_forms = len(members.forms)

    members.kill("w-0-1")
    members.run(3.0)
    assert len(members.forms) == num_forms

    members.join(0, attempt=2)
    members.run(1.0)
    assert members.members() == ("w-0-2", "w-1-1")
    assert members.forms[-1].source == "memory"
    assert members.forms[-1].step == procs[1].forms[-1].step > 0


def test_a_joining_worker_grows_the_job_at_a_step_boundary() -> None:
    members = make_members()
    (first,) = start(members, 0)

    members.join(1)
    members.deliver()

    assert first.pending
    members.run(1.0)
    assert members.members() == ("w-0-1", "w-1-1")


def test_no_growth_before_the_first_step_of_a_generation() -> None:
    members = make_members()
    members.join(0)
    members.deliver()

    members.join(1)
    members.deliver()

    assert members.members() == ("w-0-1",)
    assert members.procs[0].phase == "busy"
    assert not members.procs[0].pending


def test_a_smaller_wish_turns_the_highest_index_into_a_spare() -> None:
    members = make_members(min_replicas=1, desired=3)
    start(members, 0, 1, 2)

    members.configure(make_members(min_replicas=1, desired=2).work)
    members.run(1.0)

    assert members.members() == ("w-0-1", "w-1-1")
    states = {w.worker: w.state for w in members.ledger.report().workers}
    assert states["w-2-1"] == "spare"


def test_a_leaver_ends_the_generation_softly() -> None:
    members = make_members()
    procs = start(members, 0, 1)

    members.leave("w-0-1")
    members.say(procs[0])

    assert procs[1].inbox[-1] == Reform(
        generation=members.forms[-1].generation, hard=False, cause="w-0-1"
    )
    members.run(1.0)
    assert members.members() == ("w-1-1",)
    assert procs[0].exit == "left"
    assert members.ledger.report().recoveries[-1].cause == "left"


def test_a_leaver_in_a_generation_that_still_forms_ends_it_hard() -> None:
    members = make_members(min_replicas=2)
    procs = [members.join(index)[0] for index in (0, 1)]
    members.say_all()
    form = members.forms[-1]
    assert form in procs[1].inbox

    members.call("stop", worker="w-0-1", seconds=5.0)

    assert procs[1].inbox[-1] == Reform(generation=form.generation, hard=True, cause="w-0-1")


def test_a_broken_collective_without_a_loss_forms_the_same_members_again() -> None:
    members = make_members(min_replicas=2)
    procs = start(members, 0, 1)
    before = members.forms[-1].generation

    break_collective(members, procs[0])
    members.run(1.0)

    assert members.members() == ("w-0-1", "w-1-1")
    assert members.forms[-1].generation > before


def test_a_generation_that_never_stands_is_tried_again_ever_more_slowly() -> None:
    members = make_members(min_replicas=2)
    procs = [members.join(index)[0] for index in (0, 1)]

    def fail_until(seconds: float) -> int:
        count, until = len(members.forms), members.now + seconds
        while members.now < until:
            for proc in procs:
                members.beat(proc)
                while proc.outbox:
                    members.say(proc)
                while proc.inbox:
                    members.tell(proc)
                if proc.phase == "busy":
                    proc.outbox.clear()
                    break_collective(members, proc)
            members.pass_time(0.05)
        return len(members.forms) - count

    assert fail_until(1.0) > 4
    fail_until(5.0)
    assert fail_until(4.0) <= 3


def test_a_silent_process_is_lost_after_four_heartbeats() -> None:
    members = make_members()
    procs = start(members, 0, 1)

    for _ in range(6):
        members.beat(procs[0])
        members.say(procs[0])
        members.pass_time(0.2)

    assert procs[1].link == 0
    assert (
        Reform(generation=members.forms[-1].generation, hard=True, cause="w-1-1") in procs[0].inbox
    )


def test_a_coordinator_that_slept_blames_nobody() -> None:
    members = make_members()
    procs = start(members, 0, 1)

    members.pass_time(30.0)

    assert all(proc.link for proc in procs)


def test_a_process_that_connects_again_while_its_old_connection_hangs_goes_on() -> None:
    members = make_members()
    procs = start(members, 0, 1)
    num_forms = len(members.forms)

    members.connect(procs[0])
    members.run(1.0)

    assert len(members.forms) == num_forms
    assert members.ledger.report().training


def test_a_process_that_starts_anew_under_the_same_name_is_a_loss() -> None:
    members = make_members()
    procs = start(members, 0, 1)
    procs[0].phase, procs[0].holds_state, procs[0].is_formed = "idle", False, False

    members.connect(procs[0])

    assert procs[1].inbox[-1] == Reform(
        generation=members.forms[-1].generation, hard=True, cause="w-0-1"
    )


def test_a_stray_of_an_old_generation_is_told_to_hold_still() -> None:
    members = make_members()
    procs = start(members, 0, 1)
    members.cut(procs[0])
    for proc in procs[1:]:
        members.beat(proc)
    members.deliver()

    members.connect(procs[0])

    assert Reform(generation=procs[0].generation, hard=True) in procs[0].inbox


def test_nothing_is_formed_while_a_checkpoint_could_not_be_written() -> None:
    members = make_members(min_replicas=1)
    members.join(0)
    members.procs[0].outbox[-1] = idle_with_error("read-only file system")

    members.run(2.0)

    assert members.forms == []
    assert members.ledger.report().checkpoint_error == "read-only file system"

    members.procs[0].outbox.append(members.procs[0].idle())
    members.deliver()
    assert len(members.forms) == 1


def idle_with_error(error: str) -> Idle:
    return Idle(generation=0, step=0, holds_state=False, checkpoint_error=error)


# ---------------------------------------------------------------- a coordinator that starts again


def test_a_whole_generation_is_taken_over_untouched() -> None:
    members = make_members()
    procs = start(members, 0, 1)
    number = members.forms[-1].generation

    members.restart()
    members.run(1.0)

    report = members.ledger.report()
    assert (report.attempt, report.generation, report.training) == (2, number, True)
    assert all(proc.generation == number and proc.phase == "busy" for proc in procs)


def test_members_that_do_not_come_back_in_time_are_lost() -> None:
    members = make_members()
    start(members, 0, 1)
    number = members.forms[-1].generation

    members.restart()
    members.kill("w-0-1")
    members.run(2.0)
    assert members.forms[-1].generation == number

    members.run(3.0)
    assert members.members() == ("w-1-1",)
    assert members.forms[-1].generation == 2_000_001


def test_spares_that_come_back_first_do_not_form_without_the_members() -> None:
    members = make_members()
    procs = start(members, 0, 1, 2)
    number = members.forms[-1].generation

    members.restart()
    members.connect(procs[2])
    members.deliver()
    members.run(1.0)

    assert members.ledger.report().generation == number
    assert members.ledger.report().training


def test_a_member_that_broke_meanwhile_ends_the_takeover() -> None:
    members = make_members(min_replicas=2)
    procs = start(members, 0, 1)
    members.restart()
    procs[0].phase, procs[0].is_formed = "idle", False

    members.run(4.0)

    assert members.forms[-1].generation == 2_000_001
    assert members.members() == ("w-0-1", "w-1-1")


def test_a_number_heard_of_is_never_given_out_again() -> None:
    members = make_members(desired=1)
    (proc,) = start(members, 0)
    proc.generation = proc.newest = 1_000_777
    members.restart()
    members.connect(proc)

    members.restart()
    members.kill("w-0-1")
    members.join(0, attempt=2)
    members.run(5.0)

    assert members.forms[-1].generation == 3_000_001


# ---------------------------------------------------------------- the end


def test_the_job_is_finished_when_the_final_checkpoint_is_committed() -> None:
    members = make_members(steps=8)
    procs = start(members, 0, 1, 2)

    members.run(6.0)

    assert members.ledger.is_finished
    assert [proc.exit for proc in procs] == ["released"] * 3
    assert members.disk == 8
    assert {worker.state for worker in members.ledger.report().workers} == {"left"}


def test_who_comes_after_the_end_is_released_at_once() -> None:
    members = make_members(steps=3)
    start(members, 0)
    members.run(4.0)

    (late,) = members.join(1)
    members.deliver()

    assert late.exit == "released"
    assert late.forms == []


def test_duty_moves_when_its_holder_is_lost_after_the_last_step() -> None:
    members = make_members(steps=4)
    procs = [members.join(index)[0] for index in (0, 1)]
    members.disk = -1
    for _ in range(8):
        for proc in members.alive():
            members.beat(proc)
        members.deliver()
        members.step()
        members.pass_time(0.25)
    holder = members.ledger.report().duty
    assert all(proc.phase == "reached" for proc in procs)

    members.kill(holder)
    members.run(6.0)

    assert members.ledger.is_finished
    assert members.disk == 4


def test_a_total_loss_resumes_from_the_newest_checkpoint_and_counts_what_is_redone() -> None:
    members = make_members()
    start(members, 0, 1)
    saved = members.disk
    members.step()
    for proc in members.alive():
        members.beat(proc)
    members.deliver()

    members.kill("w-0-1")
    members.kill("w-1-1")
    members.join(0, attempt=2)
    members.join(1, attempt=2)
    members.run(1.0)

    report = members.ledger.report()
    assert report.resumed_generation > 0
    assert report.resumed_step == saved
    assert report.steps_redone == 1


def test_memory_is_not_given_up_for_a_checkpoint_that_could_not_be_read() -> None:
    """Nor for a newcomer that sees only its size, nor at the next one."""
    members = make_members(min_replicas=2, desired=4)
    start(members, 0, 1)
    members.spoiled = members.procs[0].step + 100
    saved = members.disk
    for worker in (0, 1):
        members.kill(f"w-{worker}-1")
    for worker in (0, 1):
        members.join(worker, attempt=2)
    members.run(1.0)
    resumed = members.ledger.report()
    assert resumed.resumed_step == saved

    for index in (2, 3):
        furthest = members.ledger.report().step
        members.join(index)
        members.run(1.0)
        assert members.forms[-1].source == "memory"
        assert members.forms[-1].step >= furthest

    report = members.ledger.report()
    assert len(members.members()) == 4
    assert report.resumed_generation == resumed.resumed_generation
    assert report.checkpoint_step == members.disk


def test_a_second_total_loss_counts_only_what_was_made_since_the_first() -> None:
    members = make_members()
    start(members, 0, 1)
    for _ in range(5):  # beyond what is reached again before the second loss
        members.step()
    for proc in members.alive():
        members.beat(proc)
    members.deliver()
    lost = []
    for attempt in (2, 3):
        furthest = members.ledger.report().step
        for worker in (0, 1):
            members.kill(f"w-{worker}-{attempt - 1}")
        for worker in (0, 1):
            members.join(worker, attempt=attempt)
        members.run(0.5)
        report = members.ledger.report()
        lost.append((report.steps_redone, furthest - report.resumed_step))

    assert lost[0][0] == lost[0][1] == 5
    assert lost[1][0] == lost[1][1] < 5


def test_a_step_told_before_every_member_said_that_it_stands_is_not_redone() -> None:
    members = make_members(min_replicas=2)
    first, second = (members.join(index)[0] for index in (0, 1))
    while not second.forms:
        members.say_all()
        members.tell_all(first)
        members.tell_all(second)

    members.step()  # both stand; what the second said of it is still on its way
    members.beat(first)
    while first.outbox:
        members.say(first)
    members.deliver()

    report = members.ledger.report()
    assert report.training
    assert (report.steps_redone, report.resumed_generation) == (0, 0)
