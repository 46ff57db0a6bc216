"""The methods that features add to each kind of client, as base classes."""

from __future__ import annotations

from perdure.worker.features.notes import clients as notes
from perdure.worker.features.notifications import clients as notifications


class EveryClientFeatures(
    notes.NoteMethods,
):
    """Operations of features, as methods of every client.

    ``AsyncClient`` has the same methods as coroutines, from ``AsyncClientFeatures``.
    """


class ClientFeatures(
    notifications.ClientNotifications,
):
    """The methods that features add to ``Client``."""


class AsyncClientFeatures(
    notes.AsyncNoteMethods,
    notifications.AsyncClientNotifications,
):
    """The methods that features add to ``AsyncClient``."""


class RemoteClientFeatures(
    notifications.RemoteClientNotifications,
):
    """The methods that features add to ``RemoteClient``."""


class CallerFeatures(
    notifications.CallerNotifications,
):
    """The methods that features add to ``AuthorizedClient``, for a caller over HTTP."""
