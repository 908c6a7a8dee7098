"""`ebbtide crds`: render the custom resource definitions."""

from pathlib import Path

import click


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write one file for each kind into this folder, instead of to standard output.",
)
@click.option(
    "--check",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Write nothing; fail if the files in this folder are not what would be rendered.",
)
@click.option(
    "--reference",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write what users read about every field into this file, as Markdown, and nothing else.",
)
def crds(out: Path | None, check: Path | None, reference: Path | None) -> None:
    """Render the definitions of our kinds, ready for `kubectl apply`."""
    if len([given for given in (out, check, reference) if given is not None]) > 1:
        raise click.UsageError("--out, --check and --reference exclude each other: give one")
    if reference is not None:
        _refer(reference)
        return
    from ebbtide.api.render import render_files

    files = render_files()
    if check is not None:
        _compare(files, check)
    elif out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (out / name).write_text(text, encoding="utf-8")
            click.echo(f"wrote {out / name}", err=True)
    else:
        click.echo("---\n".join(files.values()), nl=False)


def _refer(file: Path) -> None:
    from ebbtide.api.reference import render_reference

    file.write_text(render_reference(), encoding="utf-8")
    click.echo(f"wrote {file}", err=True)


def _compare(files: dict[str, str], folder: Path) -> None:
    present = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.yaml")}
    stale = sorted(name for name, text in files.items() if present.get(name) != text)
    unknown = sorted(set(present) - set(files))
    for name in stale:
        click.echo(f"{folder / name} is not what the models render: run `make crds`", err=True)
    for name in unknown:
        click.echo(f"{folder / name} is rendered from no model: delete it", err=True)
    if stale or unknown:
        raise click.exceptions.Exit(1)
