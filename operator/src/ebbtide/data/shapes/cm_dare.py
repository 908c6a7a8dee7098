"""
Speeds, checkpoints and starts of CM-DARE (ICDCS 2020).

Twenty convolutional networks on CIFAR-10, one worker with one GPU and one parameter server, 128
samples a step. FLOPs are those of one sample, forward and backward. MB are of 2^20 bytes.
"""

import csv
import io
from collections.abc import Mapping
from typing import Final

from ebbtide.core.models.table import DataError, Table, read_rows

BATCH: Final = 128
GPUS: Final = ("K80", "P100")
STAGES: Final = ("Provisioning", "Staging", "Booting")
WARM_UP_STEPS: Final = 201
"""The first window of a run, up to step 101, holds the warm-up."""


def read_means(text: str) -> Table:
    """Read mean step times from the table of twenty models: one row for each model and GPU type."""
    return read_rows(
        {
            "gpu": gpu,
            "workload": row["model"],
            "flops": row["flops"],
            "params": row["params"],
            "tensors": row["tensors"],
            "local_batch": BATCH,
            "step_time_s": row[f"{gpu.lower()}_step_s"],
        }
        for gpu in GPUS
        for row in _rows(text, "k80_step_s", "p100_step_s")
    )


def read_steps(text: str) -> Table:
    """Read single readings of step times: 13 for each model and GPU type."""
    return read_rows(
        {
            "gpu": row["GPU (temp)"],
            "workload": row["Model (temp)"],
            "flops": row["Model FLOPs"],
            "params": row["Number of Parameters"],
            "tensors": row["Number of Tensors"],
            "local_batch": BATCH,
            "step_time_s": row["Step Time (s)"],
        }
        for row in _rows(text, "Model FLOPs", "Step Time (s)")
    )


def read_checkpoint_means(text: str) -> Table:
    """Read mean times of checkpoints to the store from the table of twenty models."""
    return read_rows(
        {
            "workload": row["model"],
            "size_mb": row["ckpt_size_mb"],
            "tensors": row["tensors"],
            "duration_s": row["ckpt_total_s"],
        }
        for row in _rows(text, "ckpt_size_mb", "ckpt_total_s")
    )


def read_checkpoints(text: str) -> Table:
    """Read single checkpoints, five for each model; the file does not tell their tensors."""
    return read_rows(
        {
            "workload": row["Model"],
            "size_mb": row["Checkpoint Size (MB)"],
            "tensors": "-",
            "duration_s": row["Duration"],
        }
        for row in _rows(text, "Checkpoint Size (MB)", "Duration")
    )


def read_start_ups(texts: Mapping[str, str]) -> Table:
    """Read starts of nodes from the file of each pool: pool, stage, seconds."""
    return read_rows(
        {"pool": pool, "stage": stage.lower(), "seconds": row[stage]}
        for pool, text in texts.items()
        for row in _rows(text, *STAGES)
        for stage in STAGES
    )


def read_replacements(text: str) -> Table:
    """Read how long a training process takes to start: `cold` on a new node, or `warm`."""
    return read_rows(
        {"pool": row["workload"], "stage": row["start"], "seconds": row["seconds"]}
        for row in _rows(text, "workload", "start", "seconds")
    )


def read_speeds(text: str) -> list[float]:
    """Read the steps per second of one run, a window of 100 steps each, warm-up left out."""
    rows = _rows(text, "Wall time", "Step", "Value")
    return [
        float(row["Value"])
        for row in rows
        if row["Wall time"] and int(row["Step"]) >= WARM_UP_STEPS
    ]


def _rows(text: str, *needed: str) -> list[dict[str, str]]:
    reader = csv.DictReader(io.StringIO(text))
    missing = [name for name in needed if name not in (reader.fieldnames or ())]
    if missing:
        raise DataError(f"no such shape of CM-DARE: there is no column {', '.join(missing)}")
    return list(reader)
