"""Notifications: the waiting and dead notifications, as clients see and change them."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from perdure.flows.core.names import suggest
from perdure.worker.errors import NotificationNotFound
from perdure.worker.features.notifications.notification import (
    Notification,
    moment,
    trial_notification,
)
from perdure.worker.features.notifications.records import NotificationRecords
from perdure.worker.operations import validation

if TYPE_CHECKING:
    from perdure.worker.store import Store

#: Dead notifications that are sent again in one step.
BATCH = 500


class StateClient(Protocol):
    """A client with a store on the state server."""

    @property
    def _store(self) -> Store: ...


class Notifications:
    """The notifications on the state server of ``client``.

    This object delivers none. A notification that is due is delivered by a worker whose setting
    ``notify`` has its rule.

    Raises:
        StoreUnavailable: From every method, if the state server does not reply.
        AccessDenied: From every method, if the login to the state server may not access them.
    """

    def __init__(self, client: StateClient) -> None:
        self._store = client._store
        self._records = NotificationRecords(client._store)

    def dead(self, limit: int = 50) -> list[Notification]:
        """Return the dead notifications, newest first: their delivery was given up."""
        validation.limit(limit)
        return self._records.dead(limit)

    def waiting(self, limit: int = 50) -> list[Notification]:
        """Return notifications that wait for delivery, next ones first."""
        validation.limit(limit)
        return self._records.waiting(limit)

    def get(self, notification_id: str) -> Notification | None:
        """Return a waiting or dead notification. None if it was delivered or never existed."""
        return self._records.get([notification_id])[0]

    def send_again(self, notification_ids: Sequence[str]) -> None:
        """Make dead or waiting notifications due now.

        Raises:
            NotificationNotFound: A notification is neither waiting nor dead. The others are made
                due all the same.
        """
        done = self._records.send_again(notification_ids, self._store.time())
        _check_all(notification_ids, done)

    def send_dead_again(self) -> int:
        """Make all dead notifications due now, and return their number."""
        count = 0
        while dead := self._records.dead(BATCH):
            again = self._records.send_again([each.id for each in dead], self._store.time())
            count += len(again)
            if not again:
                break
        return count

    def delete(self, notification_ids: Sequence[str]) -> None:
        """Delete dead notifications.

        Raises:
            NotificationNotFound: A notification is not dead. The others are deleted all the same.
        """
        _check_all(notification_ids, self._records.forget(notification_ids))

    def try_rule(self, rule: str) -> Notification:
        """Store a ``test`` notification for a rule, due now, and return it.

        Raises:
            NotificationNotFound: No worker has ever had a rule of this name.
        """
        known = self._records.rules()
        if rule not in known:
            raise NotificationNotFound(
                f"no worker has had a rule {rule!r} in its setting notify; "
                + (suggest(rule, known) if known else "no worker has had any rule")
            )
        now = self._store.time()
        made = trial_notification(rule, f"msg_{secrets.token_hex(16)}", moment(now))
        self._records.add([made], {}, now)
        return made


def _check_all(wanted: Sequence[str], done: Sequence[str]) -> None:
    missing = [each for each in wanted if each not in done]
    if missing:
        raise NotificationNotFound(
            f"no such notification: {', '.join(map(repr, missing))}. It was delivered, or never "
            "was; see: perdure notifications list"
        )
