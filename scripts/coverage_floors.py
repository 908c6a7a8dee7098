"""Combine what `make coverage` measured and hold each package to its floor of branch coverage."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "operator/src/ebbtide/"
REPORT = ROOT / ".run" / "coverage" / "report.json"

# Where decisions are made nearly every branch is a promise; elsewhere some are faults of machines.
STRICT = ("api", "core", "manifests", "wire")
STRICT_FLOOR = 98.0
FLOOR = 80.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """Lines and branches of one package that tests reached, of all there are."""

    num_reached: int = 0
    num_all: int = 0

    @property
    def percent(self) -> float:
        """The share reached; an empty package is wholly covered."""
        return 100.0 * self.num_reached / self.num_all if self.num_all else 100.0


def by_package(report: Mapping[str, Any]) -> dict[str, Covered]:
    """Sums of coverage's JSON report for each package directly below ebbtide."""
    sums: dict[str, Covered] = {}
    for path, file in report["files"].items():
        inner = path.partition(PACKAGE)[2]
        if not inner:
            continue
        package = inner.split("/")[0] if "/" in inner else "."
        summary = file["summary"]
        former = sums.get(package, Covered())
        sums[package] = Covered(
            num_reached=former.num_reached
            + summary["covered_lines"]
            + summary.get("covered_branches", 0),
            num_all=former.num_all + summary["num_statements"] + summary.get("num_branches", 0),
        )
    return sums


def floor_of(package: str) -> float:
    """The share of lines and branches that tests of this package must reach."""
    return STRICT_FLOOR if package in STRICT else FLOOR


def main() -> int:
    """Print a line for each package; 1 if one is below its floor or nothing was measured."""
    coverage = [sys.executable, "-m", "coverage"]
    subprocess.run([*coverage, "combine", "--quiet"], cwd=ROOT, check=True)
    subprocess.run([*coverage, "json", "--quiet", "-o", str(REPORT)], cwd=ROOT, check=True)
    packages = by_package(json.loads(REPORT.read_text(encoding="utf-8")))
    if not packages:
        print("coverage: nothing was measured")
        return 1
    num_below = 0
    for package, covered in sorted(packages.items()):
        is_below = covered.percent < floor_of(package)
        num_below += is_below
        verdict = f"below {floor_of(package):.0f}" if is_below else "ok"
        print(f"  {package:14}{covered.percent:6.1f} %  {verdict}")
    print(f"coverage: {num_below} packages below their floor")
    return 1 if num_below else 0


if __name__ == "__main__":
    sys.exit(main())
