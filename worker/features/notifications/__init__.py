"""Notifications: messages about events of runs, which workers send to people and programs.

The rules of the setting ``notify`` decide which events are sent, and to which receiver.
Notifications are outside the protocol of rounds. No transition of a run reads or writes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from perdure.worker.features.feature import Feature, PageLink

if TYPE_CHECKING:
    from perdure.worker.domain.verdict import Finding
    from perdure.worker.features.feature import Background, Process
    from perdure.worker.store import Store
    from perdure.worker.store.inspection import Inspection


class NotificationsFeature(Feature):
    """The feature of notifications."""

    name: ClassVar[str] = "notifications"
    commands: ClassVar[Mapping[str, str]] = {
        "notifications": "List notifications that were not delivered, send them.",
    }
    page: ClassVar[PageLink] = PageLink(
        "notifications", "Notifications", "undelivered", "notifications that were not delivered"
    )

    def routes(self) -> Iterable[Any]:
        """Return the router with the routes for notifications and for testing a rule."""
        from perdure.worker.features.notifications.routes import router

        return (router,)

    def pages(self) -> Iterable[Any]:
        """Return the router of the page of dead and waiting notifications."""
        from perdure.worker.features.notifications.page import router

        return (router,)

    def badge(self, client: Any) -> int:
        """Return the number of dead notifications, or 0 if the caller may not see them."""
        from perdure.worker.features.notifications.page import dead_count

        return dead_count(client)

    def background(self, process: Process) -> Background | None:
        """Return the thread that sends notifications. None if the settings have no rules."""
        if not process.settings.notify:
            return None
        from perdure.worker.features.notifications.notifier import notifier_of

        return notifier_of(process)

    def findings(self, inspection: Inspection, store: Store) -> Iterable[Finding]:
        """Check for dead, failing and late notifications."""
        from perdure.worker.features.notifications.checks import deliveries

        return (deliveries(inspection, store),)

    def metrics(self, store: Store | None, totals: Mapping[str, str]) -> Iterator[Any]:
        """Yield the metrics of attempts to deliver, and of waiting and dead notifications."""
        from perdure.worker.features.notifications.metrics import families

        return families(store, totals)


FEATURE = NotificationsFeature()
