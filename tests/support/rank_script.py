"""A script for torchrun that needs no torch: tells what it was given, and ends as it is told."""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import NoReturn


def main() -> None:
    """Write the environment, then wait for the file `go`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--fail", default="", help="rank:code, as long as `mended` is not there")
    parser.add_argument("--stubborn", action="store_true", help="SIGTERM changes nothing")
    parser.add_argument("--local-rank", type=int, default=-1)
    options = parser.parse_args()
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    rank, generation = os.environ["RANK"], os.environ.get("EBBTIDE_GENERATION", "0")

    def save(_number: int, _frame: FrameType | None) -> NoReturn:
        (folder / f"saved-{generation}-{rank}").write_text("")
        sys.exit(0)

    signal.signal(signal.SIGTERM, signal.SIG_IGN if options.stubborn else save)
    told = {**os.environ, "local_rank_argument": str(options.local_rank)}
    unfinished = folder / f"begun-{generation}-{rank}.tmp"
    unfinished.write_text(json.dumps(told))
    unfinished.rename(folder / f"begun-{generation}-{rank}.json")
    failing, _, code = options.fail.partition(":")
    if rank == failing and not (folder / "mended").exists():
        (folder / f"failed-{generation}-{rank}").write_text("")
        sys.exit(int(code))
    while not (folder / "go").exists():
        time.sleep(0.05)


if __name__ == "__main__":
    main()
