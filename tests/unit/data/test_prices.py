"""Public price lists, each with its traps."""

from typing import Any

from architecture.tree import ROOT
from ebbtide.data.shapes import prices

DATA = ROOT / "tests" / "data"

ADVISOR = """region,os,instance_type,vcpu,ram_gb,savings_pct,interruption_index,interruption_label,x
us-east-1,Linux,p3.2xlarge,8,61.0,70,4,>20%,100
us-west-2,Linux,p3.8xlarge,32,244.0,10,0,<5%,5
us-east-1,Windows,p3.8xlarge,32,244.0,10,0,<5%,5
"""
AWS = """instance_type,usd_per_hour_us_east_1_linux_ondemand,network_mbps
p3.2xlarge,3.06,2500
p3.8xlarge,12.24,
p3.16xlarge,,25000
p3.metal,20,25000
trn1.2xlarge,1.34,3125
"""
GCP = """date,machine_type,vcpu,ram_gb,accelerators,region,usd_hour,usd_hour_spot
2026-07-30,a2-highgpu-1g,12,58,"{""a100"": 1, ""bandwidth"": 24}",asia-east1,3.6,1.5
2026-07-30,a2-highgpu-1g,12,58,"{""a100"": 1}",us-east1,3.7,
2026-07-30,g4-standard-12,12,45,"{""rtx6000"": 0.25}",us-east1,1.1,0.4
2026-07-30,a3-highgpu-8g,208,1872,"{""h100-80gb"": 8, ""local-ssd"": 6000}",us-east1,88.5,30
"""
FSDL = """Cloud,GPU Type,GPU Arch,GPUs,GPU RAM,vCPUs,RAM,On-demand,Per-GPU,Spot,Name
AWS,V100 (16 GB),Volta,1,16,8,61,3.06,3.06,0.92,p3.2xlarge
GCP,A100 (40 GB),Ampere,1,40,12,85,3.67,3.67,1.10,a2-highgpu-1g
GCP,P100 (16 GB),Pascal,1,16,8,52,1.93,1.93,0.53,n1-highmem-8
GCP,K80 (12 GB),Kepler,1,12,8,52,0.92,0.92,0.14,n1-highmem-8
Cudo,A4000 (16 GB),Ampere,1,16,2,4,0.30,0.30,,
Cudo,A4000 (16 GB),Ampere,1,16,2,4,0.32,0.32,,
Exoscale,A5000 (24 GB),Ampere,1,24,2,4,,,,GPUA5000
Acme,3080Ti (12 GB),Ampere,1,12,2,4,0.5,0.5,,X
"""


def by_name(offers: Any) -> dict[tuple[str, str], dict[str, Any]]:
    return {(offer["instance_type"], offer["region"] or offer["gpu"]): offer for offer in offers}


def test_aws_prices_are_joined_with_the_savings_of_the_same_region() -> None:
    offers = by_name(prices.read_aws(AWS, ADVISOR, day="2026-07-20", source="aws"))

    assert list(offers) == [("p3.2xlarge", "us-east-1"), ("p3.8xlarge", "us-east-1")]
    first, second = offers.values()
    assert first["spot_usd"] == 0.918
    assert (first["gpu"], first["gpus"], first["nic_gbps"]) == ("V100", 1, 2.5)
    assert first["interruption"] == 4
    assert (second["gpus"], second["nic_gbps"]) == (4, None)
    assert (second["spot_usd"], second["interruption"]) == (None, None)


def test_gcp_networks_are_those_of_the_type_and_parts_of_a_gpu_are_left_out() -> None:
    offers = by_name(prices.read_gcp(GCP, day="2026-07-30", source="gcp"))

    assert list(offers) == [
        ("a2-highgpu-1g", "asia-east1"),
        ("a2-highgpu-1g", "us-east1"),
        ("a3-highgpu-8g", "us-east1"),
    ]
    assert [offer["nic_gbps"] for offer in offers.values()] == [24.0, 24.0, None]
    assert offers["a2-highgpu-1g", "us-east1"]["spot_usd"] is None
    assert offers["a3-highgpu-8g", "us-east1"]["gpus"] == 8


def test_the_list_of_many_providers_yields_to_better_ones_and_keeps_the_dearest() -> None:
    offers = list(
        prices.read_fsdl(
            FSDL, day="2025-03-07", source="fsdl", without=frozenset({"a2-highgpu-1g"})
        )
    )

    assert [(offer["provider"], offer["instance_type"], offer["gpu"]) for offer in offers] == [
        ("gcp", "n1-highmem-8", "P100"),
        ("gcp", "n1-highmem-8", "K80"),
        ("Cudo", "1xA4000-2c-4g", "A4000"),
    ]
    assert [offer["on_demand_usd"] for offer in offers] == [1.93, 0.92, 0.32]


def test_every_gpu_that_an_offer_may_name_has_its_figures() -> None:
    gpus = prices.read_gpus((DATA / "gpus" / "gpus.csv").read_text(encoding="utf-8"))

    named = {gpu for gpu, _ in prices.AWS_FAMILIES.values()}
    named |= set(prices.GCP_GPUS.values()) | set(prices.FSDL_GPUS.values())
    assert named - set(gpus) == set()
    assert gpus["V100"] == {"memory_gib": 16, "flops_fp32": 15.7e12, "flops_tensor": 125e12}
    assert gpus["K80"]["flops_tensor"] is None
