"""The coordinator's environment, right and wrong."""

from pathlib import Path

import msgspec
import pytest

from ebbtide.coordinator.settings import UsageError, read_settings
from ebbtide.wire import names
from support.fake_members import make_members


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    token = tmp_path / "token"
    token.write_bytes(b"made up\n")
    return {
        names.ENV_ATTEMPT: "3",
        names.ENV_WORK: msgspec.json.encode(make_members().work).decode(),
        names.ENV_TOKEN_FILE: str(token),
        names.ENV_COORDINATOR: "digits-coordinator.default.svc:7500",
        names.ENV_ADDRESS: "10.0.0.9",
    }


def test_reads_everything(environment: dict[str, str]) -> None:
    settings = read_settings(environment)

    assert settings.attempt == 3
    assert settings.work == make_members().work
    assert settings.token == b"made up"
    assert (settings.host, settings.port) == ("10.0.0.9", 7500)


def test_the_port_has_a_default(environment: dict[str, str]) -> None:
    del environment[names.ENV_COORDINATOR]

    assert read_settings(environment).port == names.COORDINATOR_PORT


@pytest.mark.parametrize(("value", "expected"), [("", None), ("0", 0), ("7412", 7412)])
def test_metrics_are_served_where_a_port_is_given(
    environment: dict[str, str], value: str, expected: int | None
) -> None:
    environment[names.ENV_METRICS_PORT] = value

    assert read_settings(environment).metrics_port == expected


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        pytest.param(names.ENV_ATTEMPT, "", "is not set", id="no attempt"),
        pytest.param(names.ENV_ATTEMPT, "two", "must be a whole number", id="attempt in words"),
        pytest.param(names.ENV_ATTEMPT, "0", "at least 1", id="attempt zero"),
        pytest.param(names.ENV_WORK, "{}", "is not a WorkSpec", id="empty work"),
        pytest.param(names.ENV_WORK, "}", "is not a WorkSpec", id="work is no JSON"),
        pytest.param(names.ENV_TOKEN_FILE, "/nowhere", "cannot be read", id="no token"),
        pytest.param(names.ENV_TOKEN_FILE, "/dev/null", "is empty", id="empty token"),
        pytest.param(names.ENV_COORDINATOR, "host:port", "whole number", id="port in words"),
        pytest.param(names.ENV_METRICS_PORT, "x", "whole number", id="metrics port in words"),
    ],
)
def test_says_what_is_wrong(environment: dict[str, str], name: str, value: str, said: str) -> None:
    environment[name] = value

    with pytest.raises(UsageError, match=said):
        read_settings(environment)
