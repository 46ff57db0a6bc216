"""What a run or a round has used, and may use, in words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from worker.durations import duration
from worker.words.numbers import EXACT, figure, percent, share

if TYPE_CHECKING:
    from worker.run import Run

#: From these shares of a limit on, what is spent is told in another tone; the first is when the controller is told to wrap up.
LOW, EXHAUSTED = 0.8, 1.0


def money(dollars: float) -> str:
    """``$1.20``; of less than a dime ever more digits, for a request may cost next to nothing."""
    if dollars >= EXACT:
        return f"${figure(dollars)}"
    if dollars >= 0.1 or dollars == 0:
        return f"${dollars:,.2f}"
    return f"${dollars:.4f}" if dollars >= 0.0001 else "<$0.0001"


def amount(name: str, value: float) -> str:
    """So much of what has this name, in its unit."""
    if name == "money":
        return money(value)
    if abs(value) >= EXACT:
        return figure(value)
    if name == "seconds":
        return duration(value)
    if 0 < value < 0.01:
        return figure(value)
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def used(spent: Mapping[str, Any]) -> str:
    """``12,345 tokens · $0.12``: what was used of tokens and money; '' where nothing was, or what is said of it is no number."""
    tokens, dollars = (spent.get(name) if isinstance(spent.get(name), int | float) else None for name in ("tokens", "money"))
    return " · ".join([*([f"{amount('tokens', tokens)} tokens"] if tokens else []), *([money(dollars)] if dollars else [])])


def used_in_all(spent: Mapping[str, Any]) -> str:
    """The same with all that is known of it: tokens read and written, requests, commands."""
    read, written = (spent.get(f"{way}_tokens") for way in ("input", "output"))
    halves = f" ({amount('tokens', read)} read, {amount('tokens', written)} written)" if read is not None and written is not None else ""
    parts = [f"{amount('tokens', spent['tokens'])} tokens{halves}"] if spent.get("tokens") else []
    parts += [money(spent["money"])] if spent.get("money") else []
    parts += [f"{amount('requests', spent['requests'])} request{'' if spent['requests'] == 1 else 's'}"] if spent.get("requests") else []
    for name, times in spent.items():
        if name.startswith("commands."):
            parts.append(f"{name.removeprefix('commands.')} {'once' if times == 1 else f'{figure(times)} times'}")
    return ", ".join(parts)


def budget(name: str, limit: float, spent: float) -> str:
    """``tokens 8,200 of 10,000 (82 %)``."""
    return f"{name} {amount(name, spent)} of {amount(name, limit)} ({percent(spent, limit)})"


def budgets(run: Run) -> list[str]:
    """The budgets of a run, each in words."""
    return [budget(name, limit, have) for name, limit, have in accounts(run)]


def totals(run: Run) -> list[tuple[str, float]]:
    """In few words what a run has used, of what limit where it has one, and the share of that; only what it uses, or may not exceed."""
    spent = run.details.get("spent", {})
    limited = {name: (limit, have) for name, limit, have in accounts(run)}
    found = []
    for name in dict.fromkeys(("tokens", "money", *limited)):
        limit, have = limited.get(name, (None, spent.get(name, 0)))
        if limit is None and not have:
            continue
        of = "" if limit is None else f" of {amount(name, limit)}"
        unit = "" if name in ("money", "seconds") else f" {name.removeprefix('commands.')}"
        found.append((f"{amount(name, have)}{of}{unit}", share(have, limit or 0)))
    return found


def accounts(run: Run) -> list[tuple[str, float, float]]:
    """Name, limit and what is spent of it."""
    spent = {"cycles": run.details.get("cycles", 0), "seconds": _seconds(run), **run.details.get("spent", {})}
    return [(name, limit, spent.get(name, 0)) for name, limit in run.details.get("budgets", {}).items() if limit > 0]


def _seconds(run: Run) -> float:
    """How long it has gone on, without the time that it waited for people."""
    begun = run.details.get("started_at")
    if begun is None:
        return 0.0
    now = run.updated_at if run.status.ended or run.status.value == "interrupted" else datetime.now(UTC)
    idle: float = run.details.get("idle_seconds", 0.0)
    return max(0.0, (now - datetime.fromisoformat(begun)).total_seconds() - idle)


def facts(data: Mapping[str, Any]) -> list[str]:
    """What a committed round's event says of its cost: model, tokens, money."""
    return [*([str(data["model"])] if data.get("model") else []), *([used(data)] if used(data) else [])]
