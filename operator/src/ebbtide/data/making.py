"""The embedded files, made from public data: text in, text out."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ebbtide.core.models import kinds
from ebbtide.core.models.stored import seal
from ebbtide.core.models.table import Table
from ebbtide.data.catalogue import load_catalogue, render_catalogue
from ebbtide.data.shapes import cluster_speed, cm_dare, lifetimes, pollux, prices

Json: TypeAlias = dict[str, Any]
Read: TypeAlias = Callable[[str], str]
"""Gives the text of a file below the folder of the data sets, as "aws-spot-advisor/x.csv"."""

CATALOGUE: Final = "catalogue.json"

AWS: Final = "aws"
GCP: Final = "gcp"
FSDL: Final = "fsdl"
PRICE_SOURCES: Final[Json] = {
    AWS: {
        "from": ["aws/karpenter-provider-aws", "alexei-led/spotinfo"],
        "commit": [
            "1d927085dd81a9df9301e613f371dac5b4d16bfe",
            "05e933139449b888c78795b28af8e9370429a031",
        ],
        "licence": "Apache-2.0",
        "date": "2026-07-20",
        "note": "spot prices are the savings of 2025-06-28 off the price on demand",
    },
    GCP: {
        "from": ["Cyclenerd/google-cloud-pricing-cost-calculator"],
        "commit": ["dac31281f2a4575f0a8bff20ac04fc71a5ff2190"],
        "licence": "Apache-2.0",
        "date": "2026-07-30",
    },
    FSDL: {
        "from": ["the-full-stack/website"],
        "commit": ["2bddc6d52544dc258e7e34396c6958377f72816b"],
        "licence": "MIT",
        "date": "2025-03-07",
    },
}


CM_DARE: Final[Json] = {
    "source": "cake-lab/CM-DARE",
    "commit": "263b7f14951c0645cacdfeadbef8546d4a742632",
    "licence": "Apache-2.0",
    "date": "2020",
    "about": "ICDCS 2020: convolutional networks on CIFAR-10, 128 samples a step, TensorFlow 1",
}


POLLUX: Final[Json] = {
    "source": "petuum/adaptdl",
    "commit": "c793c7089bd307462686339d29707925c461f9a9",
    "licence": "Apache-2.0",
    "date": "2021",
    "about": "OSDI 2021: six workloads on 4 x T4 a node (EC2 g4dn.12xlarge), PyTorch and NCCL",
}
POLLUX_WORKLOADS: Final = ("bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3")
LIVES: Final[Json] = {
    "source": "cake-lab/CM-DARE, cake-lab/transient-deep-learning",
    "commit": (
        "263b7f14951c0645cacdfeadbef8546d4a742632, 87c6717e4026801623cf0327e78ad57f51cb1461"
    ),
    "licence": "Apache-2.0",
    "date": "2019",
    "about": "K80, P100 and V100 nodes of Google Cloud that may live for 24 hours at most",
}


def read_pollux(read: Read) -> Table:
    """Read the measured placements of all workloads."""
    return joined(
        pollux.read_placements(name, read(f"pollux-profiles/{name}/placements.csv"))
        for name in POLLUX_WORKLOADS
    )


def read_lives(read: Read) -> Table:
    """Read the lives of GPU nodes; those of nodes without a GPU are another matter."""
    return joined(
        [
            lifetimes.read_hourly(read("cm-dare/derived/revocations_hourly.csv")),
            lifetimes.read_blocks(read("cakelab-gpu-lifetime/lifetime.csv")),
        ]
    )


def joined(tables: Iterable[Table]) -> Table:
    """Put tables of the same columns below each other."""
    found = list(tables)
    return Table.of(
        **{name: [cell for table in found for cell in table.cells[name]] for name in found[0].cells}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What an embedded model is fitted from."""

    kind: str
    samples: Callable[[Read], Table]
    provenance: Json


RECIPES: Final = (
    Recipe(
        kind="step-time",
        samples=lambda read: cm_dare.read_means(read("cm-dare/derived/models20.csv")),
        provenance=CM_DARE,
    ),
    Recipe(
        kind="checkpoint",
        samples=lambda read: cm_dare.read_checkpoint_means(read("cm-dare/derived/models20.csv")),
        provenance=CM_DARE,
    ),
    Recipe(
        kind="parameter-server",
        samples=lambda read: cluster_speed.read(read("cm-dare/derived/cluster_speed.csv")),
        provenance=CM_DARE,
    ),
    Recipe(kind="iteration", samples=read_pollux, provenance=POLLUX),
    Recipe(kind="lifetime", samples=read_lives, provenance=LIVES),
)


def make_files(read: Read) -> Iterator[tuple[str, str]]:
    """Make each embedded file: its name below ebbtide/data, and its text."""
    yield CATALOGUE, make_catalogue(read)
    for recipe in RECIPES:
        kind = kinds.find(recipe.kind)
        model = kind.methods[kind.default](recipe.samples(read))
        yield f"models/{recipe.kind}.json", render_model(seal(kind.name, model), recipe.provenance)


def make_catalogue(read: Read) -> str:
    """Join the price lists; rows that cannot be believed are left out."""
    gcp = list(
        prices.read_gcp(
            read("gcp-gpu-price-history/gcp_gpu_prices_2026-07-30.csv"),
            day=PRICE_SOURCES[GCP]["date"],
            source=GCP,
        )
    )
    aws = prices.read_aws(
        read("aws-gpu-ondemand/aws_accelerated_prices_bandwidth.csv"),
        read("aws-spot-advisor/aws_spot_advisor_accelerators.csv"),
        day=PRICE_SOURCES[AWS]["date"],
        source=AWS,
    )
    fsdl = prices.read_fsdl(
        read("cloud-gpus-fsdl/cloud-gpus.csv"),
        day=PRICE_SOURCES[FSDL]["date"],
        source=FSDL,
        without=frozenset(offer["instance_type"] for offer in gcp),
    )
    offers = [
        {name: value for name, value in offer.items() if value is not None}
        for offer in (*aws, *gcp, *fsdl)
    ]
    whole = {
        "day": max(source["date"] for source in PRICE_SOURCES.values()),
        "sources": PRICE_SOURCES,
        "gpus": prices.read_gpus(read("gpus/gpus.csv")),
    }
    doubted = {entry.row for entry in load_catalogue(render(whole, offers)).refused}
    kept = [offer for row, offer in enumerate(offers, start=1) if row not in doubted]
    return render(whole, kept)


def render(whole: Json, offers: list[Json]) -> str:
    """Return the text of a catalogue."""
    return render_catalogue(**whole, offers=offers)


def render_model(sealed: Json, provenance: Json) -> str:
    """Return the text of an embedded model, with where its data came from."""
    about = json.dumps(provenance, sort_keys=True)
    model = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(value, sort_keys=True, allow_nan=False)}"
        for name, value in sorted(sealed.items())
    )
    return f'{{"provenance": {about},\n"model": {{\n{model}}}}}\n'
