"""Small charts, drawn on the server as SVG: bars of counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Height and width of a chart in its own units.
HIGH, WIDE = 40, 480


@dataclass(frozen=True)
class Chart:
    """A small chart: amounts in equal parts of a period, oldest first."""

    amounts: Sequence[float]

    @property
    def total(self) -> float:
        """The sum of the chart's amounts."""
        return sum(self.amounts)

    @property
    def most(self) -> float:
        """The largest of the chart's amounts."""
        return max(self.amounts, default=0)

    @property
    def path(self) -> str:
        """The SVG path of the chart's bars, one per amount. An amount of 0 has no bar."""
        most, width = self.most or 1, WIDE / (len(self.amounts) or 1)
        return "".join(
            f"M{number * width:g} {HIGH}v{-max(HIGH * amount / most, 1):.1f}h{width - 1:g}V{HIGH}z"
            for number, amount in enumerate(self.amounts)
            if amount
        )
