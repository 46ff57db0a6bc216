"""The doctor's checks of the state server itself: version and mode, clock, encryption, memory.

``durability_checks`` has the checks of the server's durability.
"""

from __future__ import annotations

import ipaddress
import re

from perdure.flows.core.durations import duration
from perdure.worker.domain.verdict import Finding, ok, refused, unknown, warning
from perdure.worker.messaging.broker import is_verified
from perdure.worker.settings import Settings
from perdure.worker.store.inspection import Inspection
from perdure.worker.urls import hosts_of

#: Perdure's Lua scripts need features of these versions (script flags, LPOS, PEXPIREAT's replies).
#: Older versions are untested.
OLDEST = {"Valkey": (8, 0), "Redis": (7, 0)}

#: URL schemes without encryption, each with its encrypted counterpart.
SECURE = {
    "redis": "rediss://",
    "redis+sentinel": "rediss+sentinel://",
    "amqp": "amqps://",
    "pyamqp": "amqps://",
}


def version(inspection: Inspection) -> Finding:
    """Check that the state server is Redis or Valkey in a version that is new enough."""
    check, info = "server-version", inspection.info
    if info is None:
        return unknown(
            check,
            "the server does not report its version",
            "Check that it is Redis 7.0, Valkey 8.0 or newer",
        )
    kind = "Valkey" if "valkey_version" in info else "Redis"
    text = str(info.get(f"{kind.lower()}_version", ""))
    match = re.match(r"(\d+)\.(\d+)", text)
    if match is None:
        return unknown(
            check,
            f"the server's version {text!r} is unreadable",
            "Check that it is Redis 7.0, Valkey 8.0 or newer",
        )
    oldest = OLDEST[kind]
    if (int(match[1]), int(match[2])) < oldest:
        return refused(
            check,
            f"{kind} {text} is too old: it needs {oldest[0]}.{oldest[1]}",
            "Upgrade the server",
        )
    return ok(check, f"{kind} {text}")


def cluster(inspection: Inspection) -> Finding:
    """Check that the state server is not a cluster, in which scripts cannot use several keys."""
    check = "cluster"
    if inspection.info is None:
        return unknown(
            check,
            "the server does not report whether it is part of a cluster",
            "Check that its cluster mode is off",
        )
    if inspection.info.get("cluster_enabled") or inspection.info.get("redis_mode") == "cluster":
        return refused(
            check,
            "the server runs in cluster mode, where no script may touch several keys",
            "Use a server without cluster mode",
        )
    return ok(check, "no cluster")


def clock(inspection: Inspection, settings: Settings) -> Finding:
    """Check that the state server's clock and this machine's clock differ by half a lease at most.

    Leases and deadlines use the server's clock. Logs and people use this machine's clock.
    """
    check, limit = "clock", settings.lease_seconds / 2
    if inspection.skew is None:
        return unknown(
            check,
            "the server does not report its time",
            "Synchronize this machine's clock and the server's (NTP)",
        )
    seconds = abs(inspection.skew) / 1000
    if seconds > limit:
        direction = "ahead of" if inspection.skew > 0 else "behind"
        return refused(
            check,
            f"the server's clock is {duration(seconds)} {direction} this machine's; "
            f"at most half a lease ({limit:g} s) is allowed",
            "Synchronize the clocks of both machines (NTP)",
        )
    return ok(
        check, f"the server's clock and this machine's agree to within half a lease ({limit:g} s)"
    )


def connection(settings: Settings, default_url: str) -> Finding:
    """Check that connections to the state server and the broker are encrypted and verified.

    On an unencrypted connection, others can read goals, answers and the password. They can also do
    so if the server's identity is not verified. Connections inside this machine need no encryption.

    Args:
        default_url: The URL of the state server, used if the settings name none.
    """
    check = "connection"
    for url in (settings.redis_url or default_url, *(settings.broker_url or "").split(";")):
        scheme = url.partition("://")[0]
        outside = [host for host in hosts_of(url) if not _is_loopback(host)]
        if scheme in SECURE and outside:
            secure = SECURE[scheme]
            return warning(
                check,
                f"the connection to {', '.join(outside)} is not encrypted and leaves this machine",
                f"Use {secure}, unless you trust the whole network in between",
            )
        if f"{scheme}://" in SECURE.values() and not is_verified(url):
            return warning(
                check,
                f"the connection to {', '.join(hosts_of(url))} is encrypted, "
                "but any server could answer it: its URL turns a check off",
                "Remove ssl_cert_reqs and ssl_check_hostname from the URL, "
                "and name your authority: ?ssl_ca_certs=/path/to/ca.pem",
            )
    return ok(check, "all connections are encrypted or remain on this machine")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


#: Share of its maxmemory above which a server counts as nearly full.
NEARLY_FULL = 0.8
#: How to free memory.
FREE_SOME = "Free some: perdure delete --status completed --older-than 7d, or raise its maxmemory"


def memory(inspection: Inspection) -> Finding:
    """Check that the state server is not full: it uses less than NEARLY_FULL of ``maxmemory``.

    A full server refuses new runs, but runs that have begun go on. Without ``maxmemory``, this
    check passes.
    """
    check, info = "memory", inspection.info
    if info is None or "used_memory" not in info:
        return unknown(
            check,
            "the server does not report how much memory it uses",
            "Watch used_memory and maxmemory in its INFO",
        )
    used, most = int(info["used_memory"]), int(info.get("maxmemory", 0))
    if not most:
        return ok(check, f"{megabytes(used)} MB used, without a limit")
    amount = f"{megabytes(used)} of {megabytes(most)} MB"
    if used >= most:
        return warning(
            check,
            f"the server is full ({amount}): running work goes on, new work is refused",
            FREE_SOME,
        )
    if used >= NEARLY_FULL * most:
        return warning(
            check,
            f"the server is nearly full ({amount}, {used / most:.0%}): a full one refuses new runs",
            FREE_SOME,
        )
    return ok(check, f"{amount} used ({used / most:.0%})")


def limit(inspection: Inspection) -> Finding:
    """Check that the state server has a ``maxmemory``.

    Without this limit, the operating system kills the server when memory runs out, and no run can
    continue. With the limit, a full server only refuses new runs.
    """
    check, info = "maxmemory", inspection.info
    if info is None or "maxmemory" not in info:
        return unknown(
            check,
            "the server does not report its maxmemory",
            "Check that it has one, below the memory of its machine or container",
        )
    most = int(info["maxmemory"])
    if most:
        return ok(check, f"the server takes at most {megabytes(most)} MB for its data")
    return warning(
        check,
        "the server has no maxmemory: when the memory of its machine or container is used up, it "
        "is killed, and all work stands still",
        "CONFIG SET maxmemory to about 60 % of that memory, and the same in the server's "
        "configuration: a full server refuses new runs, and running work goes on",
    )


def megabytes(count: int) -> str:
    """Return a number of bytes as text in megabytes, with one decimal and no unit."""
    return f"{count / 1e6:,.1f}"
