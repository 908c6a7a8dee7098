"""
Make the embedded catalogue and fit the embedded models, from tests/data.

What is written depends on those files alone: made again, it is the same to the byte.
"""

import argparse
import sys
from pathlib import Path

from ebbtide.data.making import make_files

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
TARGET = ROOT / "operator" / "src" / "ebbtide" / "data"


def main() -> int:
    """Write what has changed; with --check write nothing and fail where something would change."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say what would change")
    is_check = parser.parse_args().check
    stale = 0
    for name, text in make_files(lambda path: (DATA / path).read_text(encoding="utf-8")):
        path = TARGET / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            print(f"{name}: as it was")
            continue
        stale += 1
        if is_check:
            print(f"{name}: is not what tests/data gives; run `make models`")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"{name}: written, {len(text) / 1024:.0f} KiB")
    return 1 if is_check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
