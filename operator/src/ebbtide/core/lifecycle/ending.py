"""When a job is over: done, failed, out of time."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from ebbtide.core.values import reasons
from ebbtide.core.values.job import Job
from ebbtide.core.values.observed import Pod, Role
from ebbtide.core.values.settings import Settings
from ebbtide.core.values.status import Attempts, Counters, JobStatus, LastFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The condition that becomes True and stays, and why."""

    condition: str
    reason: str
    message: str


def is_over(status: JobStatus) -> bool:
    """Tell whether the job has ended, one way or the other."""
    return status.is_true(reasons.COMPLETE) or status.is_true(reasons.FAILED)


def find_failure(
    job: Job,
    status: JobStatus,
    *,
    counters: Counters,
    last_failure: LastFailure | None,
    now: datetime,
) -> tuple[Ending | None, timedelta | None]:
    """Tell whether the job has failed, and otherwise how long its kill timer still runs."""
    if counters.failures > job.backoff_limit:
        last = f"; the last: {last_failure.message}" if last_failure else ""
        message = f"{counters.failures} failures, backoffLimit is {job.backoff_limit}{last}"
        return _failed(reasons.BACKOFF_LIMIT_EXCEEDED, message), None
    if job.active_deadline is None or status.start is None:
        return None, None
    left = status.start + job.active_deadline - now
    if left > timedelta(0):
        return None, left
    seconds = job.active_deadline.total_seconds()
    message = (
        f"it ran for activeDeadlineSeconds ({seconds:.0f} s) since {status.start:%H:%M:%S} UTC"
    )
    return _failed(reasons.DEADLINE_EXCEEDED, message), None


def finish_began(status: JobStatus) -> datetime | None:
    """Return when the work was first known to be done."""
    running = status.condition(reasons.RUNNING)
    done = running is not None and running.reason == reasons.FINISHED
    return running.last_transition if running is not None and done else None


def find_completion(
    pods: tuple[Pod, ...],
    status: JobStatus,
    *,
    steps: int,
    now: datetime,
    settings: Settings,
) -> tuple[Ending | None, timedelta | None]:
    """Tell whether a job whose work is done is Complete: every member has exited or been lost."""
    began = finish_began(status)
    if began is None:
        return None, timedelta(0)
    running = [pod.name for pod in pods if pod.role is Role.WORKER and not pod.ended]
    left = began + settings.finish_grace - now
    if running and left > timedelta(0):
        return None, left
    message = f"all {steps} steps are done and the final checkpoint is committed"
    if running:
        seconds = settings.finish_grace.total_seconds()
        message += f"; {', '.join(running)} did not exit within {seconds:.0f} s and is ended"
    return Ending(condition=reasons.COMPLETE, reason=reasons.WORK_DONE, message=message), None


def done_indexes(attempts: Mapping[str, Attempts], *, desired: int) -> tuple[int, ...]:
    """Return the indexes whose newest attempt exited 0, where exits tell that the work is done."""
    return tuple(
        index for index in range(desired) if attempts.get(f"{Role.WORKER}-{index}", Attempts()).done
    )


def find_exits(job: Job, attempts: Mapping[str, Attempts], *, desired: int) -> Ending | None:
    """Tell whether a job that counts no steps is Complete: every index has exited 0."""
    if job.counts_steps or not desired or len(done_indexes(attempts, desired=desired)) < desired:
        return None
    message = f"the newest attempt of each of {desired} workers exited 0"
    return Ending(condition=reasons.COMPLETE, reason=reasons.WORK_DONE, message=message)


def _failed(reason: str, message: str) -> Ending:
    return Ending(condition=reasons.FAILED, reason=reason, message=message)
