"""The check of the state server on localhost before a command uses it by default.

It protects the runs of a user who has not named a server.
"""

from __future__ import annotations

from perdure.worker.doctor import server_findings
from perdure.worker.domain.verdict import Level
from perdure.worker.settings import Settings
from perdure.worker.store import StoreUnavailable
from perdure.worker.store.inspection import inspect

#: Seconds for a server on this machine to answer.
LOCAL_TIMEOUT = 1.0
#: The checks whose result must be known for a server that no setting names: no operator chose it.
NEEDED = ("server-version", "cluster", "eviction-policy", "append-only-file")


def unsafe_because(url: str, settings: Settings) -> str | None:
    """Return the reason why the server at this URL must not be the default, or None if it may be.

    The server has to answer, and no check of the doctor may refuse it. The result of the NEEDED
    checks must also be known. The reason is the end of a sentence that begins with the server's
    name: ``does not answer``.
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
