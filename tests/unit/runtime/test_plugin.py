"""How torch finds our rendezvous."""

import importlib
import tomllib
from pathlib import Path

import pytest
from torch.distributed.elastic.rendezvous import RendezvousParameters

from ebbtide.runtime.errors import UsageError
from ebbtide.runtime.launching import plugin

PROJECT = Path(__file__).parents[3] / "pyproject.toml"


def parameters(backend: str) -> RendezvousParameters:
    return RendezvousParameters(backend, endpoint="", run_id="1", min_nodes=1, max_nodes=2)


def test_the_entry_point_leads_to_the_maker_of_handlers() -> None:
    groups = tomllib.loads(PROJECT.read_text())["project"]["entry-points"]
    module, _, name = groups["torchrun.handlers"]["ebbtide"].partition(":")

    assert getattr(importlib.import_module(module), name)() is plugin.create


def test_outside_of_a_job_it_says_what_is_missing() -> None:
    with pytest.raises(UsageError, match="EBBTIDE_COORDINATOR is not set"):
        plugin.create(parameters("ebbtide"))


def test_it_makes_no_other_rendezvous() -> None:
    with pytest.raises(ValueError, match="not 'c10d'"):
        plugin.create(parameters("c10d"))
