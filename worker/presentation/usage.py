"""Texts about the usage and the budgets of runs and rounds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from perdure.flows.core.budgets import sum_of
from perdure.flows.core.durations import duration
from perdure.worker.presentation.text import EXACT, figure, percent, share

if TYPE_CHECKING:
    from perdure.worker.domain.run import Run

#: Shares of a limit from which the spent amount is shown in another tone. From the first on, the
#: controller is asked to finish.
LOW, EXHAUSTED = 0.8, 1.0


def money(dollars: float) -> str:
    """Return US dollars as text, like ``$1.20``.

    Amounts below ten cents have four decimals. Between 0 and 0.0001 the text is ``<$0.0001``.
    """
    if dollars >= EXACT:
        return f"${figure(dollars)}"
    if dollars >= 0.1 or dollars == 0:
        return f"${dollars:,.2f}"
    return f"${dollars:.4f}" if dollars >= 0.0001 else "<$0.0001"


def amount(name: str, value: float) -> str:
    """Return an amount of the budget ``name`` as text.

    It is in dollars for ``money``, a duration for ``seconds``, and else a number.
    """
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
    """Return used tokens and money as text: ``12,345 tokens · $0.12``.

    An amount that is 0 or no number is left out, so the text may be ''.
    """
    return " · ".join(_tokens_and_money(spent))


def used_and_cached(spent: Mapping[str, Any]) -> str:
    """Return the usage with cached tokens: ``12,345 tokens · 9,800 of them cached · $0.12``.

    Cached tokens are those that a provider read from its cache, for less money. An amount that is 0
    or no number is left out, so the text may be ''.
    """
    parts = _tokens_and_money(spent)
    cached = spent.get("cached_tokens")
    if not isinstance(cached, int | float) or not cached or not parts:
        return " · ".join(parts)
    return " · ".join([parts[0], f"{amount('tokens', cached)} of them cached", *parts[1:]])


def _tokens_and_money(spent: Mapping[str, Any]) -> list[str]:
    tokens, dollars = (
        spent.get(name) if isinstance(spent.get(name), int | float) else None
        for name in ("tokens", "money")
    )
    return [
        *([f"{amount('tokens', tokens)} tokens"] if tokens else []),
        *([money(dollars)] if dollars else []),
    ]


def used_in_all(spent: Mapping[str, Any]) -> str:
    """Return everything that a run has used, as text.

    It names tokens, money, requests and commands. Amounts of 0 are left out, so the text may be ''.
    """
    read, written = (spent.get(f"{way}_tokens") for way in ("input", "output"))
    cached = (
        f", {amount('tokens', spent['cached_tokens'])} of them cached"
        if spent.get("cached_tokens")
        else ""
    )
    halves = (
        f" ({amount('tokens', read)} read{cached}, {amount('tokens', written)} written)"
        if read is not None and written is not None
        else ""
    )
    parts = [f"{amount('tokens', spent['tokens'])} tokens{halves}"] if spent.get("tokens") else []
    parts += [money(spent["money"])] if spent.get("money") else []
    parts += (
        [f"{amount('requests', spent['requests'])} request{'' if spent['requests'] == 1 else 's'}"]
        if spent.get("requests")
        else []
    )
    for name, times in spent.items():
        if name.startswith("commands."):
            often = "once" if times == 1 else f"{figure(times)} times"
            parts.append(f"{name.removeprefix('commands.')} {often}")
    return ", ".join(parts)


def used_below(run: Run) -> str:
    """Return number and usage of the runs below: ``3 runs, 900 tokens``.

    The text is '' if there are none.
    """
    below = run.details.get("spent_below", {})
    runs = below.get("runs", 0)
    parts = [f"{figure(runs)} {'run' if runs == 1 else 'runs'}"] if runs else []
    return ", ".join([*parts, *([used_in_all(below)] if used_in_all(below) else [])])


def used_in_tree(run: Run) -> str:
    """Return the used tokens and money of a run's whole tree as text."""
    return used(sum_of([run.details.get("spent", {}), run.details.get("spent_below", {})]))


def budget(name: str, limit: float, spent: float) -> str:
    """Return a budget's spending as text: ``tokens 8,200 of 10,000 (82 %)``."""
    return f"{name} {amount(name, spent)} of {amount(name, limit)} ({percent(spent, limit)})"


def budgets(run: Run) -> list[str]:
    """Return the text of ``budget`` for each budget of a run."""
    return [budget(name, limit, have) for name, limit, have in accounts(run)]


def totals(run: Run) -> list[tuple[str, float]]:
    """Return a run's spending, as pairs of a short text and a share.

    There is one pair for each budget. Tokens and money that were spent without a budget have a pair
    too. The share is the spent part of the limit, or 0 without a limit.
    """
    spent = run.details.get("spent", {})
    limited = {name: (limit, spent_amount) for name, limit, spent_amount in accounts(run)}
    parts = []
    for name in dict.fromkeys(("tokens", "money", *limited)):
        limit, spent_amount = limited.get(name, (None, spent.get(name, 0)))
        if limit is None and not spent_amount:
            continue
        of = "" if limit is None else f" of {amount(name, limit)}"
        unit = "" if name in ("money", "seconds") else f" {name.removeprefix('commands.')}"
        parts.append((f"{amount(name, spent_amount)}{of}{unit}", share(spent_amount, limit or 0)))
    return parts


def accounts(run: Run) -> list[tuple[str, float, float]]:
    """Return name, limit and spent amount of each budget of a run.

    The spent amount includes the runs below. A limit of 0 or less is left out.
    """
    spent = sum_of([run.details.get("spent", {}), run.details.get("spent_below", {})]) | {
        "cycles": run.details.get("cycles", 0) + run.details.get("earlier_cycles", 0),
        "seconds": _seconds(run),
    }
    return [
        (name, limit, spent.get(name, 0))
        for name, limit in run.details.get("budgets", {}).items()
        if limit > 0
    ]


def _seconds(run: Run) -> float:
    """Return the seconds since a run's start, without waits for people. 0 if it has not started.

    For an ended or interrupted run, they are those until its last transition.
    """
    begun = run.details.get("started_at")
    if begun is None:
        return 0.0
    now = (
        run.updated_at
        if run.status.ended or run.status.value == "interrupted"
        else datetime.now(UTC)
    )
    idle: float = run.details.get("idle_seconds", 0.0)
    return max(0.0, (now - datetime.fromisoformat(begun)).total_seconds() - idle)


def facts(data: Mapping[str, Any]) -> list[str]:
    """Return texts about a committed round: its model, and its tokens and money.

    ``data`` is that of the round's event. Unknown facts are left out.
    """
    used_text = used_and_cached(data)
    return [
        *([str(data["model"])] if data.get("model") else []),
        *([used_text] if used_text else []),
    ]
