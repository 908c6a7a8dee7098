import json
import logging
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from ebbtide.controller import logs
from ebbtide.controller.__main__ import main
from ebbtide.wire.names import EXIT_USAGE


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in ("ebbtide", "kopf", "kopf.objects", "kopf._core.reactor.running"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def test_a_wrong_configuration_is_one_line_and_a_status_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "ebbtide.yaml"
    config.write_text("nodeLost: 3", encoding="utf-8")

    assert main([f"--config={config}"]) == EXIT_USAGE

    said = capsys.readouterr().err
    assert "nodeLost: there is no such setting" in said
    assert "Traceback" not in said


def test_missing_credentials_are_one_line_and_a_status_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--health-port=0", "--metrics-port=0", f"--kubeconfig={tmp_path / 'none'}"]

    assert main(options) == EXIT_USAGE

    said = capsys.readouterr().err
    assert "no usable credentials" in said
    assert "Traceback" not in said


def test_json_lines_hold_level_message_and_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(as_json=True, verbose=False)
    logger = logging.getLogger("ebbtide.controller.workers")
    error = KeyError("nobody expected this")
    logger.error("%s: a pass failed", "team/digits", exc_info=error)

    line = json.loads(capsys.readouterr().err)

    assert (line["level"], line["message"]) == ("error", "team/digits: a pass failed")
    assert "KeyError: 'nobody expected this'" in line["traceback"]


def test_plain_lines_are_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(as_json=False, verbose=False)
    logging.getLogger("ebbtide.controller.app").info("at work: %d jobs, %d pods", 1, 2)
    logging.getLogger("ebbtide.controller.app").debug("not said")

    said = capsys.readouterr().err

    assert "INFO    ebbtide.controller.app: at work: 1 jobs, 2 pods" in said
    assert "not said" not in said


def test_objects_nested_as_deep_as_the_api_server_takes_them_can_be_read(
    tmp_path: Path,
) -> None:
    before = sys.getrecursionlimit()
    text = '{"a":' * 10_000 + "1" + "}" * 10_000
    try:
        main([f"--config={tmp_path / 'none.yaml'}"])
        with ThreadPoolExecutor(1) as thread:  # kopf reads in one, where the stack is smaller
            assert thread.submit(json.loads, text).result()
            assert thread.submit(msgspec.json.decode, text).result()
    finally:
        sys.setrecursionlimit(before)
