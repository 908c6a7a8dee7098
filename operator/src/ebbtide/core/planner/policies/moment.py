"""What a policy is asked and how it answers. Times are seconds, money is USD per second."""

from dataclasses import dataclass
from typing import Final, NamedTuple, NewType, Protocol

Place = NewType("Place", int)
"""Where a job runs: a zone on spot by its number from 0, or one of the two below."""

IDLE: Final = Place(-2)
ON_DEMAND: Final = Place(-1)


class Moment(NamedTuple):
    """One job before one tick; a tuple, because a replay makes a hundred thousand a second."""

    row: int
    """Of the history: what stands in this row and before is known."""
    elapsed_s: float
    """Since the job came."""
    left_s: float
    """To the deadline."""
    work_s: float
    """Work that is left, as seconds of running."""
    place: Place
    """Where the job runs; IDLE too where its zone has just been lost."""
    changing_s: float
    """How long the changeover to this place has gone on; below 0 once progress is made."""
    up: tuple[bool, ...]
    """Whether each zone has a node for this tick."""
    spot_usd_per_s: tuple[float, ...] = ()
    """What each zone costs now; empty where it is what the terms say, always and everywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a policy knows of its job beforehand."""

    work_s: float
    deadline_s: float
    """From the start of the job."""
    changeover_s: float
    """Paid time without progress at each start and each move, as expected."""
    worst_changeover_s: float
    """The longest changeover that must not cost the deadline."""
    spot_usd_per_s: float
    """Where a moment does not say better."""
    on_demand_usd_per_s: float
    tick_s: float
    """Time between two decisions."""

    def __post_init__(self) -> None:
        above = ("work_s", "deadline_s", "spot_usd_per_s", "on_demand_usd_per_s", "tick_s")
        for name in above:
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} {getattr(self, name)}: a number above 0 is needed")
        if not 0 <= self.changeover_s < float("inf"):
            raise ValueError(f"changeover_s {self.changeover_s}: a number from 0 is needed")
        if not self.changeover_s <= self.worst_changeover_s < float("inf"):
            raise ValueError(
                f"worst_changeover_s {self.worst_changeover_s}: at least changeover_s, "
                f"{self.changeover_s}, is needed"
            )

    @property
    def slack_s(self) -> float:
        """Time that may pass without progress."""
        return self.deadline_s - self.work_s


class Policy(Protocol):
    """Chooses a place for each tick of one job."""

    def decide(self, moment: Moment) -> Place:
        """Return a zone that is up, ON_DEMAND or IDLE, for the whole tick."""


def first_up(moment: Moment) -> Place:
    """Return the zone that the job is in, else the first in order that is up, else IDLE."""
    if moment.place >= 0:
        return moment.place
    for zone, is_up in enumerate(moment.up):
        if is_up:
            return Place(zone)
    return IDLE


def must_run(moment: Moment, *, changeover_s: float) -> bool:
    """
    Tell whether a job that makes no progress would be late unless it starts on on-demand now.

    From two changeovers of slack down a try on spot may fail and leave too little for on-demand;
    on spot with the changeover done, work and slack stay as they are.
    """
    if moment.place >= 0 and moment.changing_s < 0:
        return False
    return moment.left_s < moment.work_s + 2 * changeover_s


def may_wait(moment: Moment, *, changeover_s: float, tick_s: float) -> bool:
    """Tell whether on-demand can still make it after one more tick without progress."""
    return moment.left_s >= moment.work_s + changeover_s + tick_s
