"""Durability: whether a server keeps what it acknowledged, and what is said where it does not.

Workers, submissions and readiness probes all refuse such a server, in the same words.
"""

from __future__ import annotations

from worker.doctor.finding import Finding, Level
from worker.doctor.keeping import append_only, eviction_policy
from worker.doctor.server import cluster
from worker.errors import UnsafeServer
from worker.places import place_of
from worker.settings import Settings
from worker.store.inspection import Inspection, inspect

#: What `durability = "relaxed"` accepts; a cluster cannot run the scripts at all.
RELAXED = ("eviction-policy", "append-only-file")


#: The checks of what a server keeps.
VOIDING = ("cluster", *RELAXED)


def voids(told: Inspection, settings: Settings) -> list[Finding]:
    """Return the findings that void the promises on this server, as its settings judge them."""
    found = [cluster(told), eviction_policy(told, settings), append_only(told, settings)]
    return [finding for finding in found if finding.level is Level.REFUSED]


def refusal(url: str, findings: list[Finding]) -> str:
    """Return why no run is submitted to, or played on, the server at ``url``, and what to do."""
    why = "; ".join(finding.sentence for finding in findings)
    what = "; ".join(finding.remedy for finding in findings)
    accept = all(finding.check in RELAXED for finding in findings)
    relaxed = '. To accept that runs may be lost: durability = "relaxed" (HOLDFAST_DURABILITY=relaxed)' if accept else ""
    return f"the server at {place_of(url)} is not safe for runs: {why}. {what}{relaxed}"


def check_durability(url: str, settings: Settings) -> None:
    """Ask the server how it keeps what it acknowledges. A server that does not tell is accepted.

    Raises:
        UnsafeServer: it would lose runs. StoreUnavailable: it does not answer.
    """
    findings = voids(inspect(url, settings.prefix, contents=False, settings=False), settings)
    if findings:
        raise UnsafeServer(refusal(url, findings))
