"""The metrics: families with their types, and the labels of each sample."""

from __future__ import annotations

import logging
from collections import defaultdict
from contextlib import closing

import pytest
from prometheus_client.parser import text_string_to_metric_families

from perdure import Client
from perdure.worker.metrics.exposition import exposition
from perdure.worker.settings import Settings
from tests.golden import session
from tests.golden.golden_files import PRODUCT, compare


def test_metrics_and_labels_are_those_of_the_golden_file(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, PRODUCT)  # runs fail here as they should
    settings = session.quiet(settings)
    session.play(settings, lambda: None)
    with closing(Client(settings=settings)) as client:
        client.pause_flow("ledger")
        body, content_type = exposition(client)
    families = {}
    for family in text_string_to_metric_families(body.decode()):
        samples: dict[str, set[str]] = defaultdict(set)
        for sample in family.samples:
            samples[sample.name] |= set(sample.labels)
        families[family.name] = {"type": family.type, "samples": dict(samples)}
    compare("metrics", {"content type": content_type, "families": families}, depth=2)
