"""workers --alive: the health check of a worker's machine or container; called every few seconds, so it loads neither Celery nor flows."""

from __future__ import annotations

import os
import socket

from worker.cli.exits import Failed
from worker.cli.server import settings_for
from worker.words.texts import duration


def alive_here(url: str | None) -> str:
    """The name of a worker of this machine that is at work: its process is there, and it told the server so lately.

    That it goes on announcing itself shows that its sweep runs and reaches the server; whether its rounds get on is what ``why`` is for.

    Raises:
        Failed: there is none; the message says what is known. NoServer, StoreUnavailable: nobody can say.
    """
    from worker.standing import ALIVE_BEATS
    from worker.store import Store

    settings = settings_for(url)
    assert settings.redis_url is not None
    store = Store(settings.redis_url, settings.prefix)
    try:
        now, announced = store.time(), store.workers()
    finally:
        store.close()
    host, limit = socket.gethostname(), ALIVE_BEATS * settings.heartbeat_seconds
    here = [(name, (now - beat) / 1000, int(info["pid"])) for name, beat, info in announced if info.get("host") == host]
    for name, silent, pid in here:
        if silent <= limit and _is_running(pid):
            return name
    known = [f"{name}: {f'silent for {duration(silent)}' if _is_running(pid) else 'its process is gone'}" for name, silent, pid in here]
    raise Failed(f"no worker of {host} is at work ({'; '.join(known) or 'none has announced itself'})")


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
