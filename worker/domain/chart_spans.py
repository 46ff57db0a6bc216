"""The times that charts cover, each in equal parts."""

from __future__ import annotations

from collections.abc import Mapping

#: Seconds that charts cover, by name.
SPANS: Mapping[str, int] = {"hour": 3_600, "day": 86_400, "week": 604_800}
#: Points in time of a chart.
PARTS = 48


def part_ms(span: str) -> int:
    """Return the length of one part of a span in ms."""
    return SPANS[span] * 1000 // PARTS
