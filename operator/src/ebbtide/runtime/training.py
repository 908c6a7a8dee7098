"""
The loop that carries one process through generations, from the first step to the last.

Hold still and say so; be put into a generation; form its group; take the state; train until the
members vote to stop, the group breaks or the work is done; again. Only step boundaries are left
with a state that counts, and what is held at one survives every change of members.
"""

import sys
import time
from collections.abc import Iterator
from typing import Final

from torch import Tensor

from ebbtide.runtime import chance, sharding, synchronizing
from ebbtide.runtime.attempt import Attempt
from ebbtide.runtime.batches import Batch, Shard
from ebbtide.runtime.building import Seat
from ebbtide.runtime.errors import (
    CheckpointError,
    CollectiveBroken,
    LeaveTraining,
    MismatchError,
)
from ebbtide.runtime.layouts import Layout
from ebbtide.runtime.links import Links
from ebbtide.runtime.membership import Leave
from ebbtide.runtime.profiler.meter import Meter, is_due
from ebbtide.runtime.reporting import Waiting, say
from ebbtide.runtime.staging import SPREAD_SHARE, Save
from ebbtide.runtime.standing import Timings
from ebbtide.runtime.state import TrainState
from ebbtide.runtime.synchronizing import Position
from ebbtide.wire.messages import Form, Released, WorkSpec

LOOK_SECONDS: Final = 2.0  # a spare looks again for checkpoints that others wrote
FINISH_LOOK_SECONDS: Final = 0.1
RETRY_SECONDS: Final = 2.0  # between two tries at the final checkpoint


