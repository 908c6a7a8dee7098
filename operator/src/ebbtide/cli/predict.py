"""`ebbtide predict`: ask a stored model."""

import json
from typing import TYPE_CHECKING, Any, Final

import click

from ebbtide.cli.fit import MODELS, complaints
from ebbtide.cli.tables import FileError, lay_out, read_bytes, read_tables, use_one_thread

if TYPE_CHECKING:  # commands import late: `ebbtide --help` stays fast
    from ebbtide.core.models.forecast import Forecast
    from ebbtide.core.models.kinds import Kind
    from ebbtide.core.models.stored import Model
    from ebbtide.core.models.table import Table

BEYOND: Final = "beyond the data"


@click.command()
@click.argument("model", type=click.Choice(MODELS), metavar="MODEL")
@click.option(
    "--model", "stored", metavar="FILE",
    help="What `fit --out` wrote; the model that ships with Ebbtide where not given.",
)  # fmt: skip
@click.option(
    "--input", "file", required=True, metavar="FILE",
    help="CSV with a header or JSON lines; `-` is standard input.",
)  # fmt: skip
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
def predict(model: str, stored: str | None, file: str, output: str) -> None:
    """
    Ask a stored MODEL about each row of a table.

    Each answer has an interval that holds nine of ten measurements, and says whether the question
    lies beyond the data that the model was fitted from.
    """
    use_one_thread()
    from ebbtide.core.models import kinds
    from ebbtide.core.models.stored import StoredModelError

    kind = kinds.find(model)
    fitted = load_default(kind) if stored is None else load(kind, stored)
    with complaints(file):
        table = read_tables([file])
        try:
            forecast = kind.ask(fitted, table)
        except StoredModelError as error:
            raise FileError(stored or f"the {model} model that ships", str(error)) from error
    answers = _answers(table, forecast)
    for name, values in kind.more(fitted, forecast).items() if kind.more is not None else ():
        for answer, value in zip(answers, values.tolist(), strict=True):
            answer[name] = value
    if output == "json":
        report = {
            "model": kind.name,
            "method": fitted.method,
            "target": kind.target.name,
            "unit": kind.target.unit,
            "predictions": answers,
        }
        click.echo(json.dumps(report, allow_nan=False))
    else:
        click.echo(_lay(kind, table, answers))


def load(kind: "Kind", file: str) -> "Model":
    """Read a stored model; raises FileError for everything that is none."""
    from ebbtide.core.models.stored import StoredModelError, parse

    content = read_bytes(file)
    try:
        return kind.from_json(parse(content.decode("utf-8")))
    except UnicodeDecodeError as error:
        raise FileError(file, "this is no stored model, for it is no text") from error
    except StoredModelError as error:
        raise FileError(file, str(error)) from error


def load_default(kind: "Kind") -> "Model":
    """Read the model that ships with the package, and say where it comes from."""
    from ebbtide.data import defaults

    try:
        fitted, source = defaults.embedded_model(kind.name), defaults.provenance(kind.name)
    except KeyError as error:
        raise click.UsageError(f"no {kind.name} model ships with Ebbtide: give --model") from error
    click.echo(f"note: fitted from {source['source']}, {source['about']}", err=True)
    return fitted


def _answers(table: "Table", forecast: "Forecast") -> list[dict[str, Any]]:
    import numpy as np

    found = np.column_stack([forecast.value, forecast.low, forecast.high])
    return [
        {
            "row": int(str(label).partition(" ")[0]),
            "value": value,
            "low": low,
            "high": high,
            "beyond": bool(beyond),
        }
        for label, (value, low, high), beyond in zip(
            table.rows, found.tolist(), forecast.beyond, strict=True
        )
    ]


def _lay(kind: "Kind", table: "Table", answers: list[dict[str, Any]]) -> str:
    names = [column.name for column in kind.inputs if table.has(column.name)]
    target = f"{kind.target.name}"
    rows = [
        [
            answer["row"],
            *(table.cells[name][index] for name in names),
            answer["value"],
            answer["low"],
            answer["high"],
            BEYOND if answer["beyond"] else "",
        ]
        for index, answer in enumerate(answers)
    ]
    return lay_out(["row", *names, target, "low", "high", ""], rows)
