"""
Zones to stay away from for a while: those that grant at once and take back at once.

A law that is fitted every few hours, on steps of ten minutes, learns too late of a zone whose
nodes live for five. Whoever starts there pays the changeover again and again.
"""

from dataclasses import dataclass
from typing import Final

from ebbtide.core.planner.policies.history import HOUR_S
from ebbtide.core.planner.policies.moment import IDLE, Moment, Place

QUICK_LOSSES: Final = 3
"""So many in a row, and the zone is left out; after that each further one counts."""
REST_S: Final = HOUR_S
"""How long at first; each time twice as long as before, until a spell was worth its start."""


@dataclass(slots=True)
class _Record:
    quick: int = 0
    """Losses in a row whose spell gave less work than its changeover took."""
    until_s: float = 0.0
    """Since the job came; before that the zone is left out."""


class Avoidance:
    """What one job went through in each zone."""

    def __init__(self, changeover_s: float) -> None:
        self._changeover_s = changeover_s
        self._records: dict[Place, _Record] = {}
        self._place = IDLE
        self._began_with_s = 0.0
        """Work that was left when the job started in the zone that it is in."""

    def look(self, moment: Moment) -> frozenset[int]:
        """Take in what became of the last choice; return the zones to stay away from now."""
        if self._place >= 0 and moment.place != self._place:
            self._lost(moment)
        return frozenset(
            zone
            for zone, record in self._records.items()
            if moment.elapsed_s < record.until_s and zone != moment.place
        )

    def chose(self, place: Place, moment: Moment) -> None:
        """Take in a choice."""
        if place != moment.place:
            self._began_with_s = moment.work_s
        self._place = place

    def _lost(self, moment: Moment) -> None:
        record = self._records.setdefault(self._place, _Record())
        gained_s = self._began_with_s - moment.work_s
        record.quick = record.quick + 1 if gained_s < self._changeover_s else 0
        times = record.quick - QUICK_LOSSES
        if times >= 0:
            record.until_s = moment.elapsed_s + REST_S * 2**times
        self._place = IDLE
