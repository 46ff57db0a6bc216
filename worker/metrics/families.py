"""Families: metrics of one name, made short; label values are whatever the server holds, and always text that can be written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

Labels = tuple[str, ...]
F = TypeVar("F", GaugeMetricFamily, CounterMetricFamily)


def gauge(
    name: str, text: str, labels: Sequence[str] = (), values: Iterable[tuple[Labels, float]] = (), value: float | None = None
) -> GaugeMetricFamily:
    """What goes up and down: ``value`` where it has no labels."""
    return _filled(GaugeMetricFamily(name, text, labels=labels), values if value is None else [((), value)])


def counter(
    name: str, text: str, labels: Sequence[str] = (), values: Iterable[tuple[Labels, float]] = (), value: float | None = None
) -> CounterMetricFamily:
    """What only grows; its samples are named ``NAME_total``."""
    return _filled(CounterMetricFamily(name, text, labels=labels), values if value is None else [((), value)])


def written(labels: Iterable[str]) -> list[str]:
    """Label values; bytes that are no UTF-8 came as surrogates, which no encoder takes."""
    return [text.encode("utf-8", "replace").decode() for text in labels]


def number(text: str | None) -> float | None:
    """A count as a script writes it; None where somebody damaged it."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) <= 15 else None


def _filled(family: F, values: Iterable[tuple[Labels, float]]) -> F:
    for labels, amount in values:
        family.add_metric(written(labels), amount)
    return family
