"""What a worker's end amounts to, from the ends of its processes."""

import os
import subprocess

import pytest

from ebbtide.runtime.reaping import Verdict, descendants

CHILDREN = frozenset({10, 11})
ORPHAN = 99


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        pytest.param([(10, 0), (11, 0)], 0, id="done"),
        pytest.param([(10, 82), (11, 82)], 82, id="left"),
        pytest.param([(10, 0), (11, 82)], 82, id="one left"),
        pytest.param([(10, 7), (11, 137)], 7, id="the first failure counts"),
        pytest.param([(10, 139), (11, 0)], 139, id="a signal"),
        pytest.param([(ORPHAN, 5), (10, 0), (11, 0)], 5, id="an orphan failed"),
        pytest.param([(ORPHAN, 5), (10, 3), (11, 0)], 3, id="a child counts before an orphan"),
        pytest.param([(10, 0), (11, 0), (ORPHAN, 82)], 82, id="an orphan left"),
        pytest.param([(10, 143), (11, 0)], 143, id="SIGTERM from elsewhere is a failure"),
    ],
)
def test_the_code_of_an_unasked_end(ends: list[tuple[int, int]], code: int) -> None:
    verdict = Verdict(children=CHILDREN, running=set(CHILDREN))

    for pid, each in ends:
        verdict.note(pid, each)

    assert verdict.code == code


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        pytest.param([(10, 143), (11, 143)], 82, id="nobody caught it"),
        pytest.param([(10, 143), (ORPHAN, 82), (11, 143)], 82, id="a shell and its trainer"),
        pytest.param([(10, 0), (11, 0)], 0, id="the work was done just then"),
        pytest.param([(10, 0), (11, 143)], 82, id="one had not ended its work"),
        pytest.param([(10, 1), (11, 82)], 1, id="an error while leaving"),
    ],
)
def test_the_code_after_a_stop(ends: list[tuple[int, int]], code: int) -> None:
    verdict = Verdict(children=CHILDREN, running=set(CHILDREN), stopping=True)

    for pid, each in ends:
        assert not verdict.note(pid, each)

    assert verdict.code == code


def test_only_a_childs_failure_ends_the_others() -> None:
    verdict = Verdict(children=CHILDREN, running=set(CHILDREN))

    assert not verdict.note(ORPHAN, 3)
    assert not verdict.note(10, 82)
    assert verdict.note(11, 1)


def test_descendants_are_found_through_their_parents() -> None:
    with subprocess.Popen(
        ["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE, text=True
    ) as shell:
        sleeper = int(shell.stdout.readline()) if shell.stdout else 0

        found = descendants(os.getpid())

        assert found.index(shell.pid) < found.index(sleeper)
        subprocess.run(["kill", str(sleeper)], check=True)
