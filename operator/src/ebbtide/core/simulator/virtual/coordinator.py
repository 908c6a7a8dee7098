"""
A coordinator in virtual time: members, generations, checkpoint duty, and what it reports.

A model of `ebbtide.coordinator` as the operator sees it. Messages take no time; a loss is noticed
after four silent heartbeats, or as `Timing` says; survivors keep their state, and a generation that
is changed at will ends between two steps.
"""

import enum
from collections.abc import Callable
from datetime import datetime
from typing import Final, Protocol

from ebbtide.core.simulator.virtual.agenda import Agenda, seconds
from ebbtide.core.simulator.virtual.hands import (
    Hand,
    are_others_wanted,
    choose_members,
    choose_saver,
)
from ebbtide.core.simulator.virtual.progress import Pace, Tally
from ebbtide.core.simulator.virtual.reporting import Resumed, Standing, build_report
from ebbtide.core.simulator.virtual.timing import Timing
from ebbtide.wire.messages import Report, WorkSpec
from ebbtide.wire.names import EXIT_DONE, EXIT_LEFT, GENERATIONS_PER_ATTEMPT

SILENT_BEATS: Final = 4  # as the coordinator has it


class Phase(enum.Enum):
    """What the coordinator is in the middle of."""

    APART = "apart"  # nobody trains
    FORMING = "forming"
    TRAINING = "training"
    SAVING = "saving"  # the last step is applied, its checkpoint is not durable yet
    FINISHED = "finished"


class Site(Protocol):
    """What a coordinator needs of the world around it."""

    @property
    def agenda(self) -> Agenda:
        """The time, and what is to come."""

    @property
    def timing(self) -> Timing:
        """How long things take."""

    @property
    def tally(self) -> Tally:
        """Progress and checkpoints, which outlive coordinators."""

    def rate(self, workers: tuple[str, ...]) -> float:
        """Return how many steps per second these pods make together."""

    def leave(self, worker: str, code: int) -> None:
        """Let the process of a pod go, with this exit code."""

    def tell(self) -> None:
        """Say that there is something new to report."""


