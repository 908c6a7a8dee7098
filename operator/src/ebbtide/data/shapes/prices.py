"""Public price lists in, offers of the catalogue out."""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

Json: TypeAlias = dict[str, Any]
Row: TypeAlias = Mapping[str, str]

AWS_REGION: Final = "us-east-1"
"""The only region that the list of prices on demand knows."""

_BY_SIZE: Final = MappingProxyType({
    "xlarge": 1, "2xlarge": 1, "4xlarge": 1, "8xlarge": 1, "16xlarge": 1,
    "12xlarge": 4, "24xlarge": 4, "48xlarge": 8,
})  # fmt: skip
AWS_FAMILIES: Final[Mapping[str, tuple[str, Mapping[str, int]]]] = MappingProxyType({
    "p2": ("K80", {"xlarge": 1, "8xlarge": 8, "16xlarge": 16}),
    "p3": ("V100", {"2xlarge": 1, "8xlarge": 4, "16xlarge": 8}),
    "p3dn": ("V100-32GB", {"24xlarge": 8}),
    "p4d": ("A100", {"24xlarge": 8}),
    "p4de": ("A100-80GB", {"24xlarge": 8}),
    "p5": ("H100", {"4xlarge": 1, "48xlarge": 8}),
    "p5e": ("H200", {"48xlarge": 8}),
    "p5en": ("H200", {"48xlarge": 8}),
    "p6-b200": ("B200", {"48xlarge": 8}),
    "g3s": ("M60", {"xlarge": 1}),
    "g3": ("M60", {"4xlarge": 1, "8xlarge": 2, "16xlarge": 4}),
    "g4dn": ("T4", {**_BY_SIZE, "metal": 8}),
    "g5": ("A10G", _BY_SIZE),
    "g5g": ("T4G", {**_BY_SIZE, "16xlarge": 2, "metal": 2}),
    "g6": ("L4", _BY_SIZE),
    "gr6": ("L4", _BY_SIZE),
    "g6e": ("L40S", _BY_SIZE),
    "g7e": ("RTX-PRO-6000", {"2xlarge": 1, "4xlarge": 1, "8xlarge": 1, "12xlarge": 2,
                             "24xlarge": 4, "48xlarge": 8}),
})  # fmt: skip
"""GPU type, and how many a size has; what is missing here has no GPU of ours, or parts of one."""

GCP_GPUS: Final = MappingProxyType({
    "a100": "A100", "a100-80gb": "A100-80GB", "h100-80gb": "H100", "h100-80gb-mega": "H100",
    "l4": "L4", "rtx6000": "RTX-PRO-6000",
})  # fmt: skip

FSDL_GPUS: Final = MappingProxyType({
    "K80 (12 GB)": "K80", "P4 (8 GB)": "P4", "P100 (16 GB)": "P100", "V100 (16 GB)": "V100",
    "V100 (32 GB)": "V100-32GB", "T4 (16 GB)": "T4", "A10": "A10", "A10 (24 GB)": "A10",
    "A10G (24 GB)": "A10G", "A40 (48 GB)": "A40", "A4000 (16 GB)": "A4000",
    "A5000 (24 GB)": "A5000", "A6000 (48 GB)": "A6000", "RTX A6000 (48 GB)": "A6000",
    "A100 (40 GB)": "A100", "A100 (80 GB)": "A100-80GB", "L4 (24 GB)": "L4",
    "H100 (80 GB)": "H100", "H100 HGX (80GB)": "H100", "GH200 (96 GB)": "GH200",
    "RTX4000 (8 GB)": "RTX4000", "RTX5000 (16 GB)": "RTX5000",
    "Quadro RTX 6000 (24 GB)": "RTX6000",
})  # fmt: skip
FSDL_PROVIDERS: Final = MappingProxyType({"AWS": "aws", "GCP": "gcp", "Azure": "azure"})


