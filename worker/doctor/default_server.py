"""The server for a process whose settings name none, and its check before it gets runs.

The command line, ``Client()``, ``AsyncClient()`` and ``perdure.app`` use, in this order: the server
of the settings, the server of ``perdure up``, localhost.
"""

from __future__ import annotations

from perdure.worker.doctor import server_findings
from perdure.worker.domain.verdict import Level
from perdure.worker.settings import Settings
from perdure.worker.store import StoreUnavailable
from perdure.worker.store.inspection import inspect


def with_server(settings: Settings) -> Settings:
    """Fill the URL of the server that ``perdure up`` runs into settings that name no server.

    Settings that name a server are returned unchanged. If no such server runs, ``redis_url`` stays
    None, which stands for localhost.
    """
    if settings.redis_url is not None:
        return settings
    from perdure.worker.embedded import EmbeddedServer

    running = EmbeddedServer.running()
    # A configured broker belongs to another server: the worker of `up` consumes from its own
    # server.
    return (
        settings
        if running is None
        else settings.model_copy(update={"redis_url": running, "broker_url": None})
    )


#: Seconds for a server on this machine to answer.
LOCAL_TIMEOUT = 1.0
#: The checks whose result must be known for such a server, since no operator chose it.
NEEDED = ("server-version", "cluster", "eviction-policy", "append-only-file")


def unsafe_because(url: str, settings: Settings) -> str | None:
    """Return why a default server, which no setting names, must not be used, or None if it may.

    It has to answer, and to pass the doctor's checks. The reason is the rest of a sentence.
    """
    try:
        inspection = inspect(url, settings.prefix, LOCAL_TIMEOUT, contents=False)
    except StoreUnavailable:
        return "does not answer"
    for finding in server_findings(inspection, settings):
        if finding.level is Level.REFUSED or (
            finding.level is Level.UNKNOWN and finding.check in NEEDED
        ):
            return f"is not safe ({finding.sentence})"
    return None
