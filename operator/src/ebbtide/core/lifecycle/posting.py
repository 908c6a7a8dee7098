"""
Workers by plan: each index in its berth, nobody given up before somebody else is there.

Who moves gets a second pod in the new pool first, of the same index and the next attempt, and the
old one goes when the coordinator has the new one at hand. An index without a berth has no worker
in this plan: what it holds is given back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from ebbtide.core.lifecycle.berths import Berths, Quotas, assign
from ebbtide.core.lifecycle.workers import (
    Crew,
    Staffing,
    create,
    live_pods,
    not_before,
    settle,
)
from ebbtide.core.values import reasons
from ebbtide.core.values.decision import Event
from ebbtide.core.values.observed import Pod, Role
from ebbtide.core.values.pool import Market, Pool, Room
from ebbtide.core.values.status import Attempts


@dataclass(frozen=True, slots=True, kw_only=True)
class Posting:
    """What the plan asks for."""

    quotas: Quotas
    pools: Mapping[str, Pool]
    reason: str  # the plan's own words, for whoever is moved
    waiting: str = ""  # why indexes have no worker now, where the plan would rather wait


def look_for_rooms(crew: Crew, attempts: Mapping[str, Attempts]) -> dict[str, Room]:
    """Return what the job's own pods show of each pool where it has some."""
    rooms: dict[str, Room] = {}
    for pod in live_pods(crew, attempts):
        if crew.risk(pod):
            continue
        room = rooms.get(pod.pool, Room())
        rooms[pod.pool] = _count_in(pod, room, crew)
    return rooms


def _count_in(pod: Pod, room: Room, crew: Crew) -> Room:
    """Count one more pod."""
    if pod.node:
        return replace(room, held=room.held + 1)
    room, since = replace(room, coming=room.coming + 1), pod.unschedulable_since
    if since is None:
        return room
    first = min(since, room.waiting_since or since)
    is_dry = first + crew.settings.capacity_wait <= crew.now
    return replace(room, waiting_since=first, dry_since=first if is_dry else room.dry_since)


def post(crew: Crew, attempts: Mapping[str, Attempts], posting: Posting) -> Staffing:
    """Decide for every index what to make and what to retire."""
    by_index: dict[int, list[Pod]] = {}
    for pod in sorted(live_pods(crew, attempts), key=lambda pod: pod.attempt):
        by_index.setdefault(pod.index, []).append(pod)
    sound = {index: [pod for pod in pods if not crew.risk(pod)] for index, pods in by_index.items()}
    members = frozenset(pod.name for pod in crew.pods if crew.is_member(pod))
    berths = assign(posting.quotas, sound, members=members)
    out = Staffing(attempts=dict(attempts), load=dict(crew.other_load))
    one = _Posts(crew=crew, posting=posting, berths=berths, out=out)
    for index in range(posting.quotas.workers):
        one.fill(index, by_index.get(index, []), sound.get(index, []))
    for index in sorted(index for index in by_index if index >= posting.quotas.workers):
        for pod in by_index[index]:
            out.retire(pod)
    return out


