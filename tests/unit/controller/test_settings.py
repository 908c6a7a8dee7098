import re
from datetime import timedelta
from pathlib import Path

import pytest

from ebbtide.controller.settings import ConfigurationError, _File, read_configuration
from ebbtide.core.values.settings import Settings


def pool(*, price: str) -> str:
    where = "nodeSelector: {pool: a}, market: Spot, maxNodes: 4"
    return f"pools: [{{name: a, spec: {{{where}, price: {price}}}}}]"


def write(folder: Path, text: str) -> Path:
    path = folder / "ebbtide.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_without_a_file_every_default_holds() -> None:
    assert read_configuration(None).settings == Settings()


def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    assert read_configuration(write(tmp_path, "")).settings == Settings()


def test_every_setting_can_be_given(tmp_path: Path) -> None:
    text = """
capacityWaitSeconds: 1
nodeLostSeconds: 2
coordinatorGraceSeconds: 3
imageWaitSeconds: 4
finishGraceSeconds: 5
zombieSeconds: 6
failureDelaySeconds: 7
failureDelayLimitSeconds: 8
failureWindowSeconds: 9
progressSeconds: 10
heartbeatSeconds: 0.05
compilePools: 12
coordinatorImage: registry.example/ebbtide:1
namespaces: [team]
"""
    found = read_configuration(write(tmp_path, text))

    assert found.settings == Settings(
        capacity_wait=timedelta(seconds=1),
        node_lost=timedelta(seconds=2),
        coordinator_grace=timedelta(seconds=3),
        image_wait=timedelta(seconds=4),
        finish_grace=timedelta(seconds=5),
        zombie=timedelta(seconds=6),
        failure_delay=timedelta(seconds=7),
        failure_delay_limit=timedelta(seconds=8),
        failure_window=timedelta(seconds=9),
        progress_interval=timedelta(seconds=10),
        heartbeat=timedelta(seconds=0.05),
    )
    assert found.compile_pools == 12
    assert found.coordinator_image == "registry.example/ebbtide:1"
    assert found.namespaces == ("team",)


def test_pools_have_the_shape_of_the_objects(tmp_path: Path) -> None:
    text = """
pools:
- name: spot
  spec:
    nodeSelector: {pool: spot}
    market: Spot
    maxNodes: 4
    gpu: {type: V100, count: 1}
    price: {usdPerNodeHour: "0.92"}
"""
    (pool,) = read_configuration(write(tmp_path, text)).pools

    assert pool["metadata"]["name"] == "spot"
    assert pool["kind"] == "CapacityPool"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "nodeLostSecond: 1",
            "nodeLostSecond: there is no such setting; known are aftermathSeconds",
        ),
        ("node_lost_seconds: 1", "node_lost_seconds: there is no such setting"),
        ("nodeLostSeconds: soon", "nodeLostSeconds: Input should be a valid number"),
        ("nodeLostSeconds: -1", "nodeLostSeconds: Input should be greater than or equal to 0"),
        ("nodeLostSeconds: .inf", "nodeLostSeconds: Input should be less than or equal to"),
        ("progressSeconds: 0", "progressSeconds: Input should be greater than or equal to 0.1"),
        ("pools: [{name: a}]", "pools.0.spec: Field required"),
        ("pools: [{name: a, spec: {market: Gold}}]", "pools[0] a: "),
        (pool(price="{usdPerNodeHour: '0'}"), "pools[0] a: spec.price.usdPerNodeHour: is '0'"),
        (
            pool(price="{catalogue: {provider: aws, instanceType: p9}}"),
            "pools[0] a: spec.price.catalogue: aws has no instance type 'p9'",
        ),
        ("[1, 2]", "a mapping of settings is expected"),
        ("a: b: c", "mapping values are not allowed"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as found:
        read_configuration(write(tmp_path, text))

    assert said in str(found.value)
    assert "ebbtide.yaml" in str(found.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"missing\.yaml"):
        read_configuration(tmp_path / "missing.yaml")


# ---------------------------------------------------------------- the reference

REFERENCE = Path(__file__).parents[3] / "docs" / "configuration.md"
IN_WORDS = {"coordinatorImage": "", "namespaces": "all", "pools": "those of the cluster"}
"""Defaults that the reference does not give as numbers, each an empty text or list."""


def documented() -> list[tuple[str, str]]:
    """Return every setting of the reference with its default."""
    rows = re.findall(r"^\| `(\w+)` \|([^|]*)\|", REFERENCE.read_text("utf-8"), re.MULTILINE)
    return [(name, default.strip()) for name, default in rows]


def test_the_reference_has_every_setting_once_and_no_other() -> None:
    known = [field.alias for field in _File.model_fields.values()]

    assert sorted(name for name, _ in documented()) == sorted(map(str, known))


def test_the_reference_gives_the_defaults_that_hold() -> None:
    defaults = {field.alias: field.default for field in _File.model_fields.values()}

    for name, told in documented():
        if name in IN_WORDS:
            assert not defaults[name]
            assert told == IN_WORDS[name]
        else:
            assert float(told) == defaults[name], name
