"""What features add to each kind of client. A feature's class is a line in each."""

from __future__ import annotations

from perdure.worker.features.notes import clients as notes
from perdure.worker.features.notifications import clients as notifications


class ForEveryClient(
    notes.NoteMethods,
):
    """Operations of features. All clients have them; ``AsyncClient`` has them as coroutines."""


class ForClient(
    notifications.ForClient,
):
    """What features add to ``Client``."""


class ForAsyncClient(
    notes.AsyncNoteMethods,
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