@dataclass(frozen=True, slots=True, kw_only=True)
class _Posts:
    """One pass over the indexes."""

    crew: Crew
    posting: Posting
    berths: Berths
    out: Staffing

    def fill(self, index: int, live: Sequence[Pod], sound: Sequence[Pod]) -> None:
        key = f"{Role.WORKER}-{index}"
        settle(key, live, crew=self.crew, out=self.out)
        home, probe = self.berths.home.get(index), self.berths.probe.get(index)
        at_home = [pod for pod in sound if pod.pool == home]
        probing = [pod for pod in sound if pod.pool == probe and pod.pool != home]
        self._release(at_home, [pod for pod in sound if pod.pool not in (home, probe)], home)
        for pod in probing[1:]:
            self.out.retire(pod)
        if home is None:
            self.out.forsaken |= {pod.name for pod in live if pod not in sound}
            self._tell_waiting(index, probing)
        elif not at_home:
            self._make(index, self.posting.pools[home], live)
        else:
            self._watch(at_home)
        if probe is not None and not probing:
            self._make(index, self.posting.pools[probe], live, told=False)

    def _release(self, at_home: list[Pod], elsewhere: list[Pod], home: str | None) -> None:
        """Retire whom somebody at hand stands in for, or for whom the plan has no place."""
        at_hand = self.crew.at_hand(at_home)
        if at_hand:
            keep = self.crew.best(at_hand)
            for pod in at_home:
                if pod is not keep:
                    self.out.retire(pod)
        for pod in elsewhere:
            if at_hand or home is None or not pod.node:
                self.out.retire(pod)
            if at_hand and home is not None and pod.node:
                self._tell_move(pod, home)

    def _make(self, index: int, pool: Pool, live: Sequence[Pod], *, told: bool = True) -> None:
        entry = self.out.attempts[f"{Role.WORKER}-{index}"]
        wait = not_before(entry, self.crew) - self.crew.now if not live else timedelta(0)
        if wait > timedelta(0):
            self.out.timers.append(wait)
            text = f"worker {index} is made again in {wait.total_seconds():.0f} s"
            self.out.backing_off.append(text)
            return
        create(index, pool, crew=self.crew, out=self.out)
        if told:
            self.out.events += self._explain(index, pool, live, lost=entry.lost)

    def _explain(self, index: int, pool: Pool, live: Sequence[Pod], *, lost: bool) -> list[Event]:
        quotas = self.posting.quotas
        dry = [p.pool for p in live if not p.node and p.pool in quotas.dry]
        is_instead = bool(dry) or ((live or lost) and quotas.stands_in(pool.name))
        if is_instead and pool.market is Market.ON_DEMAND:
            where = f"pool {dry[0]} has" if dry else "spot pools have"
            text = f"{where} no node for worker {index}, on-demand pool {pool.name} stands in"
            return [Event(reason=reasons.FELL_BACK, message=text)]
        risk = next((self.crew.risk(p) for p in live if self.crew.risk(p)), "")
        if risk or lost:
            cause = risk or "its predecessor was lost"
            text = f"made a replacement for worker {index} in pool {pool.name}: {cause}"
            return [Event(reason=reasons.REPLACEMENT_CREATED, message=text)]
        return []  # a move is told when it is done

    def _tell_move(self, pod: Pod, home: str) -> None:
        """Say that a worker has gone to another pool."""
        pools = self.posting.pools
        markets = [pools[name].market if name in pools else None for name in (pod.pool, home)]
        back = markets == [Market.ON_DEMAND, Market.SPOT]
        text = (
            f"worker {pod.index} moves from pool {pod.pool} to pool {home}: {self.posting.reason}"
        )
        reason = reasons.RETURNED if back else reasons.MOVED_POOL
        self.out.events.append(Event(reason=reason, message=text))

    def _watch(self, at_home: Sequence[Pod]) -> None:
        """Say whom the plan counts on and who has no node yet."""
        if any(pod.node for pod in at_home):
            return
        for pod in at_home:
            if pod.unschedulable_since is None:
                continue
            self._say_unscheduled(pod)
            left = pod.unschedulable_since + self.crew.settings.capacity_wait - self.crew.now
            if left > timedelta(0):
                self.out.timers.append(left)
            self.out.starved = self.out.starved or left <= timedelta(0)

    def _tell_waiting(self, index: int, probing: Sequence[Pod]) -> None:
        """Say why an index has no worker."""
        self.out.starved = True
        for pod in probing:
            self._say_unscheduled(pod)
        if not probing and self.posting.waiting:
            self.out.waits.append(f"worker {index}: {self.posting.waiting}")

    def _say_unscheduled(self, pod: Pod) -> None:
        since = pod.unschedulable_since
        if since is None:
            return
        text = f"worker {pod.index} waits for a node in pool {pod.pool} since {since:%H:%M:%S}"
        message = f": {pod.unschedulable_message}" if pod.unschedulable_message else ""
        self.out.waits.append(text + message)
