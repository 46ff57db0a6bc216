"""What features add to each kind of client. A feature's class is a line in each."""

from __future__ import annotations

from perdure.worker.features.notes import clients as notes
from perdure.worker.features.notifications import clients as notifications


class EveryClientFeatures(
    notes.NoteMethods,
):
    """Operations of features. All clients have them; ``AsyncClient`` has them as coroutines."""


class ClientFeatures(
    notifications.ClientNotifications,
):
    """What features add to ``Client``."""


class AsyncClientFeatures(
    notes.AsyncNoteMethods,
    notifications.AsyncClientNotifications,
):
    """What features add to ``AsyncClient``."""


class RemoteClientFeatures(
    notifications.RemoteClientNotifications,
):
    """What features add to ``RemoteClient``."""


class CallerFeatures(
    notifications.CallerNotifications,
):
    """What features add to the client of a caller over HTTP."""
