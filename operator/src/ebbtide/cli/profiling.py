"""`ebbtide profile`: run a training script alone and write down what it costs."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from typing_extensions import override

from ebbtide.cli.ranges import RealRange

if TYPE_CHECKING:  # commands import late: `ebbtide --help` stays fast
    from ebbtide.cli.progress import Progress
    from ebbtide.runtime.profiler.orders import Measured
    from ebbtide.runtime.profiler.session import Session

LEAST_STEPS: Final = 3
MOST_BATCHES: Final = 16
SPREAD: Final = 7
"""So many batch sizes are measured at most: enough for two lines and a breakpoint."""
BELOW: Final = 16
ABOVE: Final = 2
"""They reach from this share of the script's batch to that multiple, where nothing is known."""
PROBE_STEPS: Final = 2
"""A probe's second step holds what the first one made: the optimizer's state."""
_UNITS: Final = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


class MemoryAmount(click.ParamType[int]):
    """Bytes, as Kubernetes writes them: 4Gi, 500M."""

    name = "memory"

    @override
    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return bytes."""
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d+)?)(k|M|G|Ki|Mi|Gi)?", str(value))
        if found is None or (size := int(float(found[1]) * _UNITS[found[2] or ""])) < 1:
            self.fail(f"{value!r} is no amount of memory, as 4Gi or 500M is", param, ctx)
        return size


class BatchSizes(click.ParamType[tuple[int, ...]]):
    """Batch sizes with commas between them."""

    name = "sizes"

    @override
    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Return the sizes, smallest first, each once."""
        if isinstance(value, tuple):
            return value
        parts = str(value).split(",")
        if not all(re.fullmatch(r" *[1-9]\d{0,8} *", part) for part in parts):
            self.fail(f"{value!r} is no list of batch sizes, as 8,16,32 is", param, ctx)
        sizes = sorted({int(part) for part in parts})
        if len(sizes) > MOST_BATCHES:
            self.fail(f"{len(sizes)} batch sizes are too many, {MOST_BATCHES} at most", param, ctx)
        return tuple(sizes)


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--batch-search", is_flag=True,
    help="Find the largest batch that fits into memory, too.",
)  # fmt: skip
@click.option(
    "--memory-limit", type=MemoryAmount(), metavar="AMOUNT",
    help="What a worker without a GPU may hold, as 4Gi; --batch-search needs it there.",
)  # fmt: skip
@click.option(
    "--batches", type=BatchSizes(), metavar="N,N,...",
    help="Samples of one rank in a step, to be measured; by default seven sizes around the"
    " script's own, or up to the largest that fits.",
)  # fmt: skip
@click.option(
    "--steps", type=click.IntRange(LEAST_STEPS, 1000), default=20, show_default=True,
    help="Steps to measure with each size.",
)  # fmt: skip
@click.option("--warm-up", type=click.IntRange(2, 1000), default=3, show_default=True,
    help="Steps before them that do not count.",
)  # fmt: skip
@click.option("--gpu", metavar="TYPE", help="Kind of GPU, as pools name it; else as it says.")
@click.option("--name", metavar="NAME", help="Of the profile; the script's where not given.")
@click.option("--workload", metavar="TEXT", help="What is trained; the name where not given.")
@click.option(
    "--patience", type=RealRange(1, 86_400), default=600.0, show_default=True,
    help="Seconds without a word from the script after which it is given up.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table",
    help="What goes to standard output.",
)  # fmt: skip
@click.option("--out", metavar="FILE", help="Write the WorkloadProfile there, as YAML.")
def profile(command: tuple[str, ...], **given: Any) -> None:
    """
    Run a training script alone, without a cluster, and write down what it costs.

    COMMAND is what a TrainingJob runs: put -- before it, as in `-- python train.py`. The script is
    not changed; its loop gets batches of several sizes, and it ends when they are measured.
    """
    from ebbtide.cli.profile_document import build_document, lay_out_document, to_yaml
    from ebbtide.cli.progress import Progress
    from ebbtide.runtime.errors import UsageError
    from ebbtide.runtime.profiler.session import ScriptError, Session

    with Progress() as progress:
        try:
            with Session(command, patience=given["patience"], look=progress.tick) as session:
                measures, largest = _measure(session, given, progress)
                script = session.script
        except ScriptError as error:
            raise click.ClickException(str(error)) from error
        except UsageError as error:
            raise click.UsageError(str(error)) from error
    if script is None:
        raise click.ClickException("the script was never started")
    name = given["name"] or name_of(command)
    document = build_document(
        script,
        measures,
        name=name,
        workload=given["workload"] or name,
        gpu=given["gpu"],
        largest=largest,
    )
    text = to_yaml(document)
    if given["out"] is not None:
        try:
            Path(given["out"]).write_text(text, encoding="utf-8")
        except OSError as error:
            raise click.ClickException(f"{given['out']}: {error.strerror}") from error
    click.echo(lay_out_document(document, script, measures, output=given["output"]).rstrip("\n"))


