"""What features add to each kind of client. A feature's class is a line in each."""

from __future__ import annotations

from perdure.worker.features.notifications import clients as notifications


class ForClient(
    notifications.ForClient,
):
    """What features add to ``Client``."""


class ForAsyncClient(
    notifications.ForAsyncClient,
):
    """What features add to ``AsyncClient``."""


class ForRemoteClient(
    notifications.ForRemoteClient,
):
    """What features add to ``RemoteClient``."""


class ForCaller(
    notifications.ForCaller,
):
    """What features add to the client of a caller over HTTP."""
