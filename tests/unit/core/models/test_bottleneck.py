"""Whether servers hold a cluster back, by CM-DARE's rule and on CM-DARE's clusters."""

from pathlib import Path

import pytest

from ebbtide.core.models.bottleneck import Detector, Verdict, seconds_saved, shortfall
from ebbtide.core.models.clusters import GPU, SERVERS, SPEED, WORKERS, WORKLOAD
from ebbtide.data.shapes import cluster_speed

DATA = Path(__file__).resolve().parents[3] / "data" / "cm-dare" / "derived" / "cluster_speed.csv"
MEASURED = cluster_speed.read(DATA.read_text(encoding="utf-8"))


def flagged(gpu: str, servers: int, *, threshold: float) -> dict[str, list[int]]:
    """Workers at which each workload's cluster is slower than the sum of its workers."""
    detector = Detector(threshold=threshold)
    mine = MEASURED.take((MEASURED.texts(GPU) == gpu) & (MEASURED.numbers(SERVERS) == servers))
    found: dict[str, list[int]] = {}
    for workload in dict.fromkeys(mine.texts(WORKLOAD)):
        series = mine.take(mine.texts(WORKLOAD) == workload)
        speed = dict(zip(series.numbers(WORKERS), series.numbers(SPEED), strict=True))
        found[workload] = [
            int(workers)
            for workers, measured in speed.items()
            if detector.judge(measured=measured, expected=workers * speed[1], age_s=60)
            is Verdict.SATURATED
        ]
    return found


@pytest.mark.parametrize(
    ("threshold", "smallest"),
    [
        pytest.param(0.067, {"res15": 5, "res32": 4, "shakesmall": 4, "shakebig": 3}, id="6.7 %"),
        pytest.param(0.10, {"res15": 5, "res32": 4, "shakesmall": 5, "shakebig": 3}, id="10 %"),
    ],
)
def test_check_12_p100_clusters_with_one_server_are_flagged_from_some_workers_on(
    threshold: float, smallest: dict[str, int]
) -> None:
    found = flagged("P100", 1, threshold=threshold)

    assert found == {name: list(range(first, 9)) for name, first in smallest.items()}


def test_check_12_k80_clusters_are_flagged_only_at_the_edge() -> None:
    none: dict[str, list[int]] = {"res15": [], "res32": [], "shakesmall": []}

    assert flagged("K80", 1, threshold=0.067) == {**none, "shakebig": [7, 8]}
    assert flagged("K80", 1, threshold=0.10) == {**none, "shakebig": []}


def test_check_12_a_second_server_moves_the_flags() -> None:
    assert flagged("P100", 2, threshold=0.067) == {
        "res15": [2, 3, 5, 7, 8],  # its reading of one worker is high
        "res32": [7, 8],
        "shakesmall": [5, 6, 7, 8],
        "shakebig": [3, 4, 5, 6, 7, 8],
    }
    assert flagged("P100", 2, threshold=0.10) == {
        "res15": [2, 8],
        "res32": [8],
        "shakesmall": [5, 6, 7, 8],
        "shakebig": [3, 4, 5, 6, 7, 8],
    }


@pytest.mark.parametrize("measured", [32.0, 35.8, 36.4])
def test_check_14_the_three_mixed_clusters_are_flagged(measured: float) -> None:
    sums = {32.0: 35.3, 35.8: 42.6, 36.4: 45.2}

    verdict = Detector().judge(measured=measured, expected=sums[measured], age_s=60)

    assert verdict is Verdict.SATURATED


def test_a_cluster_is_not_judged_before_it_is_warm() -> None:
    detector = Detector()

    assert detector.judge(measured=1.0, expected=10.0, age_s=29.9) is Verdict.WARMING_UP
    assert detector.judge(measured=1.0, expected=10.0, age_s=30.0) is Verdict.SATURATED
    assert Detector(warm_up_s=0).judge(measured=9.9, expected=10.0, age_s=0) is Verdict.FINE


def test_a_cluster_that_is_faster_than_expected_is_fine() -> None:
    assert shortfall(measured=11.0, expected=10.0) == pytest.approx(-0.1)
    assert Detector().judge(measured=11.0, expected=10.0, age_s=60) is Verdict.FINE


def test_a_server_pays_where_much_is_left_and_costs_where_little_is() -> None:
    # 70 % more than 100 steps/s: 10,000 s become 5,882 s
    assert seconds_saved(steps=1e6, speed=100, gain=0.7) == pytest.approx(10_000 - 5_882.35 - 10)
    assert seconds_saved(steps=1_000, speed=100, gain=0.7) < 0
    assert seconds_saved(steps=1e6, speed=100, gain=0.0, restart_s=25) == -25


@pytest.mark.parametrize("changes", [{"threshold": 0}, {"threshold": 1.5}, {"warm_up_s": -1}])
def test_a_detector_without_sense_is_refused(changes: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"is needed|are needed"):
        Detector(**changes)


@pytest.mark.parametrize("speeds", [(0.0, 1.0), (1.0, -1.0), (float("nan"), 1.0)])
def test_speeds_without_sense_are_refused(speeds: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="above 0 steps/s"):
        shortfall(measured=speeds[0], expected=speeds[1])


def test_a_saving_without_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="gain -1"):
        seconds_saved(steps=10, speed=1, gain=-1)
