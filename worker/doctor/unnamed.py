"""Whether a server that nobody named may be trusted with runs."""

from __future__ import annotations

from worker.doctor.examination import server_findings
from worker.doctor.finding import Level
from worker.settings import Settings
from worker.store import StoreUnavailable
from worker.store.inspection import inspect

#: Seconds for a server on this machine to answer.
LOCAL_TIMEOUT = 1.0
#: What a server that nobody named must tell: nobody is there to ask.
NEEDED = ("server-version", "cluster", "eviction-policy", "append-only-file")


def unsafe_because(url: str, settings: Settings) -> str | None:
    """Why the server at ``url`` may not be taken without being named, as the rest of a sentence; None when it may."""
    try:
        told = inspect(url, settings.prefix, LOCAL_TIMEOUT, contents=False)
    except StoreUnavailable:
        return "does not answer"
    for finding in server_findings(told, settings):
        if finding.level is Level.REFUSED or (finding.level is Level.UNKNOWN and finding.check in NEEDED):
            return f"is not safe ({finding.sentence})"
    return None
