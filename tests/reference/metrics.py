"""The page of metrics: name, type, labels and help of each, from an empty snapshot."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import Metric

from perdure.worker.metrics.exposition import _RequestCollector, metrics_of_features
from perdure.worker.metrics.gather import MetricsSnapshot
from perdure.worker.store.metrics import MetricsRead
from tests.reference.markdown import page, paragraph, table, text

#: A server on which a sweep has happened, because the age of a sweep is absent before the first.
EMPTY = MetricsSnapshot(
    MetricsRead(
        now=1, queues={"swept_at": "1"}, rounds={}, listed={}, due=0, first_due=None,
        lengths={}, heads={}, workers=[], dead=0, paused=[],
    ),
    workers=[], alive=[], lengths={}, handed_on={}, oldest={}, broker=True,
    memory=(0, 0),
)  # fmt: skip


def pages() -> dict[str, str]:
    """Return the page by its path in ``docs/reference/``."""
    rows = [
        (
            f"`{_name(family)}`",
            family.type,
            ", ".join(f"`{label}`" for label in family._labelnames),  # type: ignore[attr-defined]
            text(family.documentation).replace("|", "or"),
        )
        for family in families()
    ]
    introduction = paragraph(
        "`perdure server` serves these metrics at `/metrics` in the format of Prometheus. It reads"
        " them from the state server, so every server process returns equal totals."
    )
    head = ("Metric", "Type", "Labels", "Meaning")
    return {"metrics.md": page("Metrics", introduction, table(head, rows))}


def families() -> Iterator[Metric]:
    """Yield all metric families."""
    yield from _RequestCollector(EMPTY, metrics_of_features(None, {}), 0.0).collect()


def _name(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name
