"""What a command line under torchrun asks for."""

import pytest

from ebbtide.runtime.errors import UsageError
from ebbtide.runtime.launching.command_line import Request, read


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        pytest.param(["train.py", "--lr", "1"], ("train.py", "--lr", "1"), id="the script alone"),
        pytest.param(["python", "-u", "train.py", "-x"], ("train.py", "-x"), id="python script"),
        pytest.param(
            ["python", "-m", "pkg.train", "1"], ("--module", "pkg.train", "1"), id="module"
        ),
        pytest.param(
            ["torchrun", "--nnodes=2", "--max-restarts", "3", "train.py"],
            ("--nnodes=2", "--max-restarts", "3", "train.py"),
            id="torchrun",
        ),
        pytest.param(["/opt/venv/bin/torchrun", "train.py"], ("train.py",), id="torchrun by path"),
        pytest.param(["python", "/usr/bin/torchrun", "a.py"], ("a.py",), id="python torchrun"),
        pytest.param(
            ["python3", "-m", "torch.distributed.run", "--tee", "3", "train.py"],
            ("--tee", "3", "train.py"),
            id="torch.distributed.run",
        ),
        pytest.param(
            ["./train", "--lr", "1"], ("--no-python", "./train", "--lr", "1"), id="program"
        ),
    ],
)
def test_a_launcher_in_front_is_taken_off(words: list[str], arguments: tuple[str, ...]) -> None:
    assert read(words) == Request(arguments=arguments)


def test_the_old_launcher_gives_the_script_its_rank_as_an_argument() -> None:
    found = read(["python", "-m", "torch.distributed.launch", "--nproc_per_node", "4", "a.py"])

    assert found == Request(arguments=("--nproc_per_node", "4", "a.py"), legacy=True)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["sh", "-c", "cd /x && torchrun train.py"], id="in a shell line"),
        pytest.param(["env", "A=1", "torchrun", "train.py"], id="behind env"),
        pytest.param(["/other/bin/python", "-m", "torch.distributed.run", "a.py"], id="elsewhere"),
    ],
)
def test_a_launcher_inside_another_program_is_refused(words: list[str]) -> None:
    with pytest.raises(UsageError, match="inside another program: give the script itself"):
        read(words)


@pytest.mark.parametrize("words", [["torchrun"], ["python", "-m", "torch.distributed.run"]])
def test_a_launcher_without_a_script_is_refused(words: list[str]) -> None:
    with pytest.raises(UsageError, match="names no script"):
        read(words)
