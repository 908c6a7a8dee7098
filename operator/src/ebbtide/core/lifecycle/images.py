"""
Images that cannot be pulled: the job's warm one is done without, its own are a human's to mend.

Workers and spares get the warm image while it can be pulled, else the template's. That it cannot
is seen on the first worker that waits for it. Whoever waits so is made again with the template's
image, at once and counted as nothing; who runs with it goes on. It is tried again when
`warmStart.image` names another one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from ebbtide.core.lifecycle.conditions import Claim
from ebbtide.core.lifecycle.coordination import retire_all
from ebbtide.core.lifecycle.ledger import is_retired
from ebbtide.core.lifecycle.passing import Pass
from ebbtide.core.values import reasons
from ebbtide.core.values.decision import Event
from ebbtide.core.values.job import Job
from ebbtide.core.values.observed import Pod, PodPhase, Role
from ebbtide.core.values.settings import Settings
from ebbtide.core.values.status import Attempts, RefusedImage

PULL_TROUBLE: frozenset[str] = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ImageInspectError",
        "ErrImageNeverPull",
    }
)
ADVICE = "; correct the image and apply again"


def judge(
    job: Job, pods: Sequence[Pod], before: RefusedImage | None, *, now: datetime
) -> RefusedImage | None:
    """Return what is known against the job's warm image; None: it may be used, or there is none."""
    if not job.warm_image or job.warm_image == job.template_image:
        return None
    if before is not None and before.image == job.warm_image:
        return before
    first = min(_waiting(pods, job.warm_image), key=lambda pod: pod.name, default=None)
    if first is None:
        return None
    said = f": {first.waiting_message}" if first.waiting_message else ""
    return RefusedImage(
        image=job.warm_image, since=now, message=f"{first.waiting_reason}{said}"[:1000]
    )


def image_for(job: Job, refused: RefusedImage | None) -> str:
    """Return the image that new workers get, "" for the template's."""
    return job.warm_image if refused is None else ""


def retire_waiting(this: Pass) -> Pass:
    """Return the pass in whose ledger whoever waits for the refused image is ours to end."""
    if this.refused_image is None:
        return this
    waiting = tuple(_waiting(this.observed.pods, this.refused_image.image))
    books = replace(this.books, attempts=retire_all(waiting, this.books.attempts))
    return replace(this, books=books)


def tell(job: Job, before: RefusedImage | None, refused: RefusedImage | None) -> tuple[Event, ...]:
    """Return the event for an image that was refused just now."""
    if refused is None or (before is not None and before.image == refused.image):
        return ()
    message = f"{explain(job, refused)}: {refused.message}"
    return (Event(reason=reasons.WARM_IMAGE_REFUSED, message=message[:1000], warning=True),)


def explain(job: Job, refused: RefusedImage) -> str:
    """Say which image is used instead of which."""
    return (
        f"warmStart.image {refused.image} cannot be pulled, workers use the template's "
        f"{job.template_image}"
    )


def note(claims: Mapping[str, Claim], job: Job, refused: RefusedImage | None) -> dict[str, Claim]:
    """Return the claims, with the fall-back in what is said of `Running`."""
    noted = dict(claims)
    running = noted.get(reasons.RUNNING)
    if refused is not None and running is not None:
        text = "; ".join(part for part in (running.message, explain(job, refused)) if part)
        noted[reasons.RUNNING] = replace(running, message=text)
    return noted


def _waiting(pods: Sequence[Pod], image: str) -> list[Pod]:
    return [
        pod
        for pod in pods
        if pod.role is Role.WORKER
        and not pod.ended
        and pod.waiting_image == image
        and pod.waiting_reason in PULL_TROUBLE
    ]


def find_trouble(this: Pass) -> tuple[str, timedelta | None]:
    """Return `pull_trouble`; what it found once holds until the spec changes."""
    stalled = this.before.condition(reasons.STALLED)
    if (
        stalled is not None
        and stalled.reason == reasons.IMAGE_PULL_FAILED
        and stalled.observed_generation == this.job.generation
    ):
        return stalled.message.removesuffix(ADVICE), None
    attempts = this.books.attempts
    return pull_trouble(
        this.observed.pods,
        is_ours=lambda pod: not is_retired(pod, attempts.get(pod.index_key, Attempts())),
        now=this.now,
        settings=this.settings,
    )


def pull_trouble(
    pods: Sequence[Pod], *, is_ours: Callable[[Pod], bool], now: datetime, settings: Settings
) -> tuple[str, timedelta | None]:
    """
    Find out whether nothing starts for want of an image.

    Returns:
        Words when no pod of the job has started and one has waited `imageWaitSeconds` for its
        image (else empty), and how long until that is so (None: nobody waits for an image).

    """
    live = [pod for pod in pods if is_ours(pod)]
    waiting = [pod for pod in live if pod.waiting_reason in PULL_TROUBLE]
    workers = [pod for pod in live if pod.role is Role.WORKER]
    if not waiting:
        return "", None
    only_coordinator = all(pod.role is Role.COORDINATOR for pod in waiting)
    if not only_coordinator and any(
        pod.started or pod.phase is PodPhase.RUNNING for pod in workers
    ):
        return "", None
    first = min(waiting, key=lambda pod: pod.bound_since or now)
    wait = (first.bound_since or now) + settings.image_wait - now
    if wait > timedelta(0):
        return "", wait
    seconds = settings.image_wait.total_seconds()
    text = f"no worker started within {seconds:.0f} s: {first.name}: {first.waiting_reason}"
    return f"{text}: {first.waiting_message}" if first.waiting_message else text, None
