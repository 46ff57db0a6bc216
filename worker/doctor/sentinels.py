"""Check: would the Sentinels find another master?"""

from __future__ import annotations

from worker.doctor.finding import Finding, ok, warning
from worker.sentinel_url import is_sentinel, read
from worker.store.watch import watch

#: With two, the loss of one machine with the master and a Sentinel on it leaves nobody to agree with.
FEWEST = 3


def sentinels(url: str) -> list[Finding]:
    """What the Sentinels of the server come to; nothing where it has none."""
    check = "sentinels"
    if not is_sentinel(url):
        return []
    seen = watch(read(url))
    masters = sorted(set(seen.masters.values()))
    if seen.silent:
        fault, remedy = (
            f"{', '.join(seen.silent)} of the Sentinels named do not answer, or do not know this master",
            "Start them, or mend redis_url",
        )
    elif len(masters) > 1:
        fault, remedy = (
            f"the Sentinels do not agree on the master: {', '.join(masters)}",
            "Wait for the end of a failover; if it lasts, see their logs",
        )
    elif not seen.quorum:
        fault, remedy = "too few Sentinels see each other to agree on a failover", "See their quorum, and that they reach each other"
    elif seen.sentinels < FEWEST:
        fault, remedy = (
            f"there are {seen.sentinels} Sentinels: when one is lost with the master, nobody takes its place",
            "Run three or more",
        )
    elif not seen.replicas:
        fault, remedy = "the Sentinels know no living replica that could take the master's place", "Start one, or see why it is down"
    else:
        return [ok(check, f"{seen.sentinels} Sentinels agree on the master {masters[0]}; {seen.replicas} replicas could take its place")]
    return [warning(check, fault, remedy)]
