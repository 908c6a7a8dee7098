"""`ebbtide fit`: fit a model from samples and say how wrong it is on what it has not seen."""

import json
import os
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ebbtide.cli.tables import FileError, lay_out, read_tables, use_one_thread

if TYPE_CHECKING:  # commands import late: `ebbtide --help` stays fast
    from ebbtide.core.models.kinds import Kind
    from ebbtide.core.models.quality import Quality, Split
    from ebbtide.core.models.stored import Model
    from ebbtide.core.models.table import Table

MODELS: Final = (
    "step-time",
    "all-reduce",
    "iteration",
    "parameter-server",
    "checkpoint",
    "lifetime",
)
"""The names of `core.models.kinds`, written again so that `--help` need not import numpy."""

LEAVE_ONE_OUT: Final = "leave-one-out"
FOLD: Final = "fold"
RANDOM: Final = "random"
NONE: Final = "none"
MOST_LEFT_OUT: Final = 10
"""With more groups than this, and no word from the user, groups are dealt into folds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is to be fitted, and how samples are held out."""

    kind: "Kind"
    method: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A model with its held-out quality, and what there is to say about both."""

    model: "Model"
    notes: tuple[str, ...] = ()


@click.command()
@click.argument("model", type=click.Choice(MODELS), metavar="MODEL")
@click.option(
    "--data", "files", multiple=True, required=True, metavar="FILE...",
    help="CSV with a header or JSON lines; `-` is standard input.",
)  # fmt: skip
@click.argument("more", nargs=-1, metavar="")
@click.option("--method", help="How to fit; the first of the model's methods where not given.")
@click.option(
    "--split", metavar="random|leave-one-out:COLUMN|fold:COLUMN|none",
    help="How to hold samples out; by the model's own groups where not given.",
)  # fmt: skip
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Store the model.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, help="Of random splits.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
def fit(**given: Any) -> None:
    """
    Fit MODEL from samples.

    MODEL is step-time, all-reduce, iteration, parameter-server, checkpoint or lifetime. What is
    printed: samples, held-out errors, the share of measurements inside the 90 % interval,
    parameters.
    """
    use_one_thread()
    from ebbtide.core.models import kinds

    kind = kinds.find(given["model"])
    method = given["method"] or kind.default
    if method not in kind.methods:
        raise click.UsageError(f"{kind.name} has no method {method}: {', '.join(kind.methods)}")
    split = None if given["split"] is None else _check_split(given["split"])
    files = [*given["files"], *given["more"]]
    task = Task(kind=kind, method=method, seed=given["seed"])
    with complaints(", ".join(files)):
        table = read_tables(files)
        done = fit_and_judge(task, table, split)
    if given["out"] is not None:
        store(kind, done.model, given["out"])
    for note in done.notes:
        click.echo(f"note: {note}", err=True)
    report = describe(kind, done)
    click.echo(json.dumps(report, allow_nan=False) if given["output"] == "json" else _lay(report))


def _check_split(text: str) -> str:
    name, colon, column = text.partition(":")
    if (name in {RANDOM, NONE} and not colon) or (name in {LEAVE_ONE_OUT, FOLD} and column):
        return text
    raise click.BadParameter(
        f"{text!r} is none of random, leave-one-out:COLUMN, fold:COLUMN, none", param_hint="--split"
    )


@contextmanager
def complaints(files: str) -> Iterator[None]:
    """Turn what core and numerics complain about into one line that names the files."""
    import numpy as np

    from ebbtide.core.values.errors import EbbtideError

    try:
        yield
    except EbbtideError as error:
        raise FileError(files, str(error)) from error
    except (ArithmeticError, ValueError, np.linalg.LinAlgError) as error:
        # A library gave up on samples that passed every check of ours.
        raise FileError(files, f"no model comes from these samples: {error}") from error


# ---------------------------------------------------------------- fitting and holding out


def fit_and_judge(task: Task, table: "Table", split: str | None) -> Fitted:
    """Fit from all samples; hold some out, as the split says, to know how wrong that is."""
    from ebbtide.core.models.table import check

    check(table, (*task.kind.inputs, task.kind.target))
    notes = [*_repeats(task.kind, table), *_doubts(task.kind, table)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = task.kind.methods[task.method](table)
        notes += task.kind.notes(model) if task.kind.notes is not None else ()
        if split is None:
            split, why = _own_split(task.kind, table, model.quality)
            notes += why
        if split is not None and split != NONE:
            quality = _hold_out(task, table, split)
            quality = replace(quality, samples=model.quality.samples)
            model = task.kind.read(task.method, quality, model.parameters())
        elif split == NONE:
            bare = replace(model.quality, split=NONE, errors=None, by_group={}, coverage=None)
            model = task.kind.read(task.method, bare, model.parameters())
    notes += list(dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught))
    return Fitted(model=model, notes=tuple(notes))


def _repeats(kind: "Kind", table: "Table") -> list[str]:
    names = [column.name for column in (*kind.inputs, kind.target) if table.has(column.name)]
    rows = zip(*(map(str, table.cells[name]) for name in names), strict=True)
    extra = len(table) - len(set(rows))
    return [f"{extra} of {len(table)} rows repeat another exactly"] if extra else []


def _doubts(kind: "Kind", table: "Table") -> Iterable[str]:
    """Look whether samples are of another unit, by what GPU types of the catalogue can do."""
    from ebbtide.data import defaults

    if kind.doubt is None:
        return []
    gpus = defaults.embedded_catalogue().gpus.items()
    peaks = {name: max(gpu.flops_fp32, gpu.flops_tensor or 0.0) for name, gpu in gpus}
    return kind.doubt(table, peaks)


def _own_split(kind: "Kind", table: "Table", own: "Quality") -> tuple[str | None, list[str]]:
    """Choose a split where the user names none; None is to keep what the fit itself held out."""
    if own.errors is not None:
        return None, []
    if not table.has(kind.group):
        return NONE, [f"there is no column {kind.group}: nothing was held out"]
    groups = len(set(_groups(table, kind.group)))
    if groups < 2:  # noqa: PLR2004 -- one to fit from, one to ask about
        return NONE, [f"only one {kind.group}: nothing was held out, the errors are not known"]
    way = LEAVE_ONE_OUT if groups <= MOST_LEFT_OUT else FOLD
    return f"{way}:{kind.group}", []


def _hold_out(task: Task, table: "Table", split: str) -> "Quality":
    import numpy as np

    from ebbtide.core.models.quality import hold_out, judge
    from ebbtide.core.models.table import DataError, Table

    kind, method = task.kind, task.kind.methods[task.method]
    group = split.partition(":")[2] or kind.group
    try:
        splits = shown(_splits(task, table, split))
        if kind.judge is not None:
            return kind.judge(table, splits, method=task.method, group=group, split=split)
        held = hold_out(table, splits, lambda known: method(known).predict)
    except DataError as error:
        raise DataError(f"--split {split}: {error}") from error
    asked = table.take(held.rows)
    if not asked.has(group):  # some models can do without the column that they group by
        asked = Table({**asked.cells, group: np.full(len(asked), "all", dtype=object)}, asked.rows)
    return judge(
        asked.numbers(kind.target),
        held.forecast,
        groups=_groups(asked, group),
        split=split,
        samples=len(table),
    )


def _splits(task: Task, table: "Table", split: str) -> "Iterator[Split]":
    import numpy as np

    from ebbtide.core.models import quality

    chance = np.random.Generator(np.random.PCG64(task.seed))
    name, _, column = split.partition(":")
    if name == RANDOM:
        return quality.at_random(len(table), chance=chance)
    groups = _groups(table, column)
    if name == LEAVE_ONE_OUT:
        return quality.leave_one_out(groups)
    return quality.fold_by(groups, chance=chance)


def shown(splits: "Iterator[Split]") -> "Iterator[Split]":
    """Hand splits on, and show on a terminal how far it is."""
    if not sys.stderr.isatty():
        yield from splits
        return
    with click.progressbar(list(splits), label="holding out", file=sys.stderr) as bar:
        yield from bar


def _groups(table: "Table", column: str) -> Any:  # noqa: ANN401 -- an array; numpy comes late
    from ebbtide.core.models.table import Column

    return table.texts(Column(name=column, unit="text"))


# ---------------------------------------------------------------- what comes out


def store(kind: "Kind", model: "Model", path: Path) -> None:
    """Write the stored form under a temporary name, then rename: never half a model."""
    from ebbtide.core.models.stored import seal

    text = json.dumps(seal(kind.name, model), indent=1, sort_keys=True, allow_nan=False) + "\n"
    try:
        number, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(number, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except OSError as error:
        raise FileError(str(path), f"cannot be written: {error.strerror}") from error
    click.echo(f"stored in {path}", err=True)


def describe(kind: "Kind", done: Fitted) -> dict[str, Any]:
    """Return what `-o json` prints."""
    found = done.model.quality.to_json()
    return {
        "model": kind.name,
        "method": done.model.method,
        "samples": found["samples"],
        "split": found["split"],
        "errors": {"all": found["errors"], "by_group": found["by_group"]},
        "coverage_90": found["coverage_90"],
        "unit": kind.target.unit,
        "notes": list(done.notes),
        "parameters": done.model.parameters(),
    }


def _lay(report: dict[str, Any]) -> str:
    lines = [f"{report['model']} by {report['method']}, from {report['samples']} samples"]
    overall = report["errors"]["all"]
    if overall is None:
        return "\n".join([*lines, "nothing was held out: how wrong it is is not known"])
    unit = f"; unit {report['unit']}, mape a fraction" if "mape" in overall else ""
    lines.append(f"held out: {report['split']}{unit}")
    if report["coverage_90"] is not None:
        lines.append(f"inside the 90 % interval: {report['coverage_90']:.1%}")
    by_group = report["errors"]["by_group"].items()
    rows = [["all", *overall.values()], *([name, *each.values()] for name, each in by_group)]
    return "\n".join([*lines, "", lay_out(["group", *overall], rows)])
