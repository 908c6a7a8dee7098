"""The speed of fleets from a profile, models, measurements, or a prior."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ebbtide.core.planner.rank_times import Chip, Knowing, training_flops
from ebbtide.core.planner.scaling import all_reduce_seconds, step_seconds
from ebbtide.core.planner.speed import Speed
from ebbtide.core.planner.speeds import Layout, build_speed, correct
from ebbtide.core.values.plan import Measured
from ebbtide.core.values.workload import CommTime, Profile, StepTime
from ebbtide.data.defaults import embedded_model

CHIPS = {
    "V100": Chip(flops=44e12, nic_gbps=10.0),
    "A100": Chip(flops=78e12, nic_gbps=10.0),
    "K80": Chip(flops=4.4e12, nic_gbps=10.0),
}
LINE = tuple(
    StepTime(gpu="V100", local_batch=batch, seconds=0.02 + 0.002 * batch)
    for batch in (16, 32, 64, 128, 256)
)
PROFILE = Profile(workload="mine", gradient_bytes=1e6, step_times=LINE)


def layout(**more: Any) -> Layout:
    fields: dict[str, Any] = {"global_batch": 256, "sizes": (1, 2, 4, 8)}
    return Layout(**{**fields, **more})


def knowing(**more: Any) -> Knowing:
    return Knowing(**{"chips": CHIPS, **more})


def steps_per_second(speed: Speed, gpu: str, workers: int, batch: int = 256) -> float:
    return speed.paces[gpu].value * workers * speed.efficiency_of(workers) / batch


# ------------------------------------------------------------------------- a profile


def test_a_profile_gives_the_step_time_of_each_size() -> None:
    speed = build_speed(knowing(profile=PROFILE), layout(), ("V100",))

    # one rank takes all 256 samples, eight take 32 each, and sum a megabyte
    assert 1 / steps_per_second(speed, "V100", 1) == pytest.approx(0.532, rel=1e-6)
    assert 1 / steps_per_second(speed, "V100", 8) == pytest.approx(0.084, rel=0.05)
    assert "profile" in speed.paces["V100"].source


def test_ranks_of_a_worker_share_its_batch() -> None:
    one = build_speed(knowing(profile=PROFILE), layout(sizes=(2,)), ("V100",))
    two = build_speed(knowing(profile=PROFILE), layout(sizes=(1,), ranks_per_worker=2), ("V100",))

    assert two.paces["V100"].value == pytest.approx(2 * one.paces["V100"].value)


def test_what_does_not_fit_is_accumulated_in_parts() -> None:
    small = replace(PROFILE, max_local_batch={"V100": 64})

    speed = build_speed(knowing(profile=small), layout(sizes=(1,)), ("V100",))

    assert 1 / steps_per_second(speed, "V100", 1) == pytest.approx(4 * (0.02 + 0.128), rel=1e-6)


def test_another_gpu_type_is_carried_over_by_its_peaks() -> None:
    speed = build_speed(knowing(profile=PROFILE), layout(), ("V100", "A100"))

    ratio = speed.paces["A100"].value / speed.paces["V100"].value
    known, carried = speed.paces["V100"], speed.paces["A100"]
    assert ratio == pytest.approx(78 / 44)
    assert carried.high / carried.low > known.high / known.low
    assert "carried over from V100" in carried.source


def test_a_type_that_no_pool_has_can_be_carried_over_from() -> None:
    speed = build_speed(knowing(profile=PROFILE), layout(), ("K80",))

    assert set(speed.paces) == {"K80"}
    assert "carried over from V100" in speed.paces["K80"].source


def test_measured_sums_make_the_network() -> None:
    slow = replace(PROFILE, comm_times=(CommTime(gpus=8, nodes=8, bytes=1e6, seconds=1.0),))

    fast, held = (build_speed(knowing(profile=one), layout(), ("V100",)) for one in (PROFILE, slow))

    assert steps_per_second(held, "V100", 8) < steps_per_second(fast, "V100", 8) / 5
    assert steps_per_second(held, "V100", 1) == steps_per_second(fast, "V100", 1)
    assert any("measured" in note for note in held.notes)


# ------------------------------------------------------------------------- models and priors


def test_a_workload_that_a_model_knows_is_answered_by_it() -> None:
    known = knowing(workload="ResNet-32", step_time=embedded_model("step-time"))

    speed = build_speed(known, layout(global_batch=128, sizes=(1,)), ("K80", "V100"))

    assert "step-time model, ResNet-32" in speed.paces["K80"].source
    assert "carried over from" in speed.paces["V100"].source


def test_the_iteration_model_answers_for_its_workloads() -> None:
    chips = {**CHIPS, "T4": Chip(flops=23e12)}
    known = Knowing(chips=chips, workload="imagenet", iteration=embedded_model("iteration"))

    speed = build_speed(known, layout(global_batch=64, sizes=(1,)), ("T4", "V100"))

    # srifty.md, check 1: 71.9 ms and 4.313 ms for each sample
    assert speed.paces["T4"].value == pytest.approx(64 / (0.0719 + 64 * 0.004313), rel=0.05)
    assert "carried over from T4" in speed.paces["V100"].source


def test_flops_and_peaks_are_a_prior() -> None:
    profile = Profile(workload="new", flops_per_sample=12.3e9)

    pace = build_speed(knowing(profile=profile), layout(), ("V100",)).paces["V100"]

    assert pace.low < 281 < pace.high  # as published: see UTILISATION
    assert "its FLOPs" in pace.source


def test_nothing_known_gives_a_typical_workload_and_says_so() -> None:
    speed = build_speed(knowing(), layout(), ("V100", "A100"))

    pace = speed.paces["V100"]
    assert pace.high / pace.low == pytest.approx(100)
    assert any("typical workload" in note and "factor of 10" in note for note in speed.notes)


def test_an_unknown_gpu_type_has_no_pace() -> None:
    speed = build_speed(knowing(), layout(), ("V100", "X900"))

    assert set(speed.paces) == {"V100"}
    assert build_speed(knowing(), layout(), ("X900",)).paces == {}


def test_workers_without_a_gpu_have_one() -> None:
    assert build_speed(knowing(), layout(), ("",)).paces[""].value > 0


def test_peaks_are_meant_by_factors() -> None:
    assert training_flops(4.0, None) == 4.0
    assert training_flops(4.0, 9.0) == 6.0


# ------------------------------------------------------------------------- measured


def test_what_was_measured_is_given_back_at_that_size() -> None:
    plain = build_speed(knowing(), layout(), ("V100", "A100"))
    measured = Measured(workers={"V100": 4}, steps_per_second=3.0)

    speed = build_speed(knowing(), layout(), ("V100", "A100"), measured=measured)

    assert steps_per_second(speed, "V100", 4) == pytest.approx(3.0)
    before, after = plain.paces["A100"], speed.paces["A100"]
    assert after.value / before.value == pytest.approx(
        speed.paces["V100"].value / plain.paces["V100"].value
    )
    assert speed.paces["V100"].high / speed.paces["V100"].low < 1.3
    assert after.high / after.low == pytest.approx(before.high / before.low)
    assert speed.notes[0].startswith("measured: 3 steps/s on 4 V100")


def test_a_mixed_fleet_corrects_too() -> None:
    measured = Measured(workers={"V100": 2, "A100": 2}, steps_per_second=3.0)

    speed = build_speed(knowing(), layout(), ("V100", "A100"), measured=measured)

    pace = 2 * speed.paces["V100"].value + 2 * speed.paces["A100"].value
    assert pace * speed.efficiency_of(4) / 256 == pytest.approx(3.0)


@pytest.mark.parametrize(
    "measured",
    [
        pytest.param(Measured(workers={"X9": 2}, steps_per_second=3.0), id="unknown type"),
        pytest.param(Measured(workers={"V100": 2}, steps_per_second=0.0), id="no speed"),
        pytest.param(Measured(workers={}, steps_per_second=1.0), id="no workers"),
        pytest.param(Measured(workers={"V100": 1, "X9": 1}, steps_per_second=1.0), id="in part"),
    ],
)
def test_what_says_nothing_corrects_nothing(measured: Measured) -> None:
    plain = build_speed(knowing(), layout(), ("V100",))

    assert correct(plain, measured, layout()) == plain


# ------------------------------------------------------------------------- servers, network


def test_servers_have_a_ceiling() -> None:
    known = knowing(profile=PROFILE, parameter_server=embedded_model("parameter-server"))

    speed = build_speed(known, layout(uses_servers=True), ("V100",))

    assert speed.server_samples_per_s is not None
    assert speed.server_samples_per_s > 0
    assert build_speed(known, layout(), ("V100",)).server_samples_per_s is None


def test_servers_that_limit_are_what_was_measured() -> None:
    speed = build_speed(
        knowing(parameter_server=embedded_model("parameter-server")),
        layout(uses_servers=True),
        ("A100",),
    )
    tight = replace(speed, server_samples_per_s=10.0)
    measured = Measured(workers={"A100": 8}, steps_per_second=5 / 256, servers=1)

    found = correct(tight, measured, layout(uses_servers=True))

    assert found.server_samples_per_s == pytest.approx(5.0)
    assert found.paces == tight.paces


def test_a_sum_takes_longer_over_more_nodes_and_nothing_alone() -> None:
    ranks = np.array([1.0, 2.0, 8.0, 64.0])

    seconds = all_reduce_seconds(None, ranks=ranks, ranks_per_node=1, nic_gbps=10.0)

    assert seconds[0] == 0
    assert (np.diff(seconds) > 0).all()


def test_a_step_is_between_full_overlap_and_none() -> None:
    computing, network = np.array([3.0, 3.0]), np.array([1.0, 9.0])

    found = step_seconds(computing, network)

    assert found.tolist() == [(3 + 4) / 2, (10 + 12) / 2]
