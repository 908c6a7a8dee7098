from datetime import timedelta

import pytest

from ebbtide.cluster.errors import ConflictError
from ebbtide.controller.reconcile import Reconciler
from ebbtide.core.values import reasons
from ebbtide.core.values.decision import CreatePod
from ebbtide.core.values.job import JobKey
from ebbtide.core.values.observed import Observed
from ebbtide.core.values.settings import Settings
from ebbtide.core.values.status import JobStatus
from support.builders import ON_DEMAND, SPOT, at, make_job
from support.fake_cluster import FakeCluster

KEY = JobKey("team", "digits")


def make(cluster: FakeCluster) -> Reconciler:
    return Reconciler(cluster, settings=Settings(), clock=lambda: at(0))


def picture(**changes: object) -> Observed:
    job = make_job(**changes)
    return Observed(job=job, status=JobStatus(), pools=(SPOT, ON_DEMAND), has_secret=True)


async def test_a_pass_looks_acts_writes_once_and_tells_in_this_order() -> None:
    cluster = FakeCluster(picture())

    await make(cluster).reconcile(KEY)

    assert cluster.log == ["observe", "act", "status", "tell"]
    assert len(cluster.written) == 1
    assert sum(isinstance(action, CreatePod) for action in cluster.actions) == 4


async def test_a_job_that_is_gone_needs_nothing() -> None:
    cluster = FakeCluster()

    assert await make(cluster).reconcile(KEY) is None
    assert cluster.log == ["observe"]


async def test_a_job_of_another_controller_gets_not_even_a_status() -> None:
    cluster = FakeCluster(picture(managed_by="kueue.x-k8s.io/multikueue"))

    await make(cluster).reconcile(KEY)

    assert cluster.written == []
    assert cluster.actions == []


async def test_what_the_server_refused_is_in_the_status_of_the_same_pass() -> None:
    cluster = FakeCluster(picture())
    cluster.answer.rejected = "spec.containers[0].image: Required value"

    await make(cluster).reconcile(KEY)

    (status,) = cluster.written
    stalled = status.condition(reasons.STALLED)
    assert stalled is not None
    assert stalled.reason == reasons.POD_REJECTED
    assert "image: Required value" in stalled.message
    assert cluster.log.count("act") == 1  # and nothing is tried again before the next pass


async def test_a_name_that_somebody_else_has_is_in_the_status_of_the_same_pass() -> None:
    # B013
    cluster = FakeCluster(picture())
    cluster.answer.foreign = {"Pod digits-worker-0-1"}

    await make(cluster).reconcile(KEY)

    (status,) = cluster.written
    stalled = status.condition(reasons.STALLED)
    assert stalled is not None
    assert stalled.reason == reasons.NAME_TAKEN
    assert "digits-worker-0-1" in stalled.message


async def test_what_must_be_looked_at_again_comes_back_at_once() -> None:
    cluster = FakeCluster(picture())
    cluster.answer.again = True

    with pytest.raises(ConflictError):
        await make(cluster).reconcile(KEY)

    assert len(cluster.written) == 1  # what is known already is written all the same


async def test_nothing_is_told_when_the_status_could_not_be_written() -> None:
    cluster = FakeCluster(picture())
    cluster.error = ConflictError("changed")

    with pytest.raises(ConflictError):
        await make(cluster).reconcile(KEY)

    assert "tell" not in cluster.log


async def test_the_second_pass_over_the_same_picture_writes_nothing() -> None:
    # B042
    cluster = FakeCluster(picture())
    reconciler = make(cluster)
    await reconciler.reconcile(KEY)
    await reconciler.reconcile(KEY)
    written = len(cluster.written)

    delay = await reconciler.reconcile(KEY)

    assert len(cluster.written) == written
    assert delay is not None
    assert delay > timedelta(0)
