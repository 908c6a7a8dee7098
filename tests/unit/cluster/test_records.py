from collections import Counter
from typing import Any

import pytest

from ebbtide.api.convert import parse_job
from ebbtide.cluster.records import JobRecords, PoolRecords
from ebbtide.core.values.job import BrokenJob, Job, JobKey
from support.manifests import job_manifest, pool_manifest, stored

KEY = JobKey("team", "digits")


def job(version: int, uid: str = "first", **spec: Any) -> dict[str, Any]:
    body = stored(job_manifest(**spec))
    body["metadata"] |= {"resourceVersion": str(version), "uid": uid}
    return body


def pool(version: int, uid: str = "first", **spec: Any) -> dict[str, Any]:
    body = pool_manifest(**spec)
    body["metadata"] = {"name": "v100-spot", "resourceVersion": str(version), "uid": uid}
    return body


@pytest.fixture
def woken() -> Counter[JobKey]:
    return Counter()


@pytest.fixture
def jobs(woken: Counter[JobKey]) -> JobRecords:
    return JobRecords(lambda key: woken.update([key]))


def uid_of(jobs: JobRecords) -> str | None:
    record = jobs.get(KEY)
    return None if record is None else record.job.uid


def test_an_older_version_is_old_news(jobs: JobRecords, woken: Counter[JobKey]) -> None:
    jobs.put(job(5))
    jobs.put(job(5))
    jobs.put(job(4))

    assert woken[KEY] == 1


def test_the_late_answer_to_our_write_does_not_bring_a_deleted_job_back(jobs: JobRecords) -> None:
    jobs.put(job(5))
    jobs.drop(KEY, "first")

    jobs.put(job(6))

    assert jobs.get(KEY) is None


def test_a_namesake_is_not_touched_by_the_end_of_the_former_one(jobs: JobRecords) -> None:
    # B013: the news may come in any order.
    jobs.put(job(5, "first"))
    jobs.put(job(9, "second"))
    jobs.drop(KEY, "first")

    assert uid_of(jobs) == "second"


def test_a_list_ends_what_it_does_not_name_and_what_is_newer_stays(jobs: JobRecords) -> None:
    jobs.put(job(5))
    jobs.replace([], namespace="", version=4)
    assert uid_of(jobs) == "first"
    jobs.replace([], namespace="elsewhere", version=9)
    assert uid_of(jobs) == "first"

    jobs.replace([], namespace="team", version=9)

    assert uid_of(jobs) is None


def test_a_pool_that_cannot_be_used_is_left_out_until_it_can() -> None:
    changes: list[int] = []
    pools = PoolRecords(lambda: changes.append(1))
    pools.put(pool(1))
    pools.put(pool(2, maxNodes=-3))
    assert pools.pools() == ()

    pools.put(pool(3))

    assert [found.name for found in pools.pools()] == ["v100-spot"]
    assert len(changes) == 3


def test_a_deleted_pool_stays_away_and_a_new_one_of_its_name_does_not() -> None:
    pools = PoolRecords(lambda: None)
    pools.put(pool(1))
    pools.drop("v100-spot")
    pools.put(pool(1))
    assert pools.pools() == ()

    pools.put(pool(7, "second"))

    assert len(pools.pools()) == 1


def test_news_of_a_pools_status_wake_nobody() -> None:
    changes: list[int] = []
    pools = PoolRecords(lambda: changes.append(1))
    pools.put(pool(1))
    pools.put({**pool(2), "status": {"nodes": {"ready": 1, "total": 1}}})

    assert len(changes) == 1


def test_a_job_that_makes_us_stumble_keeps_no_other_from_being_read(
    jobs: JobRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(body: dict[str, Any]) -> Job | BrokenJob:
        if body["metadata"]["uid"] == "odd":
            raise ValueError("Exceeds the limit for integer string conversion")
        return parse_job(body)

    monkeypatch.setattr("ebbtide.cluster.records.parse_job", stumble)
    odd = job(5, "odd")
    odd["metadata"] |= {"name": "odd"}

    jobs.replace([odd, job(6)], namespace="", version=6)

    record = jobs.get(JobKey("team", "odd"))
    assert record is not None
    assert isinstance(record.job, BrokenJob)
    assert "cannot be read" in record.job.errors[0]
    assert uid_of(jobs) == "first"
