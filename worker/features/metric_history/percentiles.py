"""The 95th percentiles of rounds and queue waits, from the histograms of all workers.

The parts of the history have sums and counts, but no buckets. So these percentiles are of all
measurements since the metrics began, whatever the span of the charts.
"""

from __future__ import annotations

from collections.abc import Mapping

from perdure.worker.engine.round_stats import LABELS
from perdure.worker.metrics.families import Labels
from perdure.worker.metrics.totals import figures_of

#: The number of labels of each histogram, by its name. The last label is the bucket.
_HISTOGRAMS = {"took": 3, "waited": 2}


def p95_of(totals: Mapping[str, str]) -> dict[str, float]:
    """Return the 95th percentile of each histogram, in seconds.

    Args:
        totals: The stored totals of all metrics, as text.

    Returns:
        The percentiles by the histogram's name: ``took`` for rounds, ``waited`` for queue waits. A
        percentile is the upper bound of its bucket: infinite for the last one. A histogram without
        measurements is left out.
    """
    histograms = figures_of(totals, _HISTOGRAMS)
    return {
        name: p95
        for name, buckets in histograms.items()
        if (p95 := _p95_of_buckets(buckets)) is not None
    }


def _p95_of_buckets(buckets: Mapping[Labels, float]) -> float | None:
    counts = dict.fromkeys(LABELS, 0.0)
    for (*_, bound), count in buckets.items():
        if bound in counts:
            counts[bound] += count
    total, cumulative = sum(counts.values()), 0.0
    for bound, count in counts.items():
        cumulative += count
        if cumulative and 100 * cumulative >= 95 * total:
            return float(bound)
    return None
