"""What `ebbtide profile` makes of options and measures; real scripts are in tests/runtime."""

import pytest
import yaml
from click.testing import CliRunner

from ebbtide.api.convert import parse_profile
from ebbtide.cli.entry import main
from ebbtide.cli.profile_document import build_document, lay_out_document, to_yaml, type_of
from ebbtide.cli.profiling import name_of, spread
from ebbtide.core.values.errors import InvalidManifestError
from ebbtide.runtime.profiler.orders import Joined, Looping, Measured
from ebbtide.runtime.profiler.session import Script


def make_script(gpu: str = "") -> Script:
    return Script(
        joined=Joined(global_batch_size=64, gpu=gpu),
        looping=Looping(parameters=1000, tensors=4, gradient_bytes=4000),
    )


def make_measured(batch: int, *seconds: float) -> Measured:
    return Measured(
        batch=batch,
        step_seconds=seconds,
        data_seconds=(0.001,) * len(seconds),
        peak_bytes=batch << 20,
        checkpoint_bytes=8000,
        flops=batch * 300,
        bucket_ready=(0.0123456,),
    )


def test_measures_become_a_document_that_the_planner_reads() -> None:
    document = build_document(
        make_script("Tesla V100-SXM2-16GB"),
        [make_measured(8, 0.3, 0.1, 0.2), make_measured(16, 0.4, 0.5, 0.6)],
        name="net",
        workload="my-net",
        gpu=None,
        largest=20,
    )

    known = parse_profile(yaml.safe_load(to_yaml(document)))
    assert known.workload == "my-net"
    assert (known.parameters, known.tensors, known.gradient_bytes) == (1000, 4, 4000)
    assert known.flops_per_sample == 300
    assert known.max_local_batch == {"V100": 20}
    assert [(one.local_batch, one.seconds, one.samples) for one in known.step_times] == [
        (8, 0.2, 3),
        (16, 0.5, 3),
    ]
    assert known.bucket_ready == (0.01235,)


def test_the_cpu_is_what_a_worker_without_a_gpu_has() -> None:
    document = build_document(
        make_script(), [make_measured(8, 0.1)], name="n", workload="n", gpu=None, largest=9
    )

    assert document["spec"]["stepTimes"][0]["gpu"] == "CPU"
    known = parse_profile(document)
    assert known.step_times[0].gpu == ""
    assert known.max_local_batch == {"": 9}


def test_a_table_shows_what_was_measured() -> None:
    measures = [make_measured(8, 0.1), make_measured(16, 0.125)]
    document = build_document(
        make_script("NVIDIA L4"), measures, name="n", workload="net", gpu=None, largest=16
    )

    table = lay_out_document(document, make_script("NVIDIA L4"), measures, output="table")

    assert "net on NVIDIA L4: 1000 parameters in 4 tensors" in table
    assert "largest batch that fits on one L4: 16" in table
    assert table.splitlines()[-1].split() == ["16", "0.125", "0.001", "128", "16", "1"]


def test_what_cannot_be_measured_is_no_document() -> None:
    with pytest.raises(InvalidManifestError, match="seconds"):
        build_document(
            make_script(), [make_measured(8, 0.0)], name="n", workload="n", gpu=None, largest=None
        )


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        ("", "CPU"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("Tesla K80", "K80"),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA L40S", "L40S"),
        ("Quadro RTX 6000", "Quadro RTX 6000"),
    ],
)
def test_devices_are_called_what_pools_call_them(device: str, expected: str) -> None:
    assert type_of(device) == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("python", "examples/digits/train.py"), "digits"),
        (("python", "/opt/My_Net.py", "--lr", "1"), "my-net"),
        (("python", "-m", "pkg.trainer"), "trainer"),
        (("bash", "run.sh"), "bash"),
        (("python", "___.py"), "workload"),
    ],
)
def test_a_profile_is_named_after_its_script(command: tuple[str, ...], expected: str) -> None:
    assert name_of(command) == expected


@pytest.mark.parametrize(
    ("least", "most", "expected"),
    [
        pytest.param(4, 128, (4, 8, 16, 32, 64, 128), id="all doublings"),
        pytest.param(1, 1, (1,), id="one"),
        pytest.param(2, 134, (2, 4, 8, 32, 64, 128, 134), id="seven of eight"),
        pytest.param(1, 4000, (1, 4, 16, 64, 256, 1024, 4000), id="every other one"),
    ],
)
def test_sizes_double_and_reach_the_largest(
    least: int, most: int, expected: tuple[int, ...]
) -> None:
    assert spread(least, most) == expected


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--batches", "4,x", "--", "python", "t.py"], "'4,x' is no list of batch sizes"),
        (["--batches", "0", "--", "python", "t.py"], "'0' is no list of batch sizes"),
        (["--memory-limit", "4 elephants", "--", "python", "t.py"], "is no amount of memory"),
        (["--steps", "1", "--", "python", "t.py"], "1 is not in the range 3<=x<=1000"),
        ([], "Missing argument 'COMMAND...'"),
    ],
)
def test_wrong_options_are_told_before_anything_runs(words: list[str], complaint: str) -> None:
    done = CliRunner().invoke(main, ["profile", *words])

    assert done.exit_code == 2
    assert complaint in done.output
