"""Checks: does the server keep what it acknowledged?"""

from __future__ import annotations

from worker.doctor.finding import Finding, ok, refused, unknown, warning
from worker.settings import Settings
from worker.store.inspection import Inspection


def eviction_policy(told: Inspection, settings: Settings) -> Finding:
    """A server that evicts loses runs that it acknowledged."""
    check, policy = "eviction-policy", told.config.get("maxmemory-policy")
    if policy is None and told.info is not None:
        policy = told.info.get("maxmemory_policy")
    if policy is None:
        return unknown(check, "the server does not tell its maxmemory-policy", "See in its settings that it is noeviction")
    if policy != "noeviction":
        return _voided(
            settings,
            check,
            f"may evict runs: its maxmemory-policy is {policy}, not noeviction",
            "CONFIG SET maxmemory-policy noeviction, and the same in the server's configuration",
        )
    return ok(check, "noeviction: a full server refuses new runs and keeps those it has")


def _voided(settings: Settings, check: str, sentence: str, remedy: str) -> Finding:
    """Return what voids the promises: refused, or a warning where the settings accept that runs are lost."""
    if settings.durability == "strict":
        return refused(check, sentence, remedy)
    return warning(check, f"{sentence}; accepted, as durability is relaxed", remedy)


def append_only(told: Inspection, settings: Settings) -> Finding:
    """A server without its append-only file forgets everything when it stops."""
    check, appends = "append-only-file", told.config.get("appendonly")
    if appends is None and told.info is not None and "aof_enabled" in told.info:
        appends = "yes" if told.info["aof_enabled"] else "no"
    if appends is None:
        return unknown(
            check, "the server does not tell whether it writes an append-only file", "See in its settings that appendonly is yes"
        )
    if appends != "yes":
        return _voided(
            settings,
            check,
            "it would lose runs when it stops (appendonly is not yes)",
            "CONFIG SET appendonly yes, and the same in the server's configuration",
        )
    return ok(check, "what is acknowledged is written to the append-only file")


def fsync(told: Inspection) -> Finding:
    """How much a loss of power may take."""
    check, when = "fsync", told.config.get("appendfsync")
    if when is None:
        return unknown(check, "the server does not tell its appendfsync", "See in its settings that it is everysec or always")
    if when == "always":
        return ok(check, "appendfsync always: a loss of power takes nothing that was acknowledged")
    lost = "the last second or two" if when == "everysec" else "whatever the system had not written yet, half a minute perhaps"
    return warning(
        check,
        f"appendfsync is {when}: a loss of power (not the death of the process) may take {lost} of what was acknowledged",
        "Live with it, or CONFIG SET appendfsync always: every write then waits for the disk",
    )


def delayed_fsyncs(told: Inspection) -> Finding:
    """A disk that cannot follow makes ``everysec`` several seconds."""
    check = "delayed-fsyncs"
    if told.info is None:
        return unknown(check, "the server does not tell how its disk keeps up", "Watch aof_delayed_fsync in its INFO")
    # Without the append-only file there is no such count; that check says so.
    delayed = told.info.get("aof_delayed_fsync", 0)
    if delayed:
        return warning(
            check,
            f"its disk was too slow {delayed} times: writes waited for it, and a loss of power may take more than two seconds",
            "Give the append-only file a faster disk, or one of its own",
        )
    return ok(check, "its disk keeps up")


def replicas(told: Inspection, settings: Settings) -> Finding:
    """A failover to a replica that was behind forgets what it had not received."""
    check = "replicas"
    if told.info is None:
        return unknown(check, "the server does not tell whether it has replicas", "If it has: set min-replicas-to-write to 1 or more")
    if told.info.get("role") != "master":
        return warning(
            check,
            "this server is itself a replica: it takes no writes, or loses them",
            "Name the primary in HOLDFAST_REDIS_URL",
        )
    count = int(told.info.get("connected_slaves", 0))
    if settings.wait_replicas > count:
        return warning(
            check,
            f"wait_replicas is {settings.wait_replicas}, and it has {count} replicas: no submit, stop or resume is acknowledged",
            "Start the replicas, or lower wait_replicas (HOLDFAST_WAIT_REPLICAS)",
        )
    if not count:
        return ok(check, "it has no replicas")
    least = told.config.get("min-replicas-to-write")
    if least is None:
        return unknown(check, f"it has {count} replicas and does not tell its min-replicas-to-write", "See that it is 1 or more")
    if least == "0":
        return warning(
            check,
            f"it has {count} replicas and goes on writing when none follows: a failover then loses what was acknowledged",
            "CONFIG SET min-replicas-to-write 1 (and min-replicas-max-lag 10)",
        )
    return ok(check, f"it writes only while at least {least} of its replicas follow")