class Loop:
    """One process's way through the job."""

    def __init__(self, links: Links, *, state: TrainState, shard: Shard) -> None:
        self._links = links
        self._state = state
        self._shard = shard
        self._layout = sharding.layout(shard.order, batch=self._work.global_batch_size)
        self._is_spoiled = False  # a state came in half and nothing of ours is left
        self._held = False  # whether the state is one of this training, not merely of this script
        self._position = Position(step=0, lineage=0, layout=self._layout)
        self._generation = 0
        self._still_since = time.monotonic()
        self._checkpoint_error = links.shelf.probe() if self._is_first else ""
        self._told_error = ""
        self._seat = Seat(generation=0, rank=0, world=1, store=("", 0), addresses=frozenset())
        self._members = 0
        self._share = range(0)  # of the global batch, in this generation
        self.is_done = False
        self.was_chief = False
        self.batch: Batch | None = None
        self.attempt = Attempt(state, group=links.group, fence=links.saver.fence, vote=self._vote)
        self._meter = Meter(state.model.parameters(), device=links.device)

    @property
    def rank(self) -> int:
        """The rank in the newest generation."""
        return self._seat.rank

    @property
    def world(self) -> int:
        """The number of ranks in the newest generation."""
        return self._seat.world

    @property
    def step(self) -> int:
        """How many steps are applied."""
        return self._position.step

    @property
    def _work(self) -> WorkSpec:
        return self._links.membership.work

    @property
    def _is_first(self) -> bool:
        return self._links.place.local_rank == 0

    def run(self) -> Iterator[Batch]:
        """Give this rank's batches, step by step, until the job's work is done."""
        self._say_idle()
        try:
            while (form := self._await_form()) is not None:
                try:
                    self._enter(form)
                except MismatchError:
                    raise
                except (CollectiveBroken, CheckpointError) as error:
                    if isinstance(error, CheckpointError) and self._links.place.is_local:
                        raise
                    self._tell_broken(str(error))
                    self._hold_still()
                    continue
                yield from self._train()
        except GeneratorExit:
            say(f"the loop was left at step {self.step} of {self._work.steps}: work is left to do")
            raise
        finally:
            self._links.group.close()
            self._links.membership.close()  # the others must not wait for what is written here
            self._links.saver.finish(timeout=self._links.place.notice_seconds)
            self._links.saver.close()

    # ------------------------------------------------------------ between generations

    def _await_form(self) -> Form | None:
        """Wait for the next generation; None when the work is done."""
        waiting = Waiting()
        while True:
            finishing = self._held and self.step >= self._work.steps
            pause = FINISH_LOOK_SECONDS if finishing else LOOK_SECONDS
            match self._links.membership.wait_for_form(timeout=pause):
                case Form() as form:
                    return form
                case Released():
                    self._release()
                    return None
                case Leave() as leave:
                    self._leave(leave)
                case None if finishing:
                    self._finish()
                case None if not self._held:
                    self._say_idle()  # others may have saved since
                case None:
                    pass
            waiting.look(lambda: self._links.membership.look().waits_for())

    def _hold_still(self) -> None:
        self._links.group.close()
        self._still_since = time.monotonic()
        self._say_idle()

    def _say_idle(self) -> None:
        if self._checkpoint_error:
            self._checkpoint_error = self._links.shelf.probe()  # it may have been repaired
        checkpoint_step, error = -1, self._checkpoint_error
        if self._is_first and not self._held:
            try:
                checkpoint_step = self._links.shelf.newest_step()
            except CheckpointError as damage:
                error = str(damage)
        self._tell_checkpoint(error)
        self._links.membership.idle(
            generation=self._generation,
            step=self.step,
            holds_state=self._held,
            checkpoint_step=checkpoint_step,
            checkpoint_error=error,
        )

    def _tell_checkpoint(self, error: str) -> None:
        """Say what is wrong with the checkpoints, or end where nobody will repair them."""
        if error and self._links.place.is_local:
            raise CheckpointError(error)
        if error and error != self._told_error:
            sys.stderr.write(f"ebbtide: {error}\n")
            sys.stderr.flush()
        self._told_error = error

    def _enter(self, form: Form) -> None:
        """Form the group of a generation and get to its state."""
        place = self._links.place
        mine = next((each for each in form.members if each.worker == place.worker), None)
        self._generation = max(self._generation, form.generation)
        if mine is None:
            raise CollectiveBroken(f"generation {form.generation} is not for this process")
        self._seat = Seat(
            generation=form.generation,
            rank=mine.first_rank + place.local_rank,
            world=form.world_size,
            store=(form.members[0].address, form.members[0].store_port),
            addresses=frozenset(each.address for each in form.members),
        )
        self._members = len(form.members)
        speeds = [member.speed for member in form.members for _ in range(member.processes)]
        shares = sharding.divide_by_speed(batch=self._work.global_batch_size, speeds=speeds)
        self._share = shares[self.rank]
        self._links.group.form(self._seat)
        if form.sync:
            self._synchronize(form)
        elif not self._held or self.step != form.step:
            raise CollectiveBroken(f"this process does not hold step {form.step}")
        self._links.membership.formed(generation=form.generation, step=self.step)
        self._links.telemetry.restart_line(self.step)
        if self.rank == 0:
            say(
                f"generation {form.generation}: {self._members} members, {self.world} ranks, "
                f"from step {self.step} ({form.source}), "
                f"{time.monotonic() - self._still_since:.3f} s after it held still"
            )

    def _synchronize(self, form: Form) -> None:
        links, source = self._links, form.source_rank
        links.saver.fence()  # a save may still be copying what is about to change
        if self.rank == source:
            if not self._held or form.source != "memory":
                self._load()
            synchronizing.send(links.group, self._state, self._position, source=source)
        else:
            keep = self._held or form.source == "initial"
            self._is_spoiled = self._is_spoiled or not keep
            self._position = synchronizing.receive(
                links.group,
                self._state,
                self._position if keep else None,
                source=source,
                layout=self._layout,
            )
        self._is_spoiled = False
        self._held = True

    def _load(self) -> None:
        """Take the newest checkpoint; without any, what the script began with, if that is left."""

        def targets(layout: Layout) -> dict[str, Tensor]:
            tensors = self._state.targets(layout, in_place=not self._held)
            self._is_spoiled = not self._held  # until all of it is there
            return tensors

        position = synchronizing.load_newest(
            self._links.shelf, self._state, self._position, targets=targets
        )
        if self._is_spoiled and position.step == 0:
            reason = "half a state came in, and there is no other: a fresh process must begin"
            self._leave(Leave(reason=reason, deadline=time.monotonic()))
        self._position = position

    # ------------------------------------------------------------ steps

    def _train(self) -> Iterator[Batch]:
        """Train in one generation, until it ends or the work is done."""
        while self.step < self._work.steps:
            if self._links.group.is_broken(self._generation):
                self._tell_broken("")
                self._hold_still()
                return
            yield self._open()
            if not self.attempt.settle():
                self._tell_broken(self.attempt.error)
                self._hold_still()
                return
            self._advance()
            if self.attempt.votes.pending > 0 and self.step < self._work.steps:
                self._hold_still()
                return
        self._links.membership.reached(step=self.step)

    def _open(self) -> Batch:
        """Begin the try at the next step: its samples, its random numbers, its share."""
        size, step = self._work.global_batch_size, self.step
        share = self._share
        # A rank without a share (more ranks than samples) computes on a sample that counts nothing.
        indices = self._shard.order.take(start=step * size + share.start, count=max(1, len(share)))
        self._meter.begin(is_watched=is_due(step))
        batch = self._shard.fetch(indices)
        chance.reseed(seed=self._shard.order.seed, step=step, rank=self.rank)
        self.attempt.open(weight=len(share) / size, meets=is_due(step))
        self.batch = batch
        self._meter.hand_over()
        return batch

    def _advance(self) -> None:
        """One more step is applied."""
        self._position = Position(
            step=self.step + 1, lineage=self._position.lineage, layout=self._layout
        )
        spent = self.attempt.spent
        split = self._meter.end(collectives=spent.collectives, met=spent.met, fenced=spent.fenced)
        timings = Timings(
            step_seconds=split.step,
            compute_seconds=split.compute,
            communication_seconds=split.communication,
            data_seconds=split.data,
            idle_seconds=split.idle,
            local_batch=len(self._share),
            gradient_bytes=self.attempt.gradient_bytes,
            gradient_tensors=self.attempt.gradient_tensors,
            peak_memory_bytes=self._meter.watched.peak_bytes,
        )
        self._links.telemetry.end_step(
            timings,
            step=self.step,
            steps=self._work.steps,
            is_first=self.rank == 0,
            members=self._members,
        )
        membership, saver = self._links.membership, self._links.saver
        if self.step >= self._work.steps or not self._is_first or not membership.duty():
            return
        if not saver.is_prepared:
            saver.prepare(synchronizing.describe(self._state, self._position))
        if saver.is_writing:
            return  # what is due or asked for stays so
        due = time.monotonic() - saver.started_at >= self._work.checkpoint_interval
        if membership.save_requested() or due:
            saver.begin(self._save(), early=self._state.addresses_of_early())

    def _vote(self) -> tuple[bool, bool]:
        membership = self._links.membership
        leaving = membership.leave_requested() is not None
        return leaving or membership.reform_pending(self._generation), leaving

    def _tell_broken(self, error: str) -> None:
        self._links.membership.broken(generation=self._generation, error=error)

    # ------------------------------------------------------------ the end

    def _save(self) -> Save:
        return Save(
            tree=synchronizing.describe(self._state, self._position),
            step=self.step,
            lineage=self._position.lineage,
            world_size=self.world,
            retain=self._work.checkpoint_retain,
            spread_seconds=SPREAD_SHARE * self._work.checkpoint_interval,
        )

    def _finish(self) -> None:
        """The last step is applied: whoever holds duty saves the final state."""
        links = self._links
        if not self._is_first or not links.membership.duty() or links.saver.is_writing:
            return
        if links.saver.saved_step == self.step:
            return
        if time.monotonic() - links.saver.tried_final_at >= RETRY_SECONDS:
            links.saver.tried_final_at = time.monotonic()
            self.was_chief = links.saver.save_now(self._save(), may_commit=links.membership.duty)

    def _release(self) -> None:
        """All is done and saved; a process that was no member to the end takes the final state."""
        if not self._held or self.step < self._work.steps:
            self._load()
            if self.step < self._work.steps:
                raise CheckpointError(
                    f"all {self._work.steps} steps are done, but their checkpoint is not to be "
                    f"seen here: {self._links.shelf.path}"
                )
            self._held = True
        self.is_done = True
        more = f": the checkpoint is of step {self.step}" if self.step > self._work.steps else ""
        say(f"all {self._work.steps} steps are done and saved{more}")

    def _leave(self, leave: Leave) -> None:
        """Leave the job for good, with the state saved if it would be lost otherwise."""
        links, saved = self._links, -1
        if leave.save and self._held and self._is_first:
            saved = self._save_before_leaving(leave)
        links.membership.left(step=self.step, saved_step=saved)
        say(f"leaving at step {self.step}: {leave.reason}")
        raise LeaveTraining(leave.reason)

    def _save_before_leaving(self, leave: Leave) -> int:
        save, saver = self._save(), self._links.saver
        needed = saver.estimate_seconds(save.tree)
        if needed > leave.seconds_left:
            since = f"step {saver.saved_step}" if saver.saved_step >= 0 else "the last checkpoint"
            say(
                f"no urgent checkpoint of step {self.step}: it needs {needed:.1f} s and "
                f"{leave.seconds_left:.1f} s are left; the steps since {since} will be done again"
            )
            return -1
        # Nobody goes on from this state, so nobody else's save can be meant to come after it.
        done = saver.save_now(save, may_commit=lambda: True, seconds=leave.seconds_left)
        return self.step if done else -1
