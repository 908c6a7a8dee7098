"""Which commands get the warm fork."""

import sys

import pytest

from ebbtide.runtime.commands import Command, Module, Program, Script, parse


@pytest.mark.parametrize(
    ("words", "command"),
    [
        pytest.param(["python", "x.py"], Script(path="x.py", arguments=()), id="script"),
        pytest.param(
            ["python3", "-u", "-B", "a/x.py", "-m", "1"],
            Script(path="a/x.py", arguments=("-m", "1")),
            id="script with arguments",
        ),
        pytest.param(
            ["python3.11", "-m", "pkg.train", "--lr", "1"],
            Module(name="pkg.train", arguments=("--lr", "1")),
            id="module",
        ),
        pytest.param([sys.executable, "x.py"], Script(path="x.py", arguments=()), id="by path"),
    ],
)
def test_python_scripts_and_modules_are_forked(words: list[str], command: Command) -> None:
    assert parse(words) == command


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["sh", "-c", "python x.py"], "sh is not this Python interpreter"),
        (["/opt/other/bin/python", "x.py"], "/opt/other/bin/python is not this Python"),
        (["python", "-c", "print()"], "python is given -c"),
        (["python", "-O", "x.py"], "python is given -O"),
        (["python", "-m"], "python is given -m"),
        (["python"], "python is given no script"),
        (["torchrun", "x.py"], "torchrun is not this Python"),
    ],
)
def test_anything_else_is_started_as_it_stands(words: list[str], why: str) -> None:
    command = parse(words)

    assert isinstance(command, Program)
    assert command.words == tuple(words)
    assert command.why.startswith(why)
