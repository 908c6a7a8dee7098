"""Which view of the machine its containers can have: tried once, before the first container."""

from __future__ import annotations

import functools
import logging
import shutil
import subprocess
import tempfile
from typing import Final

from world.kubelet.views import View

log = logging.getLogger(__name__)

SECONDS: Final = 10.0
# Prints the name of the best view. A tmpfs has the layers, as in a container.
TRIAL: Final = """
cd "$1" && mount -t tmpfs tmpfs "$1" && cd "$1" || exit
mkdir upper work root
options=upperdir=upper,workdir=work
if mount -t overlay -o "lowerdir=/,$options" overlay root; then
  echo OVERLAY
elif mount -t overlay -o "lowerdir=/usr,$options,userxattr" overlay root; then
  echo PIECES
else
  echo SHARED
fi
"""


@functools.cache
def find_view() -> View:
    """Return the best view that the kernel allows this process, and say in the log which it is."""
    unshare = shutil.which("unshare") or "unshare"
    with tempfile.TemporaryDirectory(prefix="ebbtide-view-") as folder:
        run = subprocess.run(
            [unshare, "--mount", "--propagation=private", "/bin/sh", "-c", TRIAL, "sh", folder],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    word = run.stdout.strip()
    if word not in View.__members__:
        raise RuntimeError(f"containers can have no mounts here: {run.stderr.strip()}")
    view = View[word]
    log.info("containers see %s%s", view.value, _reason(run.stderr))
    return view


def _reason(said: str) -> str:
    lines = said.strip().splitlines()
    return f" ({lines[0]})" if lines else ""
