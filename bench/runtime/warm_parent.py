"""
A worker's PID 1 that has imported all, and forks a rank whenever it is told to.

A line on standard input is the environment of the rank, as JSON; the answer is the moment just
before the fork, and the rank's process id. What runs in the fork is what runs in a worker's.
"""

import json
import os
import sys
import time
from pathlib import Path

from ebbtide.runtime import commands, preload, worker


def main() -> None:
    """Fork the script of the command line once per line of input."""
    command = commands.Script(path=sys.argv[1], arguments=())
    preload.preload()
    print("ready", flush=True)
    for line in sys.stdin:
        environment = json.loads(line)
        begun = time.monotonic()
        pid = os.fork()
        if pid == 0:
            os.environ.clear()
            os.environ.update(environment)
            silence = os.open(Path(environment["HOME"]) / "said", os.O_WRONLY | os.O_CREAT, 0o600)
            os.dup2(silence, sys.stdout.fileno())
            worker._become_rank(0)  # noqa: SLF001 -- the very path of a worker
            worker._run(command, processes=1)  # noqa: SLF001 -- the very path of a worker
            os._exit(0)
        print(begun, pid, flush=True)


if __name__ == "__main__":
    main()
