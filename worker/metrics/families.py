"""Shorthands to build metric families for Prometheus.

Label values come from the state server, and may contain text that UTF-8 cannot encode. The
functions replace such text.
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

    Args:
        text: The help text of the metric.
        labels: The names of the labels.
        values: The samples of a metric with labels: label values and amount of each.
        value: The amount of a metric without labels. If it is set, ``values`` is ignored.
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

    Invalid bytes of a stored text were read as surrogates, which UTF-8 cannot encode. Each
    surrogate is replaced by ``?``.
    """
    return [text.encode("utf-8", "replace").decode() for text in labels]


def number(text: str | None) -> float | None:
    """Return the count in a text that a Lua script wrote.

    None if ``text`` is None, or is not a number of at most 15 digits.
    """
    return (
        int(text)
        if text is not None and text.isascii() and text.isdigit() and len(text) <= 15
        else None
    )


def _filled(family: F, values: Iterable[tuple[Labels, float]]) -> F:
    for labels, amount in values:
        family.add_metric(written(labels), amount)
    return family
