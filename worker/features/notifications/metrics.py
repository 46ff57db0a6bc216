"""The metrics of notifications: attempts by outcome, and the numbers of waiting and dead ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import Metric

from perdure.worker.features.notifications.records import NotificationRecords
from perdure.worker.metrics.families import counter, gauge
from perdure.worker.metrics.totals import figures_of
from perdure.worker.store import Store

#: The stored total of attempts, and its number of labels: rule and outcome.
SIZES = {"notified": 2}


def families(store: Store | None, totals: Mapping[str, str]) -> Iterator[Metric]:
    """Yield the metrics of notifications.

    Args:
        store: the store to read from. None: nothing is read. Then the metric of waiting
            notifications has no samples, and that of dead notifications is 0.
        totals: the totals that workers have stored, as texts by their field in Redis.
    """
    backlog: Mapping[str, int] = {}
    dead = 0
    if store is not None:
        records = NotificationRecords(store)
        # Without a rule there never was a notification, and a scrape does not ask.
        if rules := records.rules():
            backlog, dead = records.backlog(rules), records.dead_count()
    yield counter(
        "perdure_notifications",
        "Attempts to deliver notifications, by rule and outcome: delivered or failed; "
        "dead for those that were given up.",
        ("rule", "outcome"),
        sorted(figures_of(totals, SIZES)["notified"].items()),
    )
    yield gauge(
        "perdure_notifications_waiting",
        "Notifications that are still to be delivered.",
        ("rule",),
        [((rule,), size) for rule, size in backlog.items()],
    )
    yield gauge(
        "perdure_notifications_dead",
        "Notifications whose delivery was given up; the oldest of very many are dropped.",
        value=dead,
    )
