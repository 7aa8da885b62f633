"""What model calls have used: tokens and money, per tier and overall. Frozen; a count is a new value."""

from __future__ import annotations

from collections.abc import Mapping

from duckflow.llm.base import Tier, Usage
from duckflow.record import NOTHING, Record


class Tally(Record):
    """What calls have used so far."""

    calls: int = 0
    prompt: int = 0
    cached: int = 0
    completion: int = 0
    known_usd: float = 0.0  # of the calls whose price is known
    unpriced: int = 0  # calls whose price is not

    @property
    def cost_usd(self) -> float | None:
        """None: some of it is unknown."""
        return None if self.unpriced else self.known_usd

    def plus(self, usage: Usage, cost: float | None) -> Tally:
        return Tally(
            self.calls + 1,
            self.prompt + usage.prompt,
            self.cached + usage.cached,
            self.completion + usage.completion,
            self.known_usd + (cost or 0.0),
            self.unpriced + (cost is None),
        )


class Totals(Record):
    overall: Tally = Tally()
    tiers: Mapping[Tier, Tally] = NOTHING
