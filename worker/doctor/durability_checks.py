"""The doctor's checks of durability, and the error text for an unsafe state server.

They cover writes, eviction, the append-only file, replicas, and whether the Sentinels can agree on
another master. Workers, submissions and readiness probes all refuse a server that could lose runs,
with the same error text.
"""

from __future__ import annotations

from perdure.worker.doctor.server_checks import cluster
from perdure.worker.domain.verdict import Finding, Level, ok, refused, unknown, warning
from perdure.worker.errors import UnsafeServer
from perdure.worker.settings import Settings
from perdure.worker.store.inspection import Inspection, inspect
from perdure.worker.store.sentinel import watch
from perdure.worker.urls import is_sentinel, parse_sentinels, place_of

#: Checks that may fail for a while only. A worker starts nevertheless, and waits for the server.
PASSING = ("writes",)
#: Minimum number of Sentinels. With two, the loss of the machine with the master and one Sentinel
#: leaves too few to agree.
FEWEST = 3
#: The checks that `durability = "relaxed"` downgrades to warnings. A cluster cannot run the scripts
#: at all.
RELAXED = ("eviction-policy", "append-only-file")
#: The checks that decide whether a server keeps runs.
VOIDING = ("cluster", *RELAXED)


def writes(inspection: Inspection) -> Finding:
    """Check that the state server accepts writes now.

    A server replies to all writes with an error if it cannot write to its disk, or if fewer
    replicas than ``min-replicas-to-write`` follow it.
    """
    check, info = "writes", inspection.info or {}
    if inspection.refuses is not None:
        return refused(check, *inspection.refuses)
    least = int(inspection.config.get("min-replicas-to-write", 0))
    following = int(info.get("min_slaves_good_slaves", info.get("connected_slaves", least)))
    if info.get("role") == "master" and following < least:
        return refused(
            check,
            f"the server refuses all writes: {following} replicas follow it, and its "
            f"min-replicas-to-write is {least}",
            "Start the replicas, or check their connection",
        )
    return ok(check, "the server accepts writes")


def eviction_policy(inspection: Inspection, settings: Settings) -> Finding:
    """Check that ``maxmemory-policy`` is ``noeviction``, so that the server never evicts a run."""
    check, policy = "eviction-policy", inspection.config.get("maxmemory-policy")
    if policy is None and inspection.info is not None:
        policy = inspection.info.get("maxmemory_policy")
    if policy is None:
        return unknown(
            check, "the server does not report its maxmemory-policy", "Check that it is noeviction"
        )
    if policy != "noeviction":
        return _voided(
            settings,
            check,
            f"the server may evict runs: its maxmemory-policy is {policy}, not noeviction",
            "CONFIG SET maxmemory-policy noeviction, and the same in the server's configuration",
        )
    return ok(check, "noeviction: a full server refuses new runs and keeps its runs")


def _voided(settings: Settings, check: str, sentence: str, remedy: str) -> Finding:
    """Return the finding that a server may lose runs.

    Its level is ``refused`` if the setting ``durability`` is ``strict``, else ``warning``.
    """
    if settings.durability == "strict":
        return refused(check, sentence, remedy)
    return warning(check, f"{sentence}; accepted because durability is relaxed", remedy)


def append_only(inspection: Inspection, settings: Settings) -> Finding:
    """Check that the state server writes an append-only file (``appendonly yes``).

    Without this file, the server can lose runs when it stops.
    """
    check, appends = "append-only-file", inspection.config.get("appendonly")
    if appends is None and inspection.info is not None and "aof_enabled" in inspection.info:
        appends = "yes" if inspection.info["aof_enabled"] else "no"
    if appends is None:
        return unknown(
            check,
            "the server does not report whether it writes an append-only file",
            "Check that appendonly is yes",
        )
    if appends != "yes":
        return _voided(
            settings,
            check,
            "the server would lose runs when it stops (appendonly is not yes)",
            "CONFIG SET appendonly yes, and the same in the server's configuration",
        )
    return ok(check, "acknowledged writes are in the append-only file")


def fsync(inspection: Inspection) -> Finding:
    """Check ``appendfsync``, which decides how many writes are lost if the power fails.

    Only ``always`` passes. Other values are a warning.
    """
    check, when = "fsync", inspection.config.get("appendfsync")
    if when is None:
        return unknown(
            check,
            "the server does not report its appendfsync",
            "Check that it is everysec or always",
        )
    if when == "always":
        return ok(check, "appendfsync always: a loss of power loses no acknowledged write")
    lost = "the last second or two" if when == "everysec" else "the last half a minute or so"
    return warning(
        check,
        f"appendfsync is {when}: a loss of power (not the death of the process) may lose "
        f"{lost} of acknowledged writes",
        "Accept this, or CONFIG SET appendfsync always: every write then waits for the disk",
    )


def delayed_fsyncs(inspection: Inspection) -> Finding:
    """Check that no fsync of the append-only file was delayed (``aof_delayed_fsync`` is 0).

    With a slow disk and ``appendfsync everysec``, a power failure may lose the writes of several
    seconds.
    """
    check = "delayed-fsyncs"
    if inspection.info is None:
        return unknown(
            check,
            "the server does not report whether its disk keeps up",
            "Watch aof_delayed_fsync in its INFO",
        )
    # Without the append-only file there is no such count. The check of that file reports it.
    delayed = inspection.info.get("aof_delayed_fsync", 0)
    if delayed:
        return warning(
            check,
            f"the server's disk was too slow {delayed} times: writes waited for it, "
            "and a loss of power may lose more than two seconds",
            "Give the append-only file a faster disk, or a disk of its own",
        )
    return ok(check, "the server's disk keeps up")