def name_of(command: tuple[str, ...]) -> str:
    """Name a profile after the script, or its folder where that says nothing."""
    from ebbtide.runtime import commands

    match commands.parse(command):
        case commands.Script(path=path):
            stem = Path(path).stem
            word = Path(path).resolve().parent.name if stem in {"train", "main"} else stem
        case commands.Module(name=module):
            word = module.removesuffix(".__main__").rpartition(".")[2]
        case commands.Program(words=(first, *_)):
            word = Path(first).stem
        case _:
            word = ""
    clean = re.sub(r"[^a-z0-9]+", "-", word.lower()).strip("-")
    return clean[:63].strip("-") or "workload"


def spread(least: int, most: int) -> tuple[int, ...]:
    """Return `SPREAD` sizes at most: doublings from `least`, evenly thinned, and `most`."""
    sizes = [least]
    while 2 * sizes[-1] <= most:
        sizes.append(2 * sizes[-1])
    if sizes[-1] < most:
        sizes.append(most)
    if len(sizes) <= SPREAD:
        return tuple(sizes)
    return tuple(sizes[round(place * (len(sizes) - 1) / (SPREAD - 1))] for place in range(SPREAD))


def _measure(
    session: "Session", given: dict[str, Any], progress: "Progress"
) -> tuple[list["Measured"], int | None]:
    """Search where that is wanted, then time each size; the sizes that fit not are left out."""
    from ebbtide.runtime.profiler.orders import Measure, Measured

    progress.say("starting the script")
    script = session.start()
    limit = 0 if script.joined.gpu else given["memory_limit"] or 0
    largest = None
    if given["batch_search"]:
        if not script.joined.gpu and not limit:
            raise click.UsageError(
                "--batch-search needs --memory-limit here: the script computes on the CPU, whose"
                " memory is shared with all else"
            )
        largest = _search(session, limit, progress)
    sizes = given["batches"] or _sizes(script.joined.global_batch_size, largest)
    if largest is not None:
        sizes = tuple(size for size in sizes if size <= largest) or (largest,)
    found: list[Measured] = []
    for number, size in enumerate(sizes, start=1):
        progress.say(f"size {number} of {len(sizes)}: {given['steps']} steps of {size} samples")
        answer = session.measure(
            Measure(
                batch=size,
                steps=given["steps"],
                warm_up=given["warm_up"],
                details=True,
                memory_limit=limit,
            )
        )
        if not isinstance(answer, Measured):
            progress.say(f"{size} samples do not fit into memory")
            break
        found.append(answer)
    if not found:
        raise click.ClickException(f"not even {sizes[0]} samples fit into memory")
    return found, largest


def _sizes(own: int, largest: int | None) -> tuple[int, ...]:
    top = own * ABOVE if largest is None else largest
    base = own if largest is None else largest
    # A single sample is left out: layers that normalise over the batch refuse it.
    return spread(max(min(2, top), base // BELOW), top)


def _search(session: "Session", limit: int, progress: "Progress") -> int:
    from ebbtide.runtime.profiler.orders import Measure, Measured
    from ebbtide.runtime.profiler.search import find_largest

    def fits(batch: int) -> bool:
        progress.say(f"does a batch of {batch} fit?")
        answer = session.measure(Measure(batch=batch, steps=PROBE_STEPS, memory_limit=limit))
        return isinstance(answer, Measured) and (not limit or answer.peak_bytes <= limit)

    found = find_largest(fits)
    if found.largest == 0:
        raise click.ClickException("not even one sample fits into memory")
    progress.say(f"the largest batch that fits is {found.largest} ({found.probes} probes)")
    return found.largest
