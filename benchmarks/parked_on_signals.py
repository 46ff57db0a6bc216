"""Runs that wait for a signal: the memory of each, and their cost for other runs."""

from __future__ import annotations

from benchmarks.bulk_runs import park_on_signal
from benchmarks.parked import measure_filled
from benchmarks.report import Options, Report


def measure(options: Options) -> Report:
    """Measure runs whose first node waits for a signal."""
    return measure_filled(
        "parked_on_signals", "Runs whose first node waits for a signal", park_on_signal, options
    )
