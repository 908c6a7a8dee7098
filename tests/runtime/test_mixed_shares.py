"""GPUs of two kinds in one job: the slow one takes less, and nothing else changes."""

from .conftest import MakeJob


def test_a_slow_kind_takes_a_smaller_share_of_the_same_batch(make_job: MakeJob) -> None:
    job = make_job(
        "--pause-per-sample", "0.002", "--slow-gpu", "slow", global_batch_size=32, steps=120
    )

    job.start_coordinator()
    job.start_worker(0, EBBTIDE_GPU="fast")
    job.start_worker(1, EBBTIDE_GPU="slow")
    job.await_done()

    results = job.results()
    fast, slow = (results[f"test-worker-{index}-1-0"] for index in (0, 1))
    assert fast["share"] + slow["share"] == 32
    assert 20 <= fast["share"] <= 27, "three quarters of it, or a little less"
    assert fast["digest"] == slow["digest"]
    report = job.report()
    assert report.finished
    assert [recovery.cause for recovery in report.recoveries].count("rebalanced") >= 1
    assert report.steps_redone == 0


def test_a_loss_among_unequal_kinds_is_made_good(make_job: MakeJob) -> None:
    job = make_job(
        "--pause-per-sample", "0.002", "--slow-gpu", "slow",
        global_batch_size=32, steps=150, min_replicas=1, desired=3,
    )  # fmt: skip

    job.start_coordinator()
    workers = [
        job.start_worker(index, EBBTIDE_GPU=gpu)
        for index, gpu in enumerate(("fast", "slow", "fast"))
    ]
    job.await_step(60)
    workers[2].kill()
    job.await_done()

    results = job.results()
    assert len({result["digest"] for result in results.values()}) == 1
    shares = [results[f"test-worker-{index}-1-0"]["share"] for index in (0, 1)]
    assert sum(shares) == 32
    assert shares[0] >= 20, "what is known of the kinds outlives the member"
    assert job.report().finished
