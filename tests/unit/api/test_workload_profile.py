from typing import Any

import pytest

from ebbtide.api.convert import parse_profile
from ebbtide.api.workload_profile import WorkloadProfile
from ebbtide.core.values.errors import InvalidManifestError
from ebbtide.core.values.workload import CommTime, Profile, StepTime
from support.manifests import profile_manifest


def test_a_name_is_all_that_a_profile_needs() -> None:
    assert parse_profile({"spec": {"workload": "mine"}}) == Profile(workload="mine")


def test_everything_that_is_known_comes_through() -> None:
    manifest = profile_manifest(
        parameters=25.6e6,
        tensors=161,
        checkpointBytes=307.2e6,
        flopsPerSample=12.3e9,
        maxLocalBatch={"V100": 128, "K80": 64},
        stepTimes=[
            {"gpu": "V100", "localBatch": 64, "seconds": 0.2},
            {"gpu": "K80", "localBatch": 32, "seconds": 0.9, "samples": 40},
        ],
        commTimes=[{"gpus": 8, "nodes": 2, "bytes": 1e8, "seconds": 0.05}],
        bucketReady=[0.1, 0.15],
        noiseScale=4000,
    )

    assert parse_profile(manifest) == Profile(
        workload="resnet50",
        parameters=25.6e6,
        tensors=161,
        gradient_bytes=102.4e6,
        checkpoint_bytes=307.2e6,
        flops_per_sample=12.3e9,
        max_local_batch={"V100": 128, "K80": 64},
        step_times=(
            StepTime(gpu="V100", local_batch=64, seconds=0.2, samples=1),
            StepTime(gpu="K80", local_batch=32, seconds=0.9, samples=40),
        ),
        comm_times=(CommTime(gpus=8, nodes=2, bytes=1e8, seconds=0.05),),
        bucket_ready=(0.1, 0.15),
        noise_scale=4000.0,
    )


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        pytest.param({"workload": ""}, "spec.workload: is ''", id="no workload"),
        pytest.param({"parameters": 0}, "spec.parameters: is 0", id="no parameters"),
        pytest.param({"parameters": float("inf")}, "spec.parameters: is inf", id="infinite"),
        pytest.param(
            {"stepTimes": [{"gpu": "V100", "localBatch": 64, "seconds": -0.2}]},
            "spec.stepTimes[0].seconds: is -0.2",
            id="a step before it began",
        ),
        pytest.param(
            {"stepTimes": [{"gpu": "V100", "seconds": 0.2}]},
            "spec.stepTimes[0].localBatch: is missing and must be given",
            id="a step of nobody knows how many samples",
        ),
        pytest.param(
            {"maxLocalBatch": {"V100": 0}}, "spec.maxLocalBatch.V100: is 0", id="no batch fits"
        ),
        pytest.param({"speed": 3}, "spec.speed: no field of this name", id="an unknown field"),
    ],
)
def test_a_mistake_is_told_with_its_path(spec: dict[str, Any], error: str) -> None:
    with pytest.raises(InvalidManifestError) as caught:
        parse_profile(profile_manifest(**spec))

    assert any(str(found).startswith(error) for found in caught.value.errors)


def test_what_the_operator_will_say_of_a_profile_has_its_place() -> None:
    status = {
        "models": {"step time": "regression on FLOPs"},
        "errors": {"step time": 0.04},
        "samples": 40,
        "fittedAt": "2026-01-01T12:00:00Z",
    }

    WorkloadProfile.model_validate({"spec": {"workload": "mine"}, "status": status})
