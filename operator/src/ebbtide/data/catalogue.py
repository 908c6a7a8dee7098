"""
What nodes with GPUs cost: the embedded list, or the user's own in the same form.

A row that cannot be believed is kept apart with its reason and never chosen: a price that is
missing and reads as zero wins every comparison.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date as Date  # noqa: N812 -- a field is called `date` here
from typing import Any, Final, TypeAlias

from ebbtide.core.values.errors import EbbtideError
from ebbtide.data.catalogue_checks import believe
from ebbtide.data.offers import CURRENCY, Gpu, Offer, Refused

Json: TypeAlias = dict[str, Any]

NAME: Final = "catalogue"
VERSION: Final = 1
OLD_DAYS: Final = 30
"""Prices on spot markets move within weeks: an older list is worth a warning."""
MOST_OFFERS: Final = 100_000


class CatalogueError(EbbtideError, ValueError):
    """A catalogue that cannot be used as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """Offers that can be believed, those that cannot, and how old the list is."""

    date: Date
    offers: tuple[Offer, ...]
    gpus: Mapping[str, Gpu] = field(default_factory=dict)
    refused: tuple[Refused, ...] = ()
    notes: tuple[str, ...] = ()
    """What is strange and was kept, as a spot price above the one on demand."""

    def find(self, *, provider: str, instance_type: str, region: str = "") -> Offer | None:
        """Return the offer of a node; without a region the dearest of them, to be safe."""
        found = [
            offer
            for offer in self.offers
            if (offer.provider, offer.instance_type) == (provider, instance_type)
            if not region or offer.region == region
        ]
        return max(found, key=lambda offer: offer.on_demand_usd, default=None)

    def age_days(self, today: Date) -> int:
        """Return how old the list is."""
        return (today - self.date).days

    def warning(self, today: Date) -> str:
        """Say that the list is old; empty where it is not."""
        age = self.age_days(today)
        if age <= OLD_DAYS:
            return ""
        return f"prices are of {self.date}, {age} days old (limit {OLD_DAYS}): give a newer list"


def load_catalogue(text: str) -> Catalogue:
    """Read a catalogue; raises CatalogueError where nothing in it can be used."""
    stored = _parse(text)
    rows = stored.get("offers")
    if not isinstance(rows, list) or not rows:
        raise CatalogueError("there is no list `offers`, or it is empty")
    if len(rows) > MOST_OFFERS:
        raise CatalogueError(f"{len(rows)} offers, at most {MOST_OFFERS}")
    offers, refused, notes = believe(rows)
    if not offers:
        first = "; ".join(str(row) for row in refused[:3])
        raise CatalogueError(f"none of {len(rows)} offers can be used: {first}")
    return Catalogue(
        date=_read_date(stored.get("date")),
        offers=offers,
        gpus=_read_gpus(stored.get("gpus", {})),
        refused=refused,
        notes=notes,
    )


def render_catalogue(
    *, day: str, sources: Json, gpus: Mapping[str, Json], offers: Iterable[Json]
) -> str:
    """Return a catalogue as text, one line for each offer, so that changes can be read."""
    head = {"ebbtide": NAME, "version": VERSION, "currency": CURRENCY, "date": day}
    lines = [json.dumps(head)[:-1] + ",", f'"sources": {json.dumps(sources, indent=1)},']
    entries = [f"{json.dumps(name)}: {json.dumps(gpu)}" for name, gpu in sorted(gpus.items())]
    lines += ['"gpus": {', ",\n".join(entries), "},", '"offers": [']
    lines += [",\n".join(json.dumps(offer) for offer in offers), "]}"]
    return "\n".join(lines) + "\n"


def _parse(text: str) -> Json:
    try:
        stored = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CatalogueError(f"this is no JSON: {error}") from error
    if not isinstance(stored, dict) or stored.get("ebbtide") != NAME:
        raise CatalogueError(f'this is no catalogue: `"ebbtide": "{NAME}"` is missing')
    if stored.get("version") != VERSION:
        raise CatalogueError(f"version {stored.get('version')}; this reads version {VERSION}")
    if stored.get("currency") != CURRENCY:
        raise CatalogueError(
            f"currency {stored.get('currency')!r}; prices in {CURRENCY} are wanted"
        )
    return stored


def _read_date(value: object) -> Date:
    try:
        return Date.fromisoformat(value)  # type: ignore[arg-type]  # what is no text is caught
    except (TypeError, ValueError) as error:
        raise CatalogueError(f"date: {value!r} is no day like 2026-07-30") from error


def _read_gpus(stored: object) -> dict[str, Gpu]:
    if not isinstance(stored, dict):
        raise CatalogueError("gpus: an object from type to figures is wanted")
    found: dict[str, Gpu] = {}
    for name, figures in stored.items():
        try:
            gpu = Gpu(**figures)
            right = all(0 < value < 1e18 for value in (gpu.memory_gib, gpu.flops_fp32))  # noqa: PLR2004 -- a thousand of today's largest
        except TypeError as error:
            raise CatalogueError(f"gpus, {name}: {error}") from error
        if not right:
            raise CatalogueError(f"gpus, {name}: figures above 0 are wanted, not {figures}")
        found[str(name)] = gpu
    return found
