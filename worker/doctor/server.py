"""Checks: is the server one that the transitions work on, and do its clock and ours agree?"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from worker.broker import is_verified
from worker.doctor.finding import Finding, ok, refused, unknown, warning
from worker.durations import duration
from worker.settings import Settings
from worker.store.inspection import Inspection

#: The transitions need what these versions brought (flags of scripts, LPOS, PEXPIREAT's answers); older ones are not tested.
OLDEST = {"Valkey": (8, 0), "Redis": (7, 0)}


def version(told: Inspection) -> Finding:
    check, info = "server-version", told.info
    if info is None:
        return unknown(check, "the server does not tell its version", "See that it is Redis 7.0, Valkey 8.0 or newer")
    kind = "Valkey" if "valkey_version" in info else "Redis"
    text = str(info.get(f"{kind.lower()}_version", ""))
    found = re.match(r"(\d+)\.(\d+)", text)
    if found is None:
        return unknown(check, f"the server says of its version {text!r}", "See that it is Redis 7.0, Valkey 8.0 or newer")
    oldest = OLDEST[kind]
    if (int(found[1]), int(found[2])) < oldest:
        return refused(check, f"{kind} {text} is too old: it needs {oldest[0]}.{oldest[1]}", "Upgrade the server")
    return ok(check, f"{kind} {text}")


def cluster(told: Inspection) -> Finding:
    """A transition touches keys that a cluster would spread over servers."""
    check = "cluster"
    if told.info is None:
        return unknown(check, "the server does not tell whether it is part of a cluster", "See that its cluster mode is off")
    if told.info.get("cluster_enabled") or told.info.get("redis_mode") == "cluster":
        return refused(
            check, "the server runs in cluster mode, where no script may touch several keys", "Use a server without cluster mode"
        )
    return ok(check, "no cluster")


def clock(told: Inspection, settings: Settings) -> Finding:
    """Leases and deadlines go by the server's clock; what people and logs are told goes by ours."""
    check, most = "clock", settings.lease_seconds / 2
    if told.skew is None:
        return unknown(check, "the server does not tell its time", "See that this machine and the server keep time (NTP)")
    seconds = abs(told.skew) / 1000
    if seconds > most:
        way = "ahead of" if told.skew > 0 else "behind"
        return refused(
            check,
            f"the server's clock is {duration(seconds)} {way} this machine's; at most half a lease ({most:g} s) is taken",
            "Let both machines keep time (NTP)",
        )
    return ok(check, f"the server's clock and this machine's agree to within half a lease ({most:g} s)")


def connection(settings: Settings, default_url: str) -> Finding:
    """Whoever reads a plain connection reads goals and answers, and the password; so does who answers one that is not verified."""
    check = "connection"
    for url in (settings.redis_url or default_url, *(settings.broker_url or "").split(";")):
        parts = urlsplit(url)
        if parts.scheme in ("redis", "amqp", "pyamqp") and not _is_loopback(parts.hostname or "localhost"):
            secure = {"redis": "rediss://"}.get(parts.scheme, "amqps://")
            return warning(
                check,
                f"the connection to {parts.hostname} is not encrypted and leaves this machine",
                f"Use {secure}, unless you trust everybody on the way",
            )
        if parts.scheme in ("rediss", "amqps") and not is_verified(url):
            return warning(
                check,
                f"the connection to {parts.hostname} is encrypted, but anybody may answer it: its URL turns a check off",
                "Take ssl_cert_reqs and ssl_check_hostname out of the URL, and name your authority: ?ssl_ca_certs=/path/to/ca.pem",
            )
    return ok(check, "it stays on this machine, or is encrypted")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
