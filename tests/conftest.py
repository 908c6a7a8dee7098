"""Options and profiles for every test outside e2e/."""

import asyncio
import importlib.util
import os

import pytest
from hypothesis import HealthCheck, settings

from support.scratch import keep_in

# The same examples everywhere and every time: a law that fails, fails for everyone.
settings.register_profile(
    "fixed",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("quick", settings.get_profile("fixed"), max_examples=20)  # make quick
settings.load_profile(os.environ.get("EBBTIDE_EXAMPLES", "fixed"))


def pytest_configure() -> None:
    # Otherwise pytest-asyncio makes a loop only to put it back later, and nobody closes it.
    asyncio.set_event_loop(None)


# looptime asks for the current loop before each test; where none was ever set, asyncio would make
# one that nobody closes.
asyncio.set_event_loop(None)


@pytest.fixture(scope="session", autouse=True)
def scratch(tmp_path_factory: pytest.TempPathFactory) -> None:
    keep_in(tmp_path_factory.mktemp("scratch"))


def has_cuda() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    import torch  # noqa: PLC0415 - takes seconds, and few runs hold a GPU test

    return torch.cuda.is_available()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    on_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if on_gpu and not has_cuda():
        for item in on_gpu:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device, and here is none"))
