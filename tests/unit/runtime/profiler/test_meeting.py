"""Where the command and its script meet."""

import os
import socket
from pathlib import Path

import pytest

from ebbtide.runtime.profiler.meeting import LONGEST, reach


def open_files() -> set[str]:
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


@pytest.mark.parametrize("least", [0, LONGEST + 1])
def test_two_meet_in_a_folder_however_deep(tmp_path: Path, least: int) -> None:
    folder = tmp_path
    while len(os.fsencode(folder)) < least:
        folder /= "deeper-and-deeper"
    folder.mkdir(parents=True, exist_ok=True)
    before = open_files()

    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as caller:
        with reach(folder / "socket") as address:
            listener.bind(address)
        listener.listen(1)
        with reach(folder / "socket") as address:
            caller.connect(address)
        with listener.accept()[0] as heard:
            heard.sendall(b"here")
        assert caller.recv(4) == b"here"

    assert (folder / "socket").is_socket()
    assert open_files() == before


def test_a_folder_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 120) / "socket"

    with pytest.raises(FileNotFoundError), reach(path):
        pass
