"""Check: how full the server is."""

from __future__ import annotations

from worker.doctor.finding import Finding, ok, unknown, warning
from worker.store.inspection import Inspection

#: From this share of its limit on, a server is nearly full.
NEARLY_FULL = 0.8
#: How to make room.
FREE_SOME = "Free some: holdfast delete --status completed --older-than 7d, or raise its maxmemory"


def memory(told: Inspection) -> Finding:
    """Return how much of its maxmemory the server uses. A full one refuses new runs; running ones go on."""
    check, info = "memory", told.info
    if info is None or "used_memory" not in info:
        return unknown(check, "the server does not tell how much memory it uses", "Watch used_memory and maxmemory in its INFO")
    used, most = int(info["used_memory"]), int(info.get("maxmemory", 0))
    if not most:
        return ok(check, f"{megabytes(used)} MB used, without a limit")
    amount = f"{megabytes(used)} of {megabytes(most)} MB"
    if used >= most:
        return warning(check, f"the server is full ({amount}): running work goes on, new work is refused", FREE_SOME)
    if used >= NEARLY_FULL * most:
        return warning(check, f"the server is nearly full ({amount}, {used / most:.0%}): a full one refuses new runs", FREE_SOME)
    return ok(check, f"{amount} used ({used / most:.0%})")


def megabytes(count: int) -> str:
    """Return bytes as megabytes with one digit."""
    return f"{count / 1e6:,.1f}"
