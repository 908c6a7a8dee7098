"""
The command line, one file per command.

Data goes to standard output, notes to standard error; exit status 0 is done, 1 failed, 2 usage.
Commands import what they need when they run, so that `ebbtide --help` stays fast.
"""

from ebbtide.cli.entry import main

__all__ = ["main"]
