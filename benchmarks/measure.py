"""Measure: one figure, measured once in each pass. Two of the same passes are compared pass by pass, since machines drift."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Measure:
    """One figure.

    Attributes:
        name: what was measured, unique in its report: ``rounds: Holdfast, threads``.
        unit: of the values.
        values: one a pass, in the order of the passes.
        base: the name of the measure that this one is compared with; None for none.
    """

    name: str
    unit: str
    values: tuple[float, ...]
    base: str | None = None

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError(f"{self.name} has no value; expected one a pass")

    @property
    def median(self) -> float:
        """Of the passes."""
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        """The least of the passes."""
        return min(self.values)

    @property
    def high(self) -> float:
        """The greatest of the passes."""
        return max(self.values)

    @property
    def spread(self) -> float:
        """From the least to the greatest, as a part of the median; 0 for one pass."""
        return (self.high - self.low) / self.median if self.median else math.nan


def ratio(measure: Measure, base: Measure) -> float:
    """The median of what ``measure`` is of ``base`` within each pass. What the machine does between two passes does not count.

    Raises:
        ValueError: they are not of the same passes.
    """
    if len(measure.values) != len(base.values):
        raise ValueError(
            f"{measure.name} has {len(measure.values)} passes and {base.name} {len(base.values)}; only measures of the same passes compare"
        )
    return statistics.median(mine / theirs if theirs else math.nan for mine, theirs in zip(measure.values, base.values, strict=True))


def percentile(values: Sequence[float], part: float) -> float:
    """The value that ``part`` (0 to 1) of ``values`` do not exceed: 0.5 for the median, 0.99 for the slowest hundredth."""
    if not values:
        raise ValueError("a percentile of no values")
    return sorted(values)[max(0, math.ceil(part * len(values)) - 1)]


def best(measures: Iterable[Measure]) -> Measure:
    """The one with the greatest median."""
    return max(measures, key=lambda measure: measure.median)