class Coordinator:
    """One attempt of it."""

    def __init__(self, site: Site, *, attempt: int, work: WorkSpec) -> None:
        self.work = work
        self.hands: dict[str, Hand] = {}
        self.phase = Phase.APART
        self._site = site
        self._attempt = attempt
        self._number = attempt * GENERATIONS_PER_ATTEMPT
        self._current: tuple[str, ...] = ()  # forming, training or saving
        self._formed: tuple[str, ...] = ()  # ... the last that stood
        self._formed_number = 0
        self._pace: Pace | None = None
        self._is_stepping = False  # the generation has made its first step
        self._is_ending = False
        self._saver = ""  # the leaver that saves what it alone holds
        self._duty = ""
        self._top = 0
        self._save_due: datetime | None = None
        self._resumed = Resumed()
        self._version = 1
        self._epoch = 0  # timers of a former one are void
        self._plan = 0  # ... and of a former plan within it

    # ------------------------------------------------------------ what workers do

    def join(self, hand: Hand) -> None:
        """Let a worker register."""
        self.hands[hand.name] = hand
        self._news()

    def ready(self, name: str) -> None:
        """Learn that a worker could train."""
        hand = self.hands.get(name)
        if hand is not None and hand.is_there and not hand.is_ready:
            hand.is_ready = True
            self._settle()

    def cut(self, name: str) -> None:
        """Have a worker's node lose its power: training stops now, and it is noticed later."""
        hand = self.hands.get(name)
        if hand is None or not hand.is_there or hand.is_cut:
            return
        hand.is_cut = True
        if name in self._current and self.phase is Phase.TRAINING and self._pace is not None:
            self._pace.freeze(self._now)
        loss_s = self._site.timing.loss_s
        silent_s = SILENT_BEATS * self.work.heartbeat if loss_s is None else loss_s
        self._site.agenda.after(silent_s, lambda: self._lose(name))

    def gone(self, name: str, *, by_choice: bool) -> None:
        """Learn that a worker's process has ended; `by_choice`: it had said so."""
        hand = self.hands.get(name)
        if hand is None or not hand.is_there:
            return
        if by_choice:
            hand.left = True
            self._settle()
        else:
            self._lose(name)

    def forget(self, name: str) -> None:
        """Drop a worker whose pod is no more."""
        self.gone(name, by_choice=False)
        self.hands.pop(name, None)

    def leave(self, name: str, by: datetime) -> None:
        """Have a worker leave by then: it got SIGTERM, or our stop."""
        hand = self.hands.get(name)
        if hand is not None and hand.is_there and not hand.is_dismissed:
            hand.leave_by = by if hand.leave_by is None else min(hand.leave_by, by)
            self._settle()

    # ------------------------------------------------------------ what the operator says

    def configure(self, work: WorkSpec) -> None:
        """Take over other working fields."""
        self.work = work
        if self._save_due is not None:
            self._save_due = min(self._save_due, self._now + seconds(work.checkpoint_interval))
        self._settle()
        self._plan_next()

    def warn(self, name: str, *, on: bool) -> None:
        """Mark a worker as one that may go, or no longer."""
        if name in self.hands:
            self.hands[name].warned = on
            self._settle()

    def expel(self, name: str) -> None:
        """Count a worker as lost, whatever it says."""
        hand = self.hands.get(name)
        if hand is not None and hand.is_there:
            if not hand.is_cut:
                self._site.leave(name, EXIT_LEFT)
            self._lose(name)

    def save(self) -> None:
        """Take a checkpoint now."""
        if self.phase is Phase.TRAINING:
            self._save_due = self._now
            self._plan_next()

    # ------------------------------------------------------------ what it says

    def report(self) -> Report:
        """Tell how things are."""
        pace = self._pace
        is_going_on = self.phase is Phase.TRAINING and not self._is_ending
        return build_report(
            self.hands.values(),
            Standing(
                attempt=self._attempt,
                version=self._version,
                current=self._current or self._formed,
                formed=self._formed,
                generation=self._formed_number,
                is_training=is_going_on or self.phase in (Phase.SAVING, Phase.FINISHED),
                is_finished=self.phase is Phase.FINISHED,
                step=max(self._top, pace.step(self._now) if pace is not None else 0),
                rate=pace.rate if pace is not None and is_going_on else 0.0,
                duty=self._duty,
                resumed=self._resumed,
            ),
            work=self.work,
            tally=self._site.tally,
        )

    # ------------------------------------------------------------ how generations begin and end

    @property
    def _now(self) -> datetime:
        return self._site.agenda.now

    def _news(self) -> None:
        self._version += 1
        self._site.tell()

    def _lose(self, name: str) -> None:
        hand = self.hands.get(name)
        if hand is not None and hand.is_there:
            hand.lost, hand.state_step = True, -1
            self._settle()

    def _settle(self) -> None:
        """Do what is due, whatever brought it about; a second call does nothing."""
        self._news()
        if self.phase is Phase.FORMING and not all(map(self._stays, self._current)):
            self._fall_apart()
        if self.phase is Phase.TRAINING:
            self._watch()
        if self.phase is Phase.SAVING and not self._is_there(self._duty):
            self._save_the_end()
        if self.phase is Phase.APART:
            self._form()
        if self.phase is Phase.FINISHED:
            self._release()
        else:
            self._dismiss()

    def _is_there(self, name: str) -> bool:
        return name in self.hands and self.hands[name].is_there

    def _stays(self, name: str) -> bool:
        return name in self.hands and self.hands[name].is_eligible

    def _later(self, delay_s: float, do: Callable[[], None]) -> None:
        """Do something later, unless this generation is over by then."""
        epoch = self._epoch
        self._site.agenda.after(delay_s, lambda: do() if epoch == self._epoch else None)

    def _fall_apart(self) -> None:
        self.phase, self._current, self._is_ending = Phase.APART, (), False
        self._epoch += 1

    def _watch(self) -> None:
        if not all(map(self._is_there, self._current)):
            self._end()
        elif self._is_ending or (self._pace is not None and self._pace.frozen):
            return
        elif not all(map(self._stays, self._current)) or self._is_other_wanted():
            self._end_softly()

    def _is_other_wanted(self) -> bool:
        """Tell whether the members are to be changed at will; not before the first step."""
        work = self.work
        return self._is_stepping and are_others_wanted(
            self.hands.values(),
            present=self._current,
            desired=work.desired,
            least=work.min_replicas,
        )

    def _end_softly(self) -> None:
        """End between two steps, at the latest when the first leaver must have gone."""
        if self._pace is None:
            return
        self._is_ending = True
        ends = [self.hands[name].leave_by for name in self._current]
        boundary = self._pace.next_boundary(self._now)
        at = max(min([boundary, *(end for end in ends if end is not None)]), self._now)
        epoch = self._epoch
        self._site.agenda.at(at, lambda: self._end_now(epoch))

    def _end_now(self, epoch: int) -> None:
        if epoch != self._epoch or self.phase is not Phase.TRAINING:
            return
        if self._pace is not None and self._pace.frozen:
            self._is_ending = False  # a loss came first, and is dealt with when it is noticed
            return
        self._end()
        self._settle()

    def _end(self) -> None:
        """Stop training; whoever is there keeps the state."""
        if self._pace is None:
            return
        stretch = self._pace.record(self._now)
        self._site.tally.end(stretch)
        self._top = max(self._top, stretch.last)
        for name in self._current:
            if self._is_there(name):
                self.hands[name].state_step = stretch.last
        self._pace = None
        self._fall_apart()

    def _form(self) -> None:
        eligible = [hand for hand in self.hands.values() if hand.is_eligible]
        present = set(self._formed)
        chosen = choose_members(eligible, present=present, desired=self.work.desired)
        if self._saver or len(chosen) < max(1, self.work.min_replicas):
            return
        if self._must_wait_for_state(eligible):
            return
        memory = max(self.hands[name].state_step for name in chosen)
        saved = self._site.tally.checkpoint_step
        from_checkpoint = saved > memory
        step = max(memory, saved, 0)
        if step >= self.work.steps and from_checkpoint:
            self._finish()
            return
        self.phase, self._current = Phase.FORMING, chosen
        self._epoch += 1
        self._number += 1
        timing = self._site.timing
        delay_s = timing.restore_s if from_checkpoint else timing.reform_s
        self._later(delay_s, lambda: self._stand(step, from_checkpoint=from_checkpoint))

    def _stand(self, step: int, *, from_checkpoint: bool) -> None:
        """Begin to train in the generation that has formed."""
        tally = self._site.tally
        if from_checkpoint or (step == 0 and self._top > 0):
            self._resumed = Resumed(self._number, step, max(self._top - step, 0))
            self._top = step
        tally.begin(step)
        self._top = max(self._top, step)
        self.phase, self._is_stepping, self._is_ending = Phase.TRAINING, False, False
        self._formed, self._formed_number = self._current, self._number
        for name in self._current:
            self.hands[name].state_step = step
            self.hands[name].generation = self._number
        self._duty = self._choose_duty()
        now = self._now
        self._pace = Pace(
            generation=self._number,
            members=len(self._current),
            began=now,
            first=step,
            rate=self._site.rate(self._current),
            since=now,
            done=float(step),
        )
        for name in self._current:  # a member whose node went dark while it formed
            if self.hands[name].is_cut:
                self._pace.freeze(now)
        if self._save_due is None or from_checkpoint:
            self._save_due = now + seconds(self.work.checkpoint_interval)
        self._news()
        epoch, first = self._epoch, self._pace.when(step + 1)
        self._site.agenda.at(first, lambda: self._step_first(epoch))
        self._plan_next()

    def _step_first(self, epoch: int) -> None:
        if epoch == self._epoch and self._pace is not None and not self._pace.frozen:
            self._is_stepping = True
            self._settle()

    def _choose_duty(self) -> str:
        """Name the member that saves: one that stays before one that is warned, then by rank."""
        there = [self.hands[name] for name in self._current if self._is_there(name)]
        staying = sorted(there, key=lambda hand: (not hand.is_eligible, hand.warned))
        return staying[0].name if staying else ""

    # ------------------------------------------------------------ checkpoints, and the end

    def _plan_next(self) -> None:
        """Note what comes first in this generation: a save, or the last step."""
        pace = self._pace
        if pace is None or pace.frozen or self._save_due is None:
            return
        self._plan += 1
        epoch, plan = self._epoch, self._plan
        end = pace.when(self.work.steps)
        due = max(self._save_due, pace.since)
        do = self._reach_the_end if end <= due else self._begin_save

        def carry_out() -> None:
            if (epoch, plan) == (self._epoch, self._plan) and not pace.frozen:
                do()

        self._site.agenda.at(min(end, due), carry_out)

    def _begin_save(self) -> None:
        pace, now = self._pace, self._now
        if pace is None:
            return
        step, self._duty = pace.step(now), self._choose_duty()
        self._save_due = now + seconds(self.work.checkpoint_interval)
        if step > self._site.tally.checkpoint_step:
            pace.hold(now, self._site.timing.stall_s)
            saver = self._duty
            self._site.agenda.after(
                self._site.timing.commit_s, lambda: self._commit(step, saver=saver)
            )
        self._plan_next()

    def _commit(self, step: int, *, saver: str) -> None:
        """Make a save durable, if whoever wrote it is still there to do so."""
        hand = self.hands.get(saver)
        if hand is None or not hand.is_there or hand.is_cut:
            return
        is_first = self._site.tally.checkpoint_step < 0
        self._site.tally.commit(step, self._now)
        if is_first:
            self._news()

    def _reach_the_end(self) -> None:
        if self._is_ending or self._pace is None:
            return
        members = self._current
        self._end()
        self.phase, self._current = Phase.SAVING, members
        self._save_the_end()

    def _save_the_end(self) -> None:
        """Have the final state saved by one who holds it; start again from what is left if none."""
        self._epoch += 1
        self._duty = self._choose_duty()
        if not self._duty:
            self._fall_apart()
            return
        self._news()
        saver = self._duty
        self._later(self._site.timing.commit_s, lambda: self._finish_with(saver))

    def _finish_with(self, saver: str) -> None:
        hand = self.hands.get(saver)
        if hand is not None and hand.is_there and not hand.is_cut:
            self._site.tally.commit(self.work.steps, self._now)
            self._finish()

    def _finish(self) -> None:
        self.phase = Phase.FINISHED
        self._settle()

    def _release(self) -> None:
        for hand in self.hands.values():
            if hand.is_there and hand.is_ready and not hand.is_cut and not hand.is_dismissed:
                hand.is_dismissed = True
                self._site.leave(hand.name, EXIT_DONE)

    # ------------------------------------------------------------ leaving

    def _must_wait_for_state(self, eligible: list[Hand]) -> bool:
        """Have a leaver save what it alone holds; tell whether that is under way."""
        saved = self._site.tally.checkpoint_step
        at_hand = max((hand.state_step for hand in eligible), default=-1)
        by = self._now + seconds(self._site.timing.commit_s)
        saver = choose_saver(self.hands.values(), beyond=max(at_hand, saved), by=by)
        if saver is None:
            return False
        self._saver = self._duty = saver.name
        step = saver.state_step
        self._site.agenda.at(by, lambda: self._save_urgently(saver.name, step))
        return True

    def _save_urgently(self, name: str, step: int) -> None:
        self._saver = ""
        self._commit(step, saver=name)
        self._settle()

    def _dismiss(self) -> None:
        """Let leavers go whose state is not needed, or is safe."""
        if self.phase is Phase.APART and not self._saver:
            self._must_wait_for_state([h for h in self.hands.values() if h.is_eligible])
        for hand in self.hands.values():
            if hand.leave_by is None or hand.is_dismissed or not hand.is_there or hand.is_cut:
                continue
            is_busy = hand.name in self._current and self.phase is not Phase.SAVING
            if is_busy or self._saver or (self.phase is Phase.SAVING and hand.name == self._duty):
                continue
            hand.is_dismissed = True
            self._site.leave(hand.name, EXIT_LEFT)
