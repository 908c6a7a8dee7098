"""What the demonstration found, whether it is as it must be, and how it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST_ACCURACY: Final = 0.97
LEAST_REVOCATIONS: Final = 3
BEGIN: Final = "<!-- recovery-table -->"
END: Final = "<!-- /recovery-table -->"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """One revocation and what it cost in time. Seconds."""

    scenario: str
    node: str
    spares: int
    """That stood by."""
    to_next_step: float
    """From the moment the worker was lost to the next training step."""
    to_full_size: float
    """From the first sign to all workers training again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a plan said."""

    pools: dict[str, int]
    """Workers of each."""
    reason: str
    seconds: float
    """From the first start to the predicted end."""
    usd: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Everything that the report tells."""

    state: str
    steps: int
    wanted_steps: int
    accuracy: float
    counters: dict[str, int]
    spent_usd: Decimal
    billed_usd: Decimal
    """What the world billed for the pools' nodes, idle time before and after included."""
    seconds: float
    losses: Sequence[Loss]
    forecast: Forecast | None
    """Before the first node came."""
    later: Forecast | None
    """Half-way, when the speed had been measured."""
    took_seconds: float
    """From the first start to the end."""

    def complaints(self) -> list[str]:
        """Return what is not as it must be, each with the value seen and the right one."""
        counters = self.counters
        checks: list[tuple[bool, str]] = [
            (self.state == "Complete", f"the job is {self.state}, not Complete"),
            (self.steps == self.wanted_steps, f"{self.steps} steps, not {self.wanted_steps}"),
            (self.accuracy >= LEAST_ACCURACY, f"accuracy {self.accuracy} below {LEAST_ACCURACY}"),
            (
                counters.get("revocations", 0) >= LEAST_REVOCATIONS,
                f"{counters.get('revocations', 0)} revocations, not at least {LEAST_REVOCATIONS}",
            ),
            (counters.get("failures") == 0, f"{counters.get('failures')} failures, not 0"),
            (counters.get("stepsLost") == 0, f"{counters.get('stepsLost')} steps lost, not 0"),
            (self.spent_usd > 0, "nothing was spent: the meter does not run"),
            (
                self.spent_usd <= self.billed_usd + Decimal("0.02"),
                f"spent {self.spent_usd} USD is more than the {self.billed_usd} USD of the bill",
            ),
            (self.forecast is not None and self.later is not None, "no plan was made"),
            (len(self.losses) >= LEAST_REVOCATIONS, "not every revocation could be measured"),
        ]
        return [text for holds, text in checks if not holds]

    def rows(self) -> list[tuple[str, Any]]:
        """Return the lines of the report."""
        return [
            ("state", self.state),
            ("steps", f"{self.steps} of {self.wanted_steps}, each counted once"),
            ("test accuracy", f"{self.accuracy:.4f} (at least {LEAST_ACCURACY})"),
            ("revocations", self.counters.get("revocations")),
            ("restarts", self.counters.get("restarts")),
            ("failures", self.counters.get("failures")),
            ("steps lost", self.counters.get("stepsLost")),
            ("cost", f"{self.spent_usd} USD, of {self.billed_usd} USD that the pools billed"),
            ("time", f"{self.seconds:.0f} s"),
            *self._compare(),
        ]

    def _compare(self) -> list[tuple[str, Any]]:
        """Set what was predicted, at first and half-way, beside what happened."""
        first, later = self.forecast, self.later
        if first is None or later is None:
            return []
        pools = ", ".join(f"{count} on {name}" for name, count in first.pools.items())
        end = f"{first.seconds:.0f} s predicted, {later.seconds:.0f} s half-way"
        money = f"{first.usd} USD predicted, {later.usd} USD half-way"
        return [
            ("plan", f"{sum(first.pools.values())} workers: {pools}"),
            ("from start to end", f"{end}, {self.took_seconds:.0f} s in the end"),
            ("cost", f"{money}, {self.spent_usd} USD in the end"),
        ]

    def table(self) -> str:
        """Return the measured table in Markdown."""
        lines = [
            "| revocation | spares | to the next step | to full size |",
            "|---|--:|--:|--:|",
        ]
        lines += [
            f"| `{loss.scenario}` | {loss.spares} "
            f"| {loss.to_next_step:.2f} s | {loss.to_full_size:.1f} s |"
            for loss in self.losses
        ]
        return "\n".join(lines)


def fill_in(text: str, table: str) -> str:
    """Put a table between the marks of a document."""
    before, found, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not found or not ended:
        message = f"the document has no place for the table: {BEGIN} ... {END}"
        raise ValueError(message)
    return f"{before}{BEGIN}\n{table}\n{END}{after}"
