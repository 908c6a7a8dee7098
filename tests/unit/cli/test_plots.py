"""Pictures of `ebbtide simulate`."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from matplotlib.image import imread

from ebbtide.cli import plots
from ebbtide.cli.entry import main

POLICIES = ("greedy", "on-demand", "time-sliced")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Zone `east` goes after 6 h and comes back, `west` is never up."""
    rows = (f"{600 * row},{int(row % 72 < 36)},0" for row in range(400))
    path = tmp_path / "zones.csv"
    path.write_text("\n".join(["seconds,east,west", *rows]) + "\n", encoding="utf-8")
    return path


def run(trace: Path, *more: str) -> Result:
    result = CliRunner().invoke(
        main,
        [
            *("simulate", "--availability", str(trace), "--policy", ",".join(POLICIES)),
            *("--work-hours", "8", "--deadline-hours", "20", "--changeover-hours", "0.2"),
            *("--start-hours", "0,6", *more),
        ],
    )
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def draw(trace: Path, name: str, *more: str) -> Path:
    picture = trace.parent / name
    result = run(trace, "--plot", str(picture), *more)
    assert result.exit_code == 0, result.output
    return picture


def points_of(svg: str, series: str) -> list[tuple[float, float]]:
    """The corners of a line in the picture, in its own units."""
    group = re.search(rf'<g id="{series}">(.*?)</g>', svg, flags=re.DOTALL)
    assert group is not None, series
    return [(float(x), float(y)) for x, y in re.findall(r"[ML] ([\d.]+) ([\d.]+)", group[1])]


def test_a_drawing_has_capacity_choices_progress_and_cost_of_each_policy(trace: Path) -> None:
    svg = draw(trace, "job.svg").read_text(encoding="utf-8")

    series = set(re.findall(r'<g id="((?:capacity|choice|progress|cost)-[^"]+)"', svg))
    assert series >= {f"{what}-{name}" for what in ("progress", "cost") for name in POLICIES}
    assert "capacity-east" in series
    assert {"choice-greedy-east", "choice-on-demand-on-demand"} <= series
    # what nobody had or chose is not there
    assert not series & {"capacity-west", "choice-on-demand-east", "choice-greedy-on-demand"}
    for word in (*POLICIES, "east", "west", "cost, USD", "work done, h"):
        assert f">{word}</text>" in svg


def test_lines_tell_what_happened(trace: Path) -> None:
    svg = draw(trace, "job.svg").read_text(encoding="utf-8")
    reserved, greedy = points_of(svg, "progress-on-demand"), points_of(svg, "progress-greedy")

    # upwards is less in a drawing: work is only ever done, never undone
    assert [y for _, y in greedy] == sorted((y for _, y in greedy), reverse=True)
    # both do all of it, on-demand sooner, for more money
    assert greedy[-1][1] == pytest.approx(reserved[-1][1])
    assert reserved[-1][0] < greedy[-1][0]
    assert points_of(svg, "cost-on-demand")[-1][1] < points_of(svg, "cost-greedy")[-1][1]


def test_another_job_gives_another_picture_and_the_same_one_the_same(trace: Path) -> None:
    first, again = draw(trace, "a.svg"), draw(trace, "b.svg")
    second = draw(trace, "c.svg", "--plot-job", "2")

    assert first.read_bytes() == again.read_bytes()
    assert first.read_bytes() != second.read_bytes()


def test_a_png_is_one_and_not_empty(trace: Path) -> None:
    picture = draw(trace, "job.png")

    assert picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    pixels = imread(picture)
    assert min(pixels.shape[:2]) > 400
    assert 0.02 < float((pixels[..., :3].min(axis=-1) < 0.9).mean()) < 0.9


def test_what_is_printed_is_the_same_with_and_without_a_picture(trace: Path) -> None:
    picture = str(trace.parent / "job.svg")

    assert run(trace, "--plot", picture).stdout == run(trace).stdout


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (["--plot", "job.pdf"], "'job.pdf' ends in neither .png nor .svg"),
        (["--plot-job", "1"], "--plot-job chooses a job for --plot"),
        (["--plot", "job.svg", "--plot-job", "3"], "3: there are 2 jobs"),
        (["--plot", "job.svg", "--plot-job", "0"], "0 is not in the range"),
    ],
)
def test_a_picture_that_makes_no_sense_is_refused(
    trace: Path, more: list[str], complaint: str
) -> None:
    result = run(trace, *more)

    assert result.exit_code == 2
    assert complaint in " ".join(result.output.split())


def test_a_folder_that_is_not_there_is_named(trace: Path) -> None:
    result = run(trace, "--plot", str(trace.parent / "none" / "job.png"))

    assert result.exit_code == 1
    assert "job.png: cannot be written" in result.output


def test_without_matplotlib_the_way_to_get_it_is_told(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plots, "find_spec", lambda _: None)

    result = run(trace, "--plot", "job.svg")

    assert result.exit_code == 2
    assert "pip install 'ebbtide[plot]'" in " ".join(result.output.split())
    assert run(trace).exit_code == 0


def test_matplotlib_is_imported_only_to_draw() -> None:
    code = "import sys; import ebbtide.cli.entry; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
