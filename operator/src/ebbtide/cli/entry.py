"""The `ebbtide` command."""

import click

from ebbtide import __version__
from ebbtide.cli.crds import crds


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ebbtide")
def main() -> None:
    """Elastic distributed training on GPU capacity that comes and goes."""


main.add_command(crds)
