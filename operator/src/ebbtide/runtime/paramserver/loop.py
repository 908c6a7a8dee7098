"""
The loop of a worker whose parameters are on servers.

Take a step, compute its batch, push the gradient, take the new parameters and the next step with
them. Members come and go without anybody holding still; only who is no member waits.
"""

import threading
import time
from collections.abc import Iterator
from typing import Final

from ebbtide.runtime import chance, sharding
from ebbtide.runtime.batches import Batch, Shard
from ebbtide.runtime.errors import CheckpointError, LeaveTraining
from ebbtide.runtime.links import Links
from ebbtide.runtime.membership import Leave
from ebbtide.runtime.paramserver import snapshots
from ebbtide.runtime.paramserver.binding import Binding
from ebbtide.runtime.paramserver.client import Client
from ebbtide.runtime.paramserver.layout import describe, find_tables
from ebbtide.runtime.paramserver.messages import Fresh, Ready
from ebbtide.runtime.paramserver.pushing import Push
from ebbtide.runtime.profiler.meter import Meter
from ebbtide.runtime.reporting import say
from ebbtide.runtime.staging import Save
from ebbtide.runtime.standing import Timings
from ebbtide.runtime.state import TrainState
from ebbtide.runtime.synchronizing import check_layout
from ebbtide.wire.messages import Form, Released, WorkSpec

LOOK_SECONDS: Final = 0.1
RETRY_SECONDS: Final = 2.0


