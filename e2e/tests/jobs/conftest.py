"""A world with a spot and an on-demand pool, and Ebbtide installed in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from world.installation import Operator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.bed import Bed, OpenBed
    from support.outcome import Undisturbed
    from world.api import Json
    from world.session import Session


@pytest.fixture(scope="module")
def operator(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """One operator for the tests of a file. It sees all namespaces, so it must not outlive them."""
    operator = Operator(session.kubeconfig, tmp_path_factory.mktemp("operator"))
    yield operator
    operator.stop()


@pytest.fixture
async def bed(open_bed: OpenBed) -> Bed:
    """The usual bed: GKE's manners, a spot and an on-demand pool."""
    return await open_bed()


@pytest.fixture(scope="session")
def known_results() -> dict[tuple[int, int], Json]:
    """Results of undisturbed runs, by number of workers and of steps."""
    return {}


@pytest.fixture
def undisturbed(known_results: dict[tuple[int, int], Json]) -> Undisturbed:
    """The result of the same job without any disturbance, trained once per test run."""

    async def train(bed: Bed, *, workers: int, steps: int = 120) -> Json:
        key = (workers, steps)
        if key not in known_results:
            size = (workers, workers)
            job = await bed.train(name="undisturbed", steps=steps, pause=0.0, workers=size)
            await job.until_over()
            known_results[key] = job.result
        return known_results[key]

    return train
