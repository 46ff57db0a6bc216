"""The time spans of charts, each divided into equal parts."""

from __future__ import annotations

from collections.abc import Mapping

#: Length of each span in seconds, by name.
SPANS: Mapping[str, int] = {"hour": 3_600, "day": 86_400, "week": 604_800}
#: Number of parts of a span: the points of a chart.
PARTS = 48


def part_ms(span: str) -> int:
    """Return the length in ms of one part of the span with this name."""
    return SPANS[span] * 1000 // PARTS
