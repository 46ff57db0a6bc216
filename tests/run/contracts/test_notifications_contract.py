"""The contract of ``client.notifications``: each client's have the same methods."""

from __future__ import annotations

import inspect

import pytest

from perdure.worker.features.notifications.async_client import AsyncNotifications
from perdure.worker.features.notifications.client import Notifications
from perdure.worker.features.notifications.remote_client import RemoteNotifications

NOTIFICATIONS = (Notifications, RemoteNotifications, AsyncNotifications)


@pytest.mark.parametrize("notifications", NOTIFICATIONS, ids=lambda each: each.__name__)
def test_the_notifications_of_all_clients_have_the_same_methods(notifications: type) -> None:
    names = {name for name in dir(Notifications) if not name.startswith("_")}
    assert {name for name in dir(notifications) if not name.startswith("_")} == names
    for name in names:
        expected = inspect.signature(getattr(Notifications, name)).parameters
        assert list(inspect.signature(getattr(notifications, name)).parameters) == list(expected)
