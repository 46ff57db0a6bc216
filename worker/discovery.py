"""Discovery: which server a process talks to when its settings name none.

The command line, ``Client()``, ``AsyncClient()`` and ``worker.app`` look in the same places, in this order: the
settings, the server of ``holdfast up``, localhost.
"""

from __future__ import annotations

from worker.settings import Settings


def with_server(settings: Settings) -> Settings:
    """Return the settings with the server that ``holdfast up`` runs, if they name none and it runs.

    Without it ``redis_url`` stays None, which stands for localhost.
    """
    if settings.redis_url is not None:
        return settings
    from worker.embedded import EmbeddedServer

    running = EmbeddedServer.running()
    # A broker that is named is another server's: the worker of `up` takes its messages from its own server.
    return settings if running is None else settings.model_copy(update={"redis_url": running, "broker_url": None})
