"""Where tests, and all processes that they start, keep what they would leave in /tmp."""

import os
import tempfile
from pathlib import Path


def keep_in(folder: Path) -> None:
    """
    Make a folder the place of all temporary files from now on.

    What is killed leaves its own behind. In a folder of pytest's they go with it, three runs later.
    """
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None  # whoever asked before keeps no older answer
