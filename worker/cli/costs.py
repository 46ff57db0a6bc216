"""What a run or a round has used, and may use, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worker.cli.texts import count
from worker.durations import duration

#: From these shares of a limit on, what is spent is told in another tone; the first is when the controller is told to wrap up.
LOW, EXHAUSTED = 0.8, 1.0


def money(dollars: float) -> str:
    """``$1.20``; of less than a dime ever more digits, for a request may cost next to nothing."""
    if dollars >= 0.1 or dollars == 0:
        return f"${dollars:,.2f}"
    return f"${dollars:.4f}" if dollars >= 0.0001 else "<$0.0001"


def amount(name: str, value: float) -> str:
    """So much of what has this name, in its unit."""
    if name == "money":
        return money(value)
    if name == "seconds":
        return duration(value)
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def used(spent: Mapping[str, Any]) -> str:
    """``12,345 tokens · $0.12``: what was used of tokens and money; '' where nothing was."""
    parts = [f"{amount('tokens', spent['tokens'])} tokens"] if spent.get("tokens") else []
    return " · ".join([*parts, *([money(spent["money"])] if spent.get("money") else [])])


def used_in_all(spent: Mapping[str, Any]) -> str:
    """The same with all that is known of it: tokens read and written, requests, commands."""
    read, written = (spent.get(f"{way}_tokens") for way in ("input", "output"))
    halves = f" ({amount('tokens', read)} read, {amount('tokens', written)} written)" if read is not None and written is not None else ""
    parts = [f"{amount('tokens', spent['tokens'])} tokens{halves}"] if spent.get("tokens") else []
    parts += [money(spent["money"])] if spent.get("money") else []
    parts += [count(int(spent["requests"]), "request")] if spent.get("requests") else []
    parts += [f"{name.removeprefix('commands.')} {times:g} times" for name, times in spent.items() if name.startswith("commands.")]
    return ", ".join(parts)


def budget(name: str, limit: float, spent: float | None) -> str:
    """``tokens 8,200 of 10,000 (82 %)``; without what is spent, where nobody says it."""
    if spent is None:
        return f"{name} {amount(name, limit)}"
    return f"{name} {amount(name, spent)} of {amount(name, limit)} ({spent / limit:.0%})".replace("%", " %")


def budgets(details: Mapping[str, Any]) -> list[tuple[str, float]]:
    """The budgets of a run, from its details: each in words, with the share of it that is spent."""
    return [(budget(name, limit, have), (have or 0) / limit) for name, limit, have in _accounts(details)]


def totals(details: Mapping[str, Any]) -> list[tuple[str, float]]:
    """In few words what a run has used, of what limit where it has one, and the share of that; only what it uses, or may not exceed."""
    found = []
    limited = {name: (limit, have) for name, limit, have in _accounts(details)}
    for name in dict.fromkeys(("tokens", "money", *limited)):
        limit, have = limited.get(name, (None, details.get("spent", {}).get(name)))
        if have is None or (limit is None and not have):
            continue
        of = "" if limit is None else f" of {amount(name, limit)}"
        unit = "" if name in ("money", "seconds") else f" {name.removeprefix('commands.')}"
        found.append((f"{amount(name, have)}{of}{unit}", have / limit if limit else 0.0))
    return found


def _accounts(details: Mapping[str, Any]) -> list[tuple[str, float, float | None]]:
    """Name, limit and what is spent of it; None where the run does not say it (how long it has gone on)."""
    spent = {"cycles": details.get("cycles", 0), **details.get("spent", {})}
    return [(name, limit, spent.get(name, None if name == "seconds" else 0)) for name, limit in details.get("budgets", {}).items()]


def facts(data: Mapping[str, Any]) -> list[str]:
    """What a committed round's event says of its cost: model, tokens, money."""
    return [*([str(data["model"])] if data.get("model") else []), *([used(data)] if used(data) else [])]
