"""The `ebbtide` command."""

import click

from ebbtide import __version__
from ebbtide.cli.crds import crds
from ebbtide.cli.fit import fit
from ebbtide.cli.plan import plan
from ebbtide.cli.predict import predict
from ebbtide.cli.profiling import profile
from ebbtide.cli.simulate import simulate


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ebbtide")
def main() -> None:
    """Elastic distributed training on GPU capacity that comes and goes."""


main.add_command(crds)
main.add_command(fit)
main.add_command(plan)
main.add_command(predict)
main.add_command(profile)
main.add_command(simulate)