def replicas(inspection: Inspection, settings: Settings) -> Finding:
    """Check that a failover of the state server loses no acknowledged write.

    The server must be the primary, and have at least ``wait_replicas`` (a setting) replicas. If it
    has replicas, ``min-replicas-to-write`` must be 1 or more.
    """
    check = "replicas"
    if inspection.info is None:
        return unknown(
            check,
            "the server does not report whether it has replicas",
            "If it has some, set min-replicas-to-write to 1 or more",
        )
    if inspection.info.get("role") != "master":
        return warning(
            check,
            "this server is itself a replica: it refuses writes, or loses them",
            "Set PERDURE_REDIS_URL to the primary",
        )
    count = int(inspection.info.get("connected_slaves", 0))
    if settings.wait_replicas > count:
        return warning(
            check,
            f"wait_replicas is {settings.wait_replicas}, but the server has {count} "
            "replicas: no submit, stop or resume is acknowledged",
            "Start the replicas, or lower wait_replicas (PERDURE_WAIT_REPLICAS)",
        )
    if not count:
        return ok(check, "the server has no replicas")
    least = inspection.config.get("min-replicas-to-write")
    if least is None:
        return unknown(
            check,
            f"the server has {count} replicas and does not report its min-replicas-to-write",
            "Check that it is 1 or more",
        )
    if least == "0":
        return warning(
            check,
            f"the server has {count} replicas, and accepts writes when none of them follows: "
            "a failover then loses acknowledged writes",
            "CONFIG SET min-replicas-to-write 1 (and min-replicas-max-lag 10)",
        )
    return ok(
        check, f"the server accepts writes only while at least {least} of its replicas follow"
    )


def sentinels(url: str) -> list[Finding]:
    """Check that the Sentinels in the state server's URL can agree on another master.

    Each Sentinel is asked once.

    Returns:
        A list with one finding. It is empty if the URL names no Sentinels.
    """
    check = "sentinels"
    if not is_sentinel(url):
        return []
    report = watch(parse_sentinels(url))
    masters = sorted(set(report.masters.values()))
    if report.silent:
        fault, remedy = (
            f"the Sentinels {', '.join(report.silent)} do not answer, or do not know this master",
            "Start them, or correct redis_url",
        )
    elif len(masters) > 1:
        fault, remedy = (
            f"the Sentinels do not agree on the master: {', '.join(masters)}",
            "Wait for the end of a failover; if it takes long, see their logs",
        )
    elif not report.quorum:
        fault, remedy = (
            "too few Sentinels reach each other to agree on a failover",
            "Check their quorum, and that they reach each other",
        )
    elif report.sentinels < FEWEST:
        fault, remedy = (
            (
                f"there are {report.sentinels} Sentinels: if one is lost with the master, "
                "no replica becomes master"
            ),
            "Run three or more",
        )
    elif not report.replicas:
        fault, remedy = (
            "the Sentinels know no living replica that could become master",
            "Start a replica, or find out why it is down",
        )
    else:
        return [
            ok(
                check,
                f"{report.sentinels} Sentinels agree on the master {masters[0]}; "
                f"{report.replicas} replicas could take its place",
            )
        ]
    return [warning(check, fault, remedy)]


def voids(inspection: Inspection, settings: Settings) -> list[Finding]:
    """Return the findings that forbid to use the state server for runs. Empty if it is safe.

    If the setting ``durability`` is ``relaxed``, only a cluster is such a finding.
    """
    findings = [
        cluster(inspection),
        eviction_policy(inspection, settings),
        append_only(inspection, settings),
    ]
    return [finding for finding in findings if finding.level is Level.REFUSED]


def refusal(url: str, findings: list[Finding]) -> str:
    """Return the error text for an unsafe state server: the findings and their remedies.

    Args:
        url: The server's URL. The text has it without user and password.
        findings: The result of ``voids``.
    """
    reasons = "; ".join(finding.sentence for finding in findings)
    remedies = "; ".join(finding.remedy for finding in findings)
    is_acceptable = all(finding.check in RELAXED for finding in findings)
    relaxed = (
        '. To accept that runs may be lost: durability = "relaxed" (PERDURE_DURABILITY=relaxed)'
        if is_acceptable
        else ""
    )
    return f"the server at {place_of(url)} is not safe for runs: {reasons}. {remedies}{relaxed}"


def check_durability(url: str, settings: Settings) -> None:
    """Raise UnsafeServer if the state server at ``url`` could lose acknowledged runs.

    A server that does not report its configuration is accepted. If the setting ``durability`` is
    ``relaxed``, only a cluster raises the error.

    Raises:
        UnsafeServer: The server could lose runs, or is a cluster.
        StoreUnavailable: The server does not answer.
    """
    findings = voids(inspect(url, settings.prefix, contents=False, settings=False), settings)
    if findings:
        raise UnsafeServer(refusal(url, findings))
