"""Measures: figures that are measured once in each pass.

Two measures are compared within each pass, because the speed of machines drifts.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Measure:
    """One figure.

    Attributes:
        name: The measured figure, unique in its report: ``rounds: Perdure, threads``.
        unit: Of the values.
        values: One for each pass, in the order of the passes.
        base: The name of the measure that this one is compared with, or None.
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
        """Median of the passes."""
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
        """Greatest minus least, as a part of the median. It is 0 for one pass."""
        return (self.high - self.low) / self.median if self.median else math.nan


def ratio(measure: Measure, base: Measure) -> float:
    """Return the median ratio of ``measure`` to ``base``.

    Each ratio is within a pass, so changes of the machine between two passes do not matter.

    Raises:
        ValueError: They are not of the same passes.
    """
    if len(measure.values) != len(base.values):
        raise ValueError(
            f"{measure.name} has {len(measure.values)} passes and {base.name} {len(base.values)}; "
            "only measures of the same passes can be compared"
        )
    return statistics.median(
        mine / theirs if theirs else math.nan
        for mine, theirs in zip(measure.values, base.values, strict=True)
    )


def percentile(values: Sequence[float], part: float) -> float:
    """Return a percentile of values: 0.5 is the median.

    ``part`` (0 to 1) of the values do not exceed it.
    """
    if not values:
        raise ValueError("a percentile of no values")
    return sorted(values)[max(0, math.ceil(part * len(values)) - 1)]


def best(measures: Iterable[Measure]) -> Measure:
    """Return the measure with the greatest median."""
    return max(measures, key=lambda measure: measure.median)
