"""`python -m ebbtide.cli`."""

from ebbtide.cli.entry import main

main(prog_name="ebbtide")
