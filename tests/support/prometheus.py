"""Reading ``/metrics`` as Prometheus does, with the official client library's parser and with
promtool.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from perdure import Client
from perdure.worker.metrics.exposition import exposition


@dataclass(frozen=True)
class Scraped:
    """One scrape."""

    text: str
    samples: dict[tuple[str, frozenset[tuple[str, str]]], float]

    def value(self, name: str, **labels: str) -> float | None:
        """Return the sample of exactly these labels; None if it is missing."""
        return self.samples.get((name, frozenset(labels.items())))

    def values(self, name: str, **labels: str) -> float:
        """Return the sum of the samples that have these labels among theirs."""
        wanted = frozenset(labels.items())
        return sum(
            value
            for (found, having), value in self.samples.items()
            if found == name and wanted <= having
        )


def scrape(client: Client) -> Scraped:
    """Ask for the metrics once."""
    text = exposition(client)[0].decode()
    return read(text)


def read(text: str) -> Scraped:
    """Parse the exposition; each sample occurs once."""
    samples: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in samples, f"told twice: {key}"
            samples[key] = sample.value
    return Scraped(text, samples)


def promtool(*arguments: str | Path, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run Debian's ``promtool`` (package ``prometheus``); skip without it, except in continuous
    integration.
    """
    tool = shutil.which("promtool")
    if tool is None and "CI" not in os.environ:
        pytest.skip("this machine has no promtool")
    assert tool is not None, "promtool is not installed; apt-get install prometheus"
    return subprocess.run(
        [tool, *arguments], input=given, capture_output=True, text=True, timeout=60, check=False
    )
