"""Waiting and dead notifications over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import quote

from perdure.worker.errors import NotificationNotFound
from perdure.worker.features.notifications.notification import Notification
from perdure.worker.operations import validation

#: Maximum notifications that the HTTP API returns at once.
PAGE = 1000


class WebClient(Protocol):
    """A client over the HTTP API."""

    def _ask(self, path: str, **params: str | int | list[str] | None) -> Any: ...
    def _tell(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        repeat: bool = False,
        **headers: str | None,
    ) -> Any: ...


class RemoteNotifications:
    """The methods of ``Notifications``, over the HTTP API. The token needs the scope ``admin``."""

    def __init__(self, client: WebClient) -> None:
        self._ask, self._tell = client._ask, client._tell

    def dead(self, limit: int = 50) -> list[Notification]:
        """Return the dead notifications, newest first: their delivery was given up.

        The HTTP API returns at most 1,000.
        """
        return self._listed(limit, None)

    def waiting(self, limit: int = 50) -> list[Notification]:
        """Return notifications that wait for delivery, next ones first.

        The HTTP API returns at most 1,000.
        """
        return self._listed(limit, "false")

    def get(self, notification_id: str) -> Notification | None:
        """Return a waiting or dead notification. None if it was delivered or never existed."""
        try:
            return Notification.from_dict(self._ask(_path(notification_id)))
        except NotificationNotFound:
            return None

    def send_again(self, notification_ids: Sequence[str]) -> None:
        """Make dead or waiting notifications due now.

        Raises:
            NotificationNotFound: A notification is neither waiting nor dead. The others are made
                due all the same.
        """
        _each(notification_ids, lambda path: self._tell("POST", f"{path}/send"))

    def send_dead_again(self) -> int:
        """Make all dead notifications due now, and return their number."""
        return int(self._tell("POST", "/notifications/send")["due"])

    def delete(self, notification_ids: Sequence[str]) -> None:
        """Delete dead notifications.

        Raises:
            NotificationNotFound: A notification is not dead. The others are deleted all the same.
        """
        _each(notification_ids, lambda path: self._tell("DELETE", path))

    def try_rule(self, rule: str) -> Notification:
        """Store a ``test`` notification for a rule, due now, and return it.

        Raises:
            NotificationNotFound: No worker has ever had a rule of this name.
        """
        validation.text(rule, "rule")
        path = f"/notification-rules/{quote(rule, safe='')}/test"
        return Notification.from_dict(self._tell("POST", path))

    def _listed(self, limit: int, dead: str | None) -> list[Notification]:
        validation.limit(limit)
        found = self._ask("/notifications", limit=min(limit, PAGE), dead=dead)
        return [Notification.from_dict(each) for each in found]


def _path(notification_id: str) -> str:
    validation.text(notification_id, "notification_id")
    return f"/notifications/{quote(notification_id, safe='')}"


def _each(notification_ids: Sequence[str], act: Callable[[str], object]) -> None:
    missing: NotificationNotFound | None = None
    for each in notification_ids:
        try:
            act(_path(each))
        except NotificationNotFound as error:
            missing = error
    if missing is not None:
        raise missing
