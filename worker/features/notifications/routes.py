"""Routes of notifications: list, read, send, delete, and try a rule."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Path, Query, Response

from perdure.worker.errors import NotificationNotFound
from perdure.worker.features.notifications.notification import Notification
from perdure.worker.web.api.requests import ResponseBody
from perdure.worker.web.api.routes import MostItems, problems, resource_router
from perdure.worker.web.auth.permissions import Runs
from perdure.worker.web.json_body import Json

router = resource_router("fleet")

NotificationId = Annotated[str, Path(description="The notification's id.", examples=["msg_0a1b"])]
Dead = Annotated[
    bool, Query(description="Whether to list those that were given up, or those still tried.")
]


class NotificationDue(ResponseBody):
    """The notification is due now."""

    id: str
    due: Literal[True]


class NotificationsDue(ResponseBody):
    """How many notifications are due now."""

    due: int


class NotificationDeleted(ResponseBody):
    """The notification is deleted."""

    id: str
    deleted: Literal[True]


@router.get(
    "/notifications",
    operation_id="list_notifications",
    response_model=list[Notification],
    responses=problems("invalid-request"),
)
def list_notifications(runs: Runs, limit: MostItems = 50, dead: Dead = True) -> Response:
    """List the newest dead notifications, or with `dead=false` those still to be delivered."""
    notifications = runs.notifications
    found = notifications.dead(limit) if dead else notifications.waiting(limit)
    return Json([each.to_dict() for each in found])


@router.post(
    "/notifications/{notification}/send",
    operation_id="send_notification",
    response_model=NotificationDue,
    responses=problems("notification-not-found"),
)
def send_notification(notification: NotificationId, runs: Runs) -> Response:
    """Send a notification again, now, whether it is dead or waits for its next attempt."""
    runs.notifications.send_again([notification])
    return Json({"id": notification, "due": True})


@router.post(
    "/notifications/send",
    operation_id="send_dead_notifications",
    response_model=NotificationsDue,
    responses=problems(),
)
def send_dead_notifications(runs: Runs) -> Response:
    """Send all dead notifications again."""
    return Json({"due": runs.notifications.send_dead_again()})


@router.get(
    "/notifications/{notification}",
    operation_id="get_notification",
    response_model=Notification,
    responses=problems("notification-not-found"),
)
def get_notification(notification: NotificationId, runs: Runs) -> Response:
    """Return a notification that waits or is dead. A delivered notification is not found."""
    found = runs.notifications.get(notification)
    if found is None:
        raise NotificationNotFound(
            f"no notification {notification[:100]!r}: it was delivered, or never was"
        )
    return Json(found.to_dict())


@router.delete(
    "/notifications/{notification}",
    operation_id="delete_notification",
    response_model=NotificationDeleted,
    responses=problems("notification-not-found"),
)
def delete_notification(notification: NotificationId, runs: Runs) -> Response:
    """Delete a dead notification. It is then never sent."""
    runs.notifications.delete([notification])
    return Json({"id": notification, "deleted": True})


@router.post(
    "/notification-rules/{rule}/test",
    operation_id="try_notification_rule",
    response_model=Notification,
    responses=problems("notification-not-found"),
)
def try_notification_rule(
    rule: Annotated[str, Path(description="The rule's name.", examples=["on-call"])], runs: Runs
) -> Response:
    """Make a worker send a notification of the type `test` by a rule.

    Once it was delivered, `GET /notifications/ID` no longer finds it.
    """
    return Json(runs.notifications.try_rule(rule).to_dict())
