"""What was measured, as a WorkloadProfile and as a table."""

import json
import re
from collections.abc import Sequence
from statistics import median
from typing import Any, Final

from ebbtide.api.convert import parse_profile
from ebbtide.cli.tables import lay_out
from ebbtide.core.values.workload import CPU
from ebbtide.runtime.profiler.orders import Measured
from ebbtide.runtime.profiler.session import Script
from ebbtide.wire.names import API_VERSION, WORKLOAD_PROFILE

_MEBI: Final = 1 << 20
_MODEL: Final = re.compile(r"[A-Z]+\d+[A-Z]*")


def build_document(
    script: Script,
    measures: Sequence[Measured],
    *,
    name: str,
    workload: str,
    gpu: str | None,
    largest: int | None,
) -> dict[str, Any]:
    """
    Return the WorkloadProfile; InvalidManifestError when something measured cannot be so.

    `gpu` is the kind as the user calls it, or None. A step's time is the median over its steps.
    """
    kind = gpu or type_of(script.joined.gpu)
    most = measures[-1]
    spec: dict[str, Any] = {
        "workload": workload,
        "parameters": script.looping.parameters,
        "tensors": script.looping.tensors,
        "gradientBytes": script.looping.gradient_bytes,
        "checkpointBytes": most.checkpoint_bytes,
    }
    if most.flops:
        spec["flopsPerSample"] = round(most.flops / most.batch)
    if largest is not None:
        spec["maxLocalBatch"] = {kind: largest}
    spec["stepTimes"] = [
        {
            "gpu": kind,
            "localBatch": one.batch,
            "seconds": _figures(median(one.step_seconds)),
            "samples": len(one.step_seconds),
        }
        for one in measures
    ]
    if most.bucket_ready:
        spec["bucketReady"] = [_figures(seconds) for seconds in most.bucket_ready]
    document = {
        "apiVersion": API_VERSION,
        "kind": WORKLOAD_PROFILE,
        "metadata": {"name": name},
        "spec": spec,
    }
    parse_profile(document)
    return document


def type_of(device: str) -> str:
    """Return a GPU's kind as pools name it, from what the driver calls it; CPU without one."""
    if not device:
        return CPU
    found = _MODEL.search(device.removeprefix("NVIDIA "))
    return found[0] if found else device[:63]


def to_yaml(document: dict[str, Any]) -> str:
    """Return the document as YAML, in the order of the reference."""
    import yaml

    text: str = yaml.safe_dump(document, sort_keys=False)
    return text


def lay_out_document(
    document: dict[str, Any], script: Script, measures: Sequence[Measured], *, output: str
) -> str:
    """Return what goes to standard output: the document, or a table for people."""
    if output == "json":
        return json.dumps(document, indent=1)
    if output == "yaml":
        return to_yaml(document)
    spec = document["spec"]
    device = script.joined.gpu or "the CPU"
    facts = [
        (
            f"{spec['workload']} on {device}: {spec['parameters']} parameters in {spec['tensors']}"
            f" tensors, {spec['gradientBytes']} bytes of gradients, a checkpoint of"
            f" {spec['checkpointBytes']} bytes"
        ),
    ]
    if "flopsPerSample" in spec:
        facts.append(f"{spec['flopsPerSample']:.4g} FLOPs for one sample, forward and backward")
    for kind, batch in spec.get("maxLocalBatch", {}).items():
        facts.append(f"largest batch that fits on one {kind}: {batch}")
    rows = [_row(one) for one in measures]
    head = ["batch", "step s", "of it data s", "samples/s", "peak MiB", "steps"]
    return "\n".join([*facts, "", lay_out(head, rows)])


def _row(one: Measured) -> list[object]:
    seconds = median(one.step_seconds)
    return [
        one.batch,
        seconds,
        median(one.data_seconds),
        one.batch / seconds if seconds > 0 else 0.0,
        one.peak_bytes / _MEBI,
        len(one.step_seconds),
    ]


def _figures(value: float) -> float:
    """Four significant figures: what is more is noise."""
    return float(f"{value:.4g}")
