"""What the real API server makes of WorkloadProfiles, and of what a pool's status will say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ebbtide.api.convert import parse_profile
from support.manifests import pool_manifest, profile_manifest
from world.api import MERGE, ApiError

if TYPE_CHECKING:
    from support.kubectl import Kubectl
    from world.api import Api

GROUP = "/apis/ebbtide.dev/v1alpha1"


@pytest.fixture
def profiles(namespace: str) -> str:
    return f"{GROUP}/namespaces/{namespace}/workloadprofiles"


def here(**spec: Any) -> dict[str, Any]:
    manifest = profile_manifest(**spec)
    del manifest["metadata"]["namespace"]
    return manifest


async def test_a_profile_comes_back_as_it_was_given(api: Api, profiles: str) -> None:
    given = here(
        maxLocalBatch={"V100": 128},
        commTimes=[{"gpus": 8, "nodes": 2, "bytes": 1e8, "seconds": 0.05}],
        bucketReady=[0.1],
        noiseScale=4000.5,
    )

    stored = await api.request("POST", profiles, given, fieldValidation="Strict")

    assert parse_profile(stored) == parse_profile(given)


@pytest.mark.parametrize(
    ("spec", "path", "says"),
    [
        ({"workload": ""}, "spec.workload", "at least 1 chars long"),
        ({"parameters": 0}, "spec.parameters", "should be greater than 0"),
        ({"parameters": "many"}, "spec.parameters", "must be of type number"),
        ({"tensors": 1.5}, "spec.tensors", "must be of type integer"),
        (
            {"stepTimes": [{"gpu": "V100", "localBatch": 1}]},
            "spec.stepTimes[0].seconds",
            "Required",
        ),
        ({"maxLocalBatch": {"V100": 0}}, "spec.maxLocalBatch.V100", "greater than or equal to 1"),
    ],
    ids=lambda part: str(part) if isinstance(part, dict) else "",
)
async def test_a_wrong_profile_is_refused(
    api: Api, profiles: str, spec: dict[str, Any], path: str, says: str
) -> None:
    with pytest.raises(ApiError) as caught:
        await api.request("POST", profiles, here(**spec), dryRun="All")

    assert caught.value.status == 422
    assert f"{path}: " in caught.value.message
    assert says in caught.value.message


async def test_kubectl_shows_profiles(api: Api, profiles: str, kubectl: Kubectl) -> None:
    await api.request("POST", profiles, here())

    header, row = (await kubectl("get", "workloadprofiles")).splitlines()

    assert header.split() == ["NAME", "WORKLOAD", "PARAMETERS", "CHECKPOINT", "SAMPLES", "AGE"]
    assert row.split()[:2] == ["resnet50", "resnet50"]


async def test_the_status_of_a_pool_has_a_place_for_what_is_known(api: Api, namespace: str) -> None:
    pools = f"{GROUP}/capacitypools"
    name = f"{namespace}-spot"[-63:].strip("-")
    await api.request("POST", pools, pool_manifest(name))
    status = {
        "nodes": {"ready": 1, "total": 2},
        "availability": {"available": False, "since": "2026-01-01T12:00:00Z"},
        "lastRevocationTime": "2026-01-01T12:00:00Z",
        "lifetime": {"family": "Weibull", "parameters": {"shape": 0.8}, "samples": 9, "brier": 0.1},
    }

    try:
        written = await api.request(
            "PATCH", f"{pools}/{name}/status", {"status": status}, content_type=MERGE
        )
    finally:
        await api.request("DELETE", f"{pools}/{name}")

    assert written["status"] == status
