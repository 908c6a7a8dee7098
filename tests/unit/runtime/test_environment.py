"""The environment is read once, and all that is wrong is said at once."""

import pytest

from ebbtide.runtime.environment import read_place
from ebbtide.runtime.errors import UsageError
from ebbtide.wire import names

GOOD = {
    names.ENV_JOB: "ns/digits",
    names.ENV_WORKER: "digits-worker-2-3",
    names.ENV_INDEX: "2",
    names.ENV_ATTEMPT: "3",
    names.ENV_ADDRESS: "10.0.0.7",
    names.ENV_COORDINATOR: "digits-coordinator:7411",
    names.ENV_CHECKPOINT_PATH: "/checkpoints",
    names.ENV_NOTICE_SECONDS: "25",
    names.ENV_PROCESSES: "4",
    names.ENV_LOCAL_RANK: "1",
    names.ENV_POOL: "v100-spot",
    names.ENV_GPU: "V100",
    names.ENV_NODE: "node-1",
}


def test_reads_everything() -> None:
    place = read_place(GOOD)

    assert (place.index, place.attempt, place.local_rank, place.processes) == (2, 3, 1, 4)
    assert place.notice_seconds == 25.0
    assert place.token_file == names.TOKEN_PATH
    assert (place.pool, place.node, place.gpu) == ("v100-spot", "node-1", "V100")


def test_a_single_process_needs_little() -> None:
    optional = {names.ENV_ATTEMPT, names.ENV_NOTICE_SECONDS, names.ENV_PROCESSES}
    optional |= {names.ENV_LOCAL_RANK, names.ENV_POOL, names.ENV_NODE, names.ENV_GPU}

    place = read_place({name: value for name, value in GOOD.items() if name not in optional})

    assert (place.attempt, place.local_rank, place.processes) == (1, 0, 1)
    assert place.notice_seconds == 30.0


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        (names.ENV_JOB, "", "EBBTIDE_JOB is not set"),
        (names.ENV_INDEX, "-1", "EBBTIDE_INDEX is '-1', not a whole number"),
        (names.ENV_ATTEMPT, "x", "EBBTIDE_ATTEMPT is 'x'"),
        (names.ENV_PROCESSES, "0", "EBBTIDE_PROCESSES_PER_WORKER is 0"),
        (names.ENV_LOCAL_RANK, "4", "EBBTIDE_LOCAL_RANK is 4, but the worker runs 4 processes"),
        (names.ENV_NOTICE_SECONDS, "soon", "EBBTIDE_NOTICE_SECONDS is 'soon'"),
        (names.ENV_NOTICE_SECONDS, "inf", "EBBTIDE_NOTICE_SECONDS is 'inf'"),
        (names.ENV_NOTICE_SECONDS, "nan", "EBBTIDE_NOTICE_SECONDS is 'nan'"),
    ],
)
def test_names_what_is_wrong(name: str, value: str, complaint: str) -> None:
    with pytest.raises(UsageError) as raised:
        read_place({**GOOD, name: value})

    assert complaint in str(raised.value)


def test_names_all_that_is_wrong_at_once() -> None:
    with pytest.raises(UsageError) as raised:
        read_place({})

    assert str(raised.value).count("is not set") == 6
