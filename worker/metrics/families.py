"""Shorthands to build metric families.

Label values come from the server and are always encodable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

Labels = tuple[str, ...]
F = TypeVar("F", GaugeMetricFamily, CounterMetricFamily)


def gauge(
    name: str,
    text: str,
    labels: Sequence[str] = (),
    values: Iterable[tuple[Labels, float]] = (),
    value: float | None = None,
) -> GaugeMetricFamily:
    """Return a metric that goes up and down; ``value`` is for one without labels."""
    return _filled(
        GaugeMetricFamily(name, text, labels=labels), values if value is None else [((), value)]
    )


def counter(
    name: str,
    text: str,
    labels: Sequence[str] = (),
    values: Iterable[tuple[Labels, float]] = (),
    value: float | None = None,
) -> CounterMetricFamily:
    """Return a metric that only grows; its samples are named ``NAME_total``."""
    return _filled(
        CounterMetricFamily(name, text, labels=labels), values if value is None else [((), value)]
    )


def written(labels: Iterable[str]) -> list[str]:
    """Return label values that can be encoded as UTF-8.

    Invalid bytes were read as surrogates, which no encoder accepts.
    """
    return [text.encode("utf-8", "replace").decode() for text in labels]


def number(text: str | None) -> float | None:
    """Return a count as a script writes it, or None if it is damaged."""
    return (
        int(text)
        if text is not None and text.isascii() and text.isdigit() and len(text) <= 15
        else None
    )


def _filled(family: F, values: Iterable[tuple[Labels, float]]) -> F:
    for labels, amount in values:
        family.add_metric(written(labels), amount)
    return family
