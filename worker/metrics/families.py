"""Shorthands to build metric families for Prometheus.

They make all label values encodable, which come from the state server.
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
    """Return a Prometheus gauge: a metric that goes up and down.

    ``text`` is its help. ``value`` is for a gauge without labels, ``values`` for the others.
    """
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
    """Return a Prometheus counter: a metric that only grows.

    Its samples are named ``NAME_total``. The arguments are those of ``gauge``.
    """
    return _filled(
        CounterMetricFamily(name, text, labels=labels), values if value is None else [((), value)]
    )


def written(labels: Iterable[str]) -> list[str]:
    """Return label values as texts that UTF-8 can encode.

    Invalid bytes were read as surrogates, which no encoder accepts. Each is replaced by ``?``.
    """
    return [text.encode("utf-8", "replace").decode() for text in labels]


def number(text: str | None) -> float | None:
    """Return the count in a text that a Lua script wrote. None if it is absent or damaged."""
    return (
        int(text)
        if text is not None and text.isascii() and text.isdigit() and len(text) <= 15
        else None
    )


def _filled(family: F, values: Iterable[tuple[Labels, float]]) -> F:
    for labels, amount in values:
        family.add_metric(written(labels), amount)
    return family