def read_gpus(text: str) -> dict[str, Json]:
    """Read the table of GPU types; figures per second and in GiB."""
    return {
        row["gpu"]: {
            "memory_gib": float(row["memory_gib"]),
            "flops_fp32": float(row["tflops_fp32"]) * 1e12,
            "flops_tensor": float(row["tflops_tensor"]) * 1e12 if row["tflops_tensor"] else None,
        }
        for row in _rows(text)
    }


def read_aws(prices: str, advisor: str, *, day: str, source: str) -> Iterator[Json]:
    """
    Join prices on demand with the advisor's savings and classes of the same region.

    The advisor is of another day: a spot price is its saving off today's price on demand.
    """
    advice = {
        row["instance_type"]: row
        for row in _rows(advisor)
        if row["region"] == AWS_REGION and row["os"] == "Linux"
    }
    for row in _rows(prices):
        name = row["instance_type"]
        family, _, size = name.partition(".")
        gpu, sizes = AWS_FAMILIES.get(family, ("", {}))
        price = row["usd_per_hour_us_east_1_linux_ondemand"]
        if size not in sizes or not price:
            continue
        found = advice.get(name)
        saving = float(found["savings_pct"]) / 100 if found is not None else None
        yield {
            "provider": "aws",
            "instance_type": name,
            "region": AWS_REGION,
            "gpu": gpu,
            "gpus": sizes[size],
            "on_demand_usd": float(price),
            "spot_usd": round(float(price) * (1 - saving), 4) if saving is not None else None,
            "nic_gbps": float(row["network_mbps"]) / 1000 if row["network_mbps"] else None,
            "interruption": int(found["interruption_index"]) if found is not None else None,
            "date": day,
            "source": source,
        }


def read_gcp(text: str, *, day: str, source: str) -> Iterator[Json]:
    """Read the last price of each machine type and region; parts of a GPU are left out."""
    rows = [(row, json.loads(row["accelerators"])) for row in _rows(text)]
    # The network is named in some rows only, and is the same for a type everywhere.
    network = {
        row["machine_type"]: float(parts["bandwidth"])
        for row, parts in rows
        if "bandwidth" in parts
    }
    for row, parts in rows:
        gpus = {GCP_GPUS[name]: number for name, number in parts.items() if name in GCP_GPUS}
        (gpu, number), *more = gpus.items()
        if more or number != int(number):
            continue
        yield {
            "provider": "gcp",
            "instance_type": row["machine_type"],
            "region": row["region"],
            "gpu": gpu,
            "gpus": int(number),
            "on_demand_usd": float(row["usd_hour"]),
            "spot_usd": float(row["usd_hour_spot"]) if row["usd_hour_spot"] else None,
            "nic_gbps": network.get(row["machine_type"]),
            "interruption": None,
            "date": day,
            "source": source,
        }


def read_fsdl(text: str, *, day: str, source: str, without: frozenset[str]) -> Iterator[Json]:
    """
    Read the list of many providers, but for types in `without`, which other lists know better.

    A row without a name is called by its size; of rows alike in all but the price the dearest
    stays.
    """
    offers: dict[tuple[str, str, str], Json] = {}
    for row in _rows(text):
        gpu = FSDL_GPUS.get(row["GPU Type"])
        name = row["Name"] or f"{row['GPUs']}x{gpu}-{row['vCPUs']}c-{row['RAM']}g"
        provider = FSDL_PROVIDERS.get(row["Cloud"], row["Cloud"])
        if gpu is None or not row["On-demand"] or provider == "aws" or name in without:
            continue
        offer = {
            "provider": provider,
            "instance_type": name,
            "region": "",
            "gpu": gpu,
            "gpus": int(row["GPUs"]),
            "on_demand_usd": float(row["On-demand"]),
            "spot_usd": float(row["Spot"]) if row["Spot"] else None,
            "nic_gbps": None,
            "interruption": None,
            "date": day,
            "source": source,
        }
        former = offers.get((provider, name, gpu))
        if former is None or former["on_demand_usd"] < offer["on_demand_usd"]:
            offers[provider, name, gpu] = offer
    yield from offers.values()


def _rows(text: str) -> Iterator[Row]:
    yield from csv.DictReader(io.StringIO(text, newline=""), strict=True)
