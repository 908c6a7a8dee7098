"""`ebb.join(local=n)`: a script tried on a laptop."""

import os
import subprocess
import sys
from pathlib import Path

from .conftest import DIGITS


def test_a_script_trains_as_three_processes_without_a_cluster(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, str(DIGITS), "--local", "3", "--checkpoints", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=55,
        check=True,
    )

    accuracies = [
        float(line.split()[2])
        for line in result.stdout.splitlines()
        if line.startswith("test accuracy")
    ]
    assert len(accuracies) == 3
    assert len(set(accuracies)) == 1
    assert accuracies[0] >= 0.97
    assert (tmp_path / "result.json").exists()
