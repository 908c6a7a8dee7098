"""YAML files of our kinds, read for commands that need no cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click

from ebbtide.cli.tables import FileError, read_bytes

if TYPE_CHECKING:  # commands import late: `ebbtide --help` stays fast
    from ebbtide.core.values.job import Job
    from ebbtide.core.values.past import Past
    from ebbtide.core.values.pool import Pool
    from ebbtide.core.values.workload import Profile

JOB: Final = "TrainingJob"
POOL: Final = "CapacityPool"
PROFILE: Final = "WorkloadProfile"
MOST_DOCUMENTS: Final = 10_000


class BadInputError(click.ClickException):
    """What a user gave cannot be used; one finding on each line."""

    exit_code = 2

    def __init__(self, file: str, findings: tuple[str, ...]) -> None:
        super().__init__("\n".join(f"{file}: {finding}" for finding in findings))


@contextmanager
def as_bad_input() -> Iterator[None]:
    """Let files that cannot be used end in the same code, whoever read them."""
    try:
        yield
    except FileError as error:
        raise BadInputError(error.file, (error.finding,)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """Objects of one file, by kind."""

    file: str
    objects: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the objects of a kind."""
        return self.objects.get(kind, [])


def read_documents(file: str) -> Documents:
    """Read a file of one or more YAML documents, lists of objects included."""
    import yaml

    try:
        with as_bad_input():
            text = read_bytes(file).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInputError(file, ("this is not UTF-8 text",)) from error
    try:
        documents = [one for one in yaml.safe_load_all(text) if one is not None]
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        what = " ".join(str(error).split())
        raise BadInputError(file, (f"this is no YAML: {what}",)) from error
    found: dict[str, list[dict[str, Any]]] = {}
    for place, document in enumerate(_flatten(documents), start=1):
        if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
            what = f"document {place}: {str(document)[:40]!r} has no `kind`: {JOB}, {POOL} or"
            raise BadInputError(file, (f"{what} {PROFILE} are read",))
        found.setdefault(document["kind"], []).append(document)
    return Documents(file=file, objects=found)


def read_job(documents: Documents) -> "Job":
    """Return the one job of a file."""
    from ebbtide.api.convert import parse_job
    from ebbtide.core.values.job import BrokenJob

    found = documents.of(JOB)
    if len(found) != 1:
        kinds = ", ".join(sorted(documents.objects)) or "nothing"
        what = f"{len(found)} documents of kind {JOB}, one is needed; the file holds {kinds}"
        raise BadInputError(documents.file, (what,))
    job = parse_job(found[0])
    if isinstance(job, BrokenJob):
        raise BadInputError(documents.file, job.errors)
    if not job.counts_steps:
        what = (
            f"spec.launcher: is {job.launcher}, which tells no progress: nothing can be predicted"
        )
        raise BadInputError(documents.file, (f"{what}; only launcher Library can be planned",))
    return job


def read_pools(documents: Documents) -> tuple["Pool", ...]:
    """Return the pools of a file; their names differ."""
    from ebbtide.api.convert import parse_pool
    from ebbtide.core.values.errors import InvalidManifestError
    from ebbtide.data.listed_prices import embedded_price

    pools: list[Pool] = []
    findings: list[str] = []
    for place, document in enumerate(documents.of(POOL), start=1):
        name = _name_of(document)
        if not name:
            findings.append(f"{POOL} {place}: metadata.name: is missing and must be given")
            continue
        if any(pool.name == name for pool in pools):
            findings.append(f"{name}: metadata.name: a second pool of this name; names must differ")
            continue
        try:
            pools.append(parse_pool(document, embedded_price))
        except InvalidManifestError as error:
            findings += [f"{name}: {one}" for one in error.errors]
    if findings:
        raise BadInputError(documents.file, tuple(findings))
    return tuple(pools)


def read_pasts(documents: Documents) -> dict[str, "Past"]:
    """Return what the statuses of pools tell of their pasts, as `kubectl get -o yaml` has them."""
    from ebbtide.api.pool_status import parse_pool_status
    from ebbtide.core.values.errors import InvalidManifestError

    found = {}
    for document in documents.of(POOL):
        try:
            found[_name_of(document)] = parse_pool_status(document.get("status")).past
        except InvalidManifestError as error:
            lines = tuple(f"{_name_of(document)}: {one}" for one in error.errors)
            raise BadInputError(documents.file, lines) from error
    return found


def read_profile(documents: Documents, job: "Job") -> "Profile | None":
    """Return the profile that a job names, else that of its workload, else the only one."""
    from ebbtide.api.convert import parse_profile
    from ebbtide.core.values.errors import InvalidManifestError

    found = []
    for document in documents.of(PROFILE):
        try:
            found.append((_name_of(document), parse_profile(document)))
        except InvalidManifestError as error:
            lines = tuple(f"{_name_of(document)}: {one}" for one in error.errors)
            raise BadInputError(documents.file, lines) from error
    if not found:
        return None
    for name, profile in found:
        if job.profile is not None and name == job.profile:
            return profile
    if job.profile is not None and len(found) > 1:
        names = ", ".join(name for name, _ in found)
        what = f"no {PROFILE} is called {job.profile!r}, as spec.profile says; there are {names}"
        raise BadInputError(documents.file, (what,))
    same = [profile for _, profile in found if job.workload and profile.workload == job.workload]
    if same:
        return same[0]
    return found[0][1] if len(found) == 1 else None


def _flatten(documents: list[Any]) -> list[Any]:
    """Take lists of objects apart, as `kubectl get -o yaml` writes them."""
    found: list[Any] = []
    for document in documents:
        items = document.get("items") if isinstance(document, dict) else None
        found += items if isinstance(items, list) else [document]
    return found[:MOST_DOCUMENTS]


def _name_of(document: dict[str, Any]) -> str:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""