class ServerLoop:
    """One process's way through a job with parameter servers."""

    def __init__(self, links: Links, *, state: TrainState, shard: Shard) -> None:
        self._links = links
        self._state = state
        self._shard = shard
        data = sharding.layout(shard.order, batch=self._work.global_batch_size)
        layout = describe(state.model, state.optimizer, tables=find_tables(state.model), data=data)
        self._binding = Binding(state.model, state.optimizer, layout)
        place = links.place
        self._client = Client(
            self._binding.shared,
            layout,
            token=links.token,
            worker=f"{place.worker}/{place.local_rank}",
            servers=links.membership.servers,
            patience=self._look,
        )
        self.attempt = Push(
            self._binding,
            state.optimizer,
            client=self._client,
            fence=links.saver.fence,
            wants_more=self._wants_more,
        )
        self._meter = Meter(state.model.parameters(), device=links.device)
        self.batch: Batch | None = None
        self.is_done = False
        self.was_chief = False
        self.rank, self.world = 0, 1
        self._members = 0
        self._reached = False
        self._saving: threading.Thread | None = None

    @property
    def step(self) -> int:
        """The step that is computed now; after the loop: how many there were."""
        return self._work.steps if self.is_done else self.attempt.step

    @property
    def _work(self) -> WorkSpec:
        return self._links.membership.work

    @property
    def _is_first(self) -> bool:
        return self._links.place.local_rank == 0

    @property
    def _num_applied(self) -> int:
        return self._client.held.step

    def run(self) -> Iterator[Batch]:
        """Give this process's batches until all of the job's steps are done."""
        self._links.group.close()
        fresh: Fresh | None = None
        try:
            self._introduce(self._client.enter())
            while self._await_place():
                fresh = fresh or self._client.want()
                self._binding.pull()
                if fresh.is_done:
                    self._reach()
                    continue
                yield self._open(fresh.step)
                self.attempt.settle()
                self._advance()
                answer = self.attempt.fresh
                fresh = answer if answer and (answer.step >= 0 or answer.is_done) else None
        finally:
            self._client.close()
            self._links.membership.close()
            if self._saving is not None:
                self._saving.join(self._links.place.notice_seconds)
            self._links.saver.close()

    # ------------------------------------------------------------ members

    def _introduce(self, ready: Ready) -> None:
        """Tell the coordinator what there is to go on from."""
        links, step = self._links, ready.standing.step
        resumed = ready.origin == "checkpoint"
        if resumed:
            self._resume(step)
        error = links.shelf.probe() if self._is_first else ""
        links.membership.idle(
            generation=0,
            step=step,
            holds_state=not resumed and step > 0,
            checkpoint_step=step if resumed else -1,
            checkpoint_error=error,
        )

    def _resume(self, step: int) -> None:
        """Take what servers do not hold from the checkpoint that they took the rest from."""
        loaded = self._links.shelf.load()
        if loaded is None or loaded.manifest.step != step:
            return
        check_layout(loaded.tree["layout"], dict(self._binding.layout.data))
        self._state.put_side(loaded.tree)
        groups = loaded.tree["optimizer"]["param_groups"]
        for own, known in zip(self._state.optimizer.param_groups, groups, strict=True):
            own.update({name: value for name, value in known.items() if name != "params"})
        self.attempt.scheduled = step
        say(
            f"resumed from the checkpoint of step {step}, "
            f"written by a world of {loaded.manifest.world_size}"
        )

    def _await_place(self) -> bool:
        """Wait until this process is to train; False when the work is done."""
        membership = self._links.membership
        while True:
            is_busy = membership.is_member() and not self._reached
            match membership.wait_for_form(timeout=0.0 if is_busy else LOOK_SECONDS):
                case Form() as form:
                    self._take_seat(form)
                case Released():
                    self._release()
                    return False
                case Leave() as leave:
                    self._leave(leave)
                case None if self._reached:
                    self._finish()
                case None if is_busy:
                    return True
                case None:
                    pass

    def _take_seat(self, form: Form) -> None:
        place = self._links.place
        mine = next((each for each in form.members if each.worker == place.worker), None)
        self.rank = 0 if mine is None else mine.first_rank + place.local_rank
        self.world, self._members = form.world_size, len(form.members)
        if self._reached:
            self._links.membership.reached(step=self._work.steps)
        if self.rank == 0:
            say(f"generation {form.generation}: {self._members} members, {self.world} ranks")

    def _look(self) -> None:
        """While the client waits: go when it is time to."""
        leave = self._links.membership.leave_requested()
        if leave is not None and leave.seconds_left <= 1.0:
            self._leave(leave)

    def _wants_more(self) -> bool:
        membership = self._links.membership
        return membership.is_member() and membership.leave_requested() is None

    # ------------------------------------------------------------ steps

    def _open(self, step: int) -> Batch:
        size = self._work.global_batch_size
        self._meter.begin(is_watched=False)
        batch = self._shard.fetch(self._shard.order.take(start=step * size, count=size))
        chance.reseed(seed=self._shard.order.seed, step=step, rank=0)
        self.attempt.open(step)
        self.batch = batch
        self._meter.hand_over()
        return batch

    def _advance(self) -> None:
        links = self._links
        split = self._meter.end(collectives=self._client.take_wait())
        links.telemetry.end_step(
            Timings(
                step_seconds=split.step,
                compute_seconds=split.compute,
                communication_seconds=split.communication,
                data_seconds=split.data,
                local_batch=self._work.global_batch_size,
                gradient_bytes=4 * self._binding.layout.dense_size,
                gradient_tensors=len(self._binding.layout.entries),
            ),
            step=self._num_applied,
            steps=self._work.steps,
            is_first=self.rank == 0,
            members=self._members,
        )
        is_over = self._num_applied >= self._work.steps
        if is_over or not self._is_first or not links.membership.duty():
            return
        due = time.monotonic() - links.saver.started_at >= self._work.checkpoint_interval
        is_busy = self._saving is not None and self._saving.is_alive()
        if not is_busy and (links.membership.save_requested() or due):
            links.saver.started_at = time.monotonic()
            self._saving = threading.Thread(
                target=self._save, args=(self._side(),), name="ebbtide-save", daemon=True
            )
            self._saving.start()

    # ------------------------------------------------------------ checkpoints, the end

    def _side(self) -> dict[str, object]:
        return {
            **self._state.take_side(),
            "kinds": self._state.take()["kinds"],
            "groups": self._state.optimizer.state_dict()["param_groups"],
        }

    def _save(self, side: dict[str, object], *, leaving: bool = False) -> int:
        """Save the servers' state; return its step, -1 when that did not work."""
        membership, saver = self._links.membership, self._links.saver
        groups = side.pop("groups")
        try:
            snapshot = snapshots.take(membership.servers(), token=self._links.token)
        except CheckpointError as error:
            membership.failed(step=self._num_applied, error=str(error))
            return -1
        tree = snapshot.tree(side, groups=groups if isinstance(groups, list) else [])
        tree["model"] = self._binding.whole_model(tree["model"])
        save = Save(
            tree=tree,
            step=snapshot.standing.step,
            lineage=snapshot.standing.lineage,
            world_size=self.world,
            retain=self._work.checkpoint_retain,
        )
        may_commit = (lambda: True) if leaving else membership.duty
        return save.step if saver.save_now(save, may_commit=may_commit) else -1

    def _reach(self) -> None:
        self._reached = True
        self._links.membership.progress(step=self._work.steps)
        self._links.membership.reached(step=self._work.steps)

    def _finish(self) -> None:
        """All steps are applied: whoever holds duty saves the final state."""
        links = self._links
        if not self._is_first or not links.membership.duty():
            return
        if links.saver.saved_step >= self._work.steps:
            return
        if time.monotonic() - links.saver.tried_final_at >= RETRY_SECONDS:
            links.saver.tried_final_at = time.monotonic()
            self.was_chief = self._save(self._side()) == self._work.steps

    def _release(self) -> None:
        """All is done and saved; who was no member to the end takes the final parameters."""
        if not self._reached:
            loaded = self._links.shelf.load()
            if loaded is None or loaded.manifest.step < self._work.steps:
                raise CheckpointError(
                    f"all {self._work.steps} steps are done, but their checkpoint is not to be "
                    f"seen here: {self._links.shelf.path}"
                )
            self._state.model.load_state_dict(loaded.tree["model"])
        self.is_done = True
        say(f"all {self._work.steps} steps are done and saved")

    def _leave(self, leave: Leave) -> None:
        """Leave the job for good; the servers hold the state, so there is little to save."""
        saved_step = -1
        self._client.close()
        if leave.save and self._is_first:
            saved_step = self._save(self._side(), leaving=True)
        self._links.membership.left(step=self._num_applied, saved_step=saved_step)
        say(f"leaving at step {self._num_applied}: {leave.reason}")
        raise LeaveTraining(leave.reason)
