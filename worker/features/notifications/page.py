"""The page of dead and waiting notifications."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from perdure.worker.client.connection import session_of
from perdure.worker.features.notifications.records import NotificationRecords
from perdure.worker.presentation.text import count
from perdure.worker.web.auth.permissions import AuthorizedClient, Runs
from perdure.worker.web.dashboard.page import PageRoute, back, page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

#: Notifications of each kind on the page.
SHOWN = 50


@router.get("/notifications")
def notifications(request: Request, runs: Runs) -> Response:
    """Show dead notifications, newest first, and waiting ones."""
    found = runs.notifications
    return page(
        request, "notifications/page.html", dead=found.dead(SHOWN), waiting=found.waiting(SHOWN)
    )


@router.post("/notifications/{notification}/send")
def send(request: Request, notification: str, runs: Runs) -> Response:
    """Send one notification again."""
    runs.notifications.send_again([notification])
    return back(request, "notifications", notice=f"Notification {notification} is sent again.")


@router.post("/notifications")
def send_all(request: Request, runs: Runs) -> Response:
    """Send all dead notifications again."""
    sent = runs.notifications.send_dead_again()
    return back(request, "notifications", notice=f"{count(sent, 'notification')} sent again.")


def dead_count(client: AuthorizedClient) -> int:
    """Return the number of dead notifications. 0 if the caller is not an admin."""
    if not client.caller.is_admin:
        return 0
    return NotificationRecords(session_of(client.client).store).dead_count()
