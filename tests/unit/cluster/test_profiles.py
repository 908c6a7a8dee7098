"""Which WorkloadProfile a job means, and who is woken when one changes."""

from typing import Any

import pytest

from ebbtide.cluster.errors import ClusterError, ForbiddenError, NotFoundError
from ebbtide.core.values.workload import Profile
from support.fake_api import FakeApi
from support.live import KEY, Bench, running, with_job
from support.manifests import changed, job_manifest, profile_manifest, stored

PROFILES = "/apis/ebbtide.dev/v1alpha1/namespaces/team/workloadprofiles"
ALL = "/apis/ebbtide.dev/v1alpha1/workloadprofiles"
LABELLED = "/apis/ebbtide.dev/v1alpha1/namespaces/team/trainingjobs/digits"


def put_profile(api: FakeApi, name: str = "resnet50", **spec: Any) -> str:
    path = f"{PROFILES}/{name}"
    api.put(path, profile_manifest(name, **spec))
    return path


def with_label(workload: str) -> FakeApi:
    api = FakeApi()
    manifest = stored(
        changed(job_manifest(), {"metadata.labels": {"ebbtide.dev/workload": workload}})
    )
    del manifest["metadata"]["resourceVersion"]
    api.put(LABELLED, manifest)
    return api


async def look(bench: Bench) -> tuple[Profile | None, str]:
    observed = await bench.cluster.observe(KEY)
    assert observed is not None
    return observed.profile, observed.profile_error


async def test_a_job_gets_the_profile_that_it_names() -> None:
    api = with_job(profile="resnet50")
    put_profile(api, parameters=1e6)
    async with running(api) as bench:
        profile, error = await look(bench)

    assert profile is not None
    assert (profile.workload, profile.parameters, error) == ("resnet50", 1e6, "")


async def test_a_job_that_names_none_gets_none_and_no_word_about_it() -> None:
    api = with_job()
    put_profile(api)
    async with running(api) as bench:
        assert await look(bench) == (None, "")


async def test_a_profile_that_is_not_there_is_named() -> None:
    async with running(with_job(profile="resnet51")) as bench:
        assert await look(bench) == (
            None,
            "WorkloadProfile resnet51 is not there in namespace team",
        )


async def test_a_profile_of_another_namespace_is_not_there() -> None:
    api = with_job(profile="resnet50")
    api.put(PROFILES.replace("team", "other") + "/resnet50", profile_manifest() | {"metadata": {}})
    async with running(api) as bench:
        profile, error = await look(bench)

    assert profile is None
    assert "is not there in namespace team" in error


async def test_a_profile_that_cannot_be_used_says_why() -> None:
    api = with_job(profile="resnet50")
    put_profile(api, parameters=-1)
    async with running(api) as bench:
        profile, error = await look(bench)

    assert profile is None
    assert error.startswith("WorkloadProfile resnet50 cannot be used: spec.parameters: is -1")


@pytest.mark.parametrize("error", [ForbiddenError("no"), NotFoundError("no such kind")])
async def test_without_the_right_or_the_kind_jobs_go_on(error: ClusterError) -> None:
    api = with_job(profile="resnet50")
    put_profile(api)
    api.fail("read", ALL, error)
    async with running(api) as bench:
        profile, told = await look(bench)

    assert profile is None
    assert "cannot be read" in told


async def test_a_label_finds_the_first_profile_of_its_workload() -> None:
    api = with_label("resnet50")
    put_profile(api, "a-other", workload="vgg16", parameters=1)
    put_profile(api, "c-later", parameters=3)
    put_profile(api, "b-first", parameters=2)
    async with running(api) as bench:
        profile, error = await look(bench)

    assert profile is not None
    assert (profile.parameters, error) == (2, "")


async def test_a_label_that_finds_nothing_is_no_mistake() -> None:
    async with running(with_label("resnet50")) as bench:
        assert await look(bench) == (None, "")


async def test_a_change_of_its_profile_wakes_a_job_and_is_seen() -> None:
    api = with_job(profile="resnet50")
    path = put_profile(api, parameters=1e6)
    async with running(api) as bench:
        await look(bench)
        bench.woken.clear()
        api.change(path, spec={"parameters": 2e6})
        await bench.settle()
        woken = bench.woken[KEY]
        profile, _ = await look(bench)

    assert woken
    assert profile is not None
    assert profile.parameters == 2e6


async def test_a_profile_that_goes_is_gone() -> None:
    api = with_job(profile="resnet50")
    path = put_profile(api)
    async with running(api) as bench:
        bench.woken.clear()
        api.remove(path)
        await bench.settle()

        assert bench.woken[KEY]
        assert (await look(bench))[0] is None


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"status": {"samples": 3}}, id="news that say nothing new"),
        pytest.param({"metadata": {"labels": {"a": "b"}}}, id="a label of the profile"),
    ],
)
async def test_what_means_nothing_to_a_job_wakes_nobody(change: dict[str, Any]) -> None:
    api = with_job(profile="resnet50")
    path = put_profile(api)
    async with running(api) as bench:
        bench.woken.clear()
        api.change(path, **change)
        await bench.settle()

        assert not bench.woken


async def test_a_profile_that_no_job_uses_wakes_nobody() -> None:
    api = with_job(profile="resnet50")
    async with running(api) as bench:
        bench.woken.clear()
        put_profile(api, "vgg16", workload="vgg16")
        await bench.settle()

        assert not bench.woken


async def test_a_profile_whose_workload_changes_wakes_those_who_used_it() -> None:
    api = with_label("resnet50")
    path = put_profile(api)
    async with running(api) as bench:
        assert (await look(bench))[0] is not None
        bench.woken.clear()
        api.change(path, spec={"workload": "vgg16"})
        await bench.settle()

        assert bench.woken[KEY]
        assert await look(bench) == (None, "")


async def test_in_a_namespaced_install_profiles_of_that_namespace_alone_are_watched() -> None:
    api = with_job(profile="resnet50")
    put_profile(api)
    async with running(api, namespaces=("team",)) as bench:
        assert (await look(bench))[0] is not None
    assert api.count("read", ALL) == 0
