"""Client: submits goals, reads runs, and stops, resumes and retries them.

Names are imported when they are first used, because a command that only reads runs needs only a
part of this package (``reader``).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.worker.client.client import Client
    from perdure.worker.domain.interrupt import Inbox
    from perdure.worker.domain.run import Page

_HOMES = {
    "Client": "perdure.worker.client.client",
    "Inbox": "perdure.worker.domain.interrupt",
    "Page": "perdure.worker.domain.run",
}


def __getattr__(name: str) -> Any:
    """Import a name of this package on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


__all__ = ["Client", "Inbox", "Page"]
