"""Metrics of rounds, from the totals of workers (worker/engine/round_stats.py)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from prometheus_client import Metric
from prometheus_client.core import HistogramMetricFamily

from perdure.worker.engine.round_stats import LABELS
from perdure.worker.metrics.families import Labels, counter, written
from perdure.worker.metrics.gather import MetricsSnapshot
from perdure.worker.metrics.totals import figures_of

#: Number of labels of each total, by the total's name.
SIZES = {
    "rounds": 3,
    "took": 3,
    "took_ms": 2,
    "waited": 2,
    "waited_ms": 1,
    "spent": 2,
}


def families(gathered: MetricsSnapshot) -> Iterator[Metric]:
    """Yield the metrics of the rounds of all workers, dead workers included."""
    figures = figures_of(gathered.look.rounds, SIZES)
    yield counter(
        "perdure_rounds",
        "Rounds that ran, by their outcome, the reply to the commit: for example continued, "
        "completed, interrupted, waiting (failed, to be "
        "retried), errored, stopped, queued (released), fenced (too late, refused).",
        ("flow", "node", "outcome"),
        sorted(figures["rounds"].items()),
    )
    yield _histogram(
        "perdure_round_duration_seconds",
        "Time from a round's claim to its result.",
        ("flow", "node"),
        figures["took"],
        figures["took_ms"],
    )
    yield _histogram(
        "perdure_round_wait_seconds",
        "How long a round had been queued when it was claimed.",
        ("queue",),
        figures["waited"],
        figures["waited_ms"],
    )
    yield counter(
        "perdure_tokens",
        "Tokens that models read (input) and wrote (output), "
        "as their providers counted them; unspecified if a flow reported only a sum.",
        ("flow", "kind"),
        _tokens(figures["spent"]),
    )
    yield counter(
        "perdure_cached_tokens",
        "Tokens among those that models read (input) that came from a provider's cache.",
        ("flow",),
        _spent(figures["spent"], "cached_tokens"),
    )
    yield counter(
        "perdure_model_requests",
        "Requests to models.",
        ("flow",),
        _spent(figures["spent"], "requests"),
    )
    yield counter(
        "perdure_cost_dollars",
        "US dollars that models cost, by the model library's price list.",
        ("flow",),
        _spent(figures["spent"], "money"),
    )


def _histogram(
    name: str,
    text: str,
    labels: Sequence[str],
    buckets: Mapping[Labels, float],
    sums: Mapping[Labels, float],
) -> HistogramMetricFamily:
    """Return a Prometheus histogram. Its buckets are cumulative.

    Args:
        buckets: The count of each bucket alone, by labels and the upper bound of the bucket.
        sums: The sums of the durations in ms, by labels.
    """
    family = HistogramMetricFamily(name, text, labels=labels)
    for of in sorted({key[:-1] for key in buckets}):
        total, cumulative = 0.0, []
        for bound in LABELS:
            total += buckets.get((*of, bound), 0)
            cumulative.append((bound, total))
        family.add_metric(written(of), cumulative, sums.get(of, 0) / 1000)
    return family


def _spent(spent: Mapping[Labels, float], name: str) -> list[tuple[Labels, float]]:
    return sorted(((flow,), amount) for (flow, what), amount in spent.items() if what == name)


def _tokens(spent: Mapping[Labels, float]) -> list[tuple[Labels, float]]:
    samples: list[tuple[Labels, float]] = []
    counted = ("tokens", "input_tokens", "output_tokens")
    for flow in sorted({flow for flow, what in spent if what in counted}):
        read, wrote = (spent.get((flow, f"{kind}_tokens"), 0) for kind in ("input", "output"))
        rest = max(0, spent.get((flow, "tokens"), 0) - read - wrote)
        samples += [
            ((flow, "input"), read),
            ((flow, "output"), wrote),
            ((flow, "unspecified"), rest),
        ]
    return samples
