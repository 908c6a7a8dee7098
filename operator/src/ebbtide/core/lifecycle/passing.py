"""What one pass over a job knows, and what a branch of it decides."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from ebbtide.core.lifecycle.conditions import Claim
from ebbtide.core.lifecycle.ending import finish_began
from ebbtide.core.lifecycle.ledger import Books
from ebbtide.core.lifecycle.signs import Sign
from ebbtide.core.values.decision import Action, Event
from ebbtide.core.values.job import Job
from ebbtide.core.values.observed import Observed
from ebbtide.core.values.plan import PlanRecord
from ebbtide.core.values.settings import Settings
from ebbtide.core.values.status import Attempts, Cost, JobStatus, RefusedImage
from ebbtide.wire.messages import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One pass over a readable job."""

    job: Job
    observed: Observed
    now: datetime
    settings: Settings
    signs: Mapping[str, Sign]
    books: Books
    cost: Cost  # up to now
    refused_image: RefusedImage | None = None

    @property
    def before(self) -> JobStatus:
        """The status as it was last written."""
        return self.observed.status

    @property
    def report(self) -> Report | None:
        """The coordinator's last word."""
        return self.observed.coordinator.report

    @property
    def finished(self) -> bool:
        """Whether the work is known to be done."""
        if not self.job.counts_steps:
            return False  # every pod's own exit tells
        told = self.report is not None and self.report.finished
        return told or finish_began(self.before) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one branch decided."""

    claims: Mapping[str, Claim]
    attempts: Mapping[str, Attempts]
    desired: int
    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    timers: tuple[timedelta, ...] = ()
    ended: bool = False
    suspended: bool = False
    idle: bool = False  # nothing is to run: only a plan is wanted, or there is none
    record: PlanRecord | None = None  # what was planned; None: as before
