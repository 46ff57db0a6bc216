"""Filters and functions of the dashboard's templates.

``harmless`` replaces harmful characters in every value that a template shows.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from perdure.flows.core.durations import coarse, duration
from perdure.worker.domain.fleet import names_text
from perdure.worker.domain.run import Run
from perdure.worker.presentation.questions import KINDS, or_else, what
from perdure.worker.presentation.text import (
    clock,
    count,
    exact,
    lines,
    memory_text,
    moment,
    percent,
    plain,
    progress_of,
    share,
    shortened,
    since,
    value_text,
)
from perdure.worker.presentation.usage import amount, money, used, used_and_cached, used_below
from perdure.worker.web.dashboard.assets import ASSETS
from perdure.worker.web.dashboard.web_words import web_words

#: Characters that no page may contain. HTML forbids some, UTF-8 cannot encode surrogates, and
#: others reverse the direction of text.
HARMFUL = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def harmless(value: Any) -> Any:
    """Return a template's value with harmful characters replaced by U+FFFD.

    None becomes ''. A Markup, and a value that is no text, is returned unchanged. The value of
    every expression in a template goes through this function.
    """
    if value is None:
        return ""
    return (
        HARMFUL.sub("\ufffd", value)
        if isinstance(value, str) and not isinstance(value, Markup)
        else value
    )


def cut(text: str, limit: int = 100) -> str:
    """Return a text on one line, cut to ``limit`` characters.

    Only the first ``4 * limit`` characters are processed, so a huge text is fast.
    """
    return plain(text[: limit * 4], limit)


def pretty(value: Any) -> str:
    """Return a value as indented JSON for a page."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def progress(reported: Any) -> str:
    """Return a round's reported progress as text: ``3 of 5 · testing a commit``.

    '' if ``reported`` is no dict: the round has reported nothing.
    """
    if not isinstance(reported, dict):
        return ""
    text = reported.get("text")
    return " · ".join(
        part for part in (progress_of(reported), cut(text) if isinstance(text, str) else "") if part
    )


def fine_duration(seconds: float) -> str:
    """Return a duration as text. Below 0.1 s, it is in milliseconds: ``0.25 ms``."""
    return duration(seconds) if seconds >= 0.1 else f"{1000 * seconds:.3g} ms"


def took(run: Run) -> float:
    """Return a run's duration from its submission, in seconds.

    For a run that has not ended, it is the time until now.
    """
    details = run.details
    ended = details.get("ended_at") or details.get("stopped_at") if run.status.ended else None
    end = datetime.fromisoformat(ended) if ended else datetime.now(UTC)
    return (end - run.created_at).total_seconds()


def cost(run: Run) -> float:
    """Return the US dollars that a run and the runs below it spent."""
    parts = (run.details.get("spent", {}), run.details.get("spent_below", {}))
    try:
        return math.fsum(part.get("money", 0) for part in parts)
    except OverflowError:  # of a run that was changed by hand
        return math.inf


def time_tag(at: datetime | str | None, form: str = "age") -> Markup | str:
    """Return an HTML ``<time>`` element. Its title is the full date.

    Args:
        at: The time. A text is in ISO 8601. None: return ''.
        form: ``age``, ``clock`` (time of day) or ``moment`` (date and time).
    """
    if at is None:
        return ""
    when = datetime.fromisoformat(at) if isinstance(at, str) else at
    shown_time = {
        "age": lambda: coarse(since(when)),
        "clock": lambda: clock(when),
        "moment": lambda: moment(when),
    }[form]()
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        when.astimezone(UTC).isoformat(), moment(when), shown_time
    )


@pass_context
def at(context: Context, *parts: str, **query: str | int | None) -> str:
    """Return the URL of a dashboard page.

    ``parts`` are the segments of its path, and ``query`` are its query parameters. For example
    ``at("runs", run.id)`` or ``at("runs", status="errored")``. Query values that are None or '' are
    left out.
    """
    root = context["request"].scope.get("root_path", "").rstrip("/")
    query_string = urlencode(
        {name: value for name, value in query.items() if value not in (None, "")}
    )
    return f"{root}/{'/'.join(quote(part, safe='@:') for part in parts)}" + (
        f"?{query_string}" if query_string else ""
    )


@pass_context
def asset(context: Context, name: str) -> str:
    """Return the URL of a static file. The URL changes when the file's content changes."""
    root = context["request"].scope.get("root_path", "").rstrip("/")
    return f"{root}/static/{name}?v={ASSETS[name]}"


FILTERS: dict[str, Callable[..., Any]] = {
    "amount": lambda value, name: amount(name, value),
    "cost": cost,
    "cut": cut,
    "duration": duration,
    "exact": exact,
    "lines": lines,
    "fine_duration": fine_duration,
    "memory": memory_text,
    "money": money,
    "names_text": names_text,
    "or_else": or_else,
    "plain": plain,
    "pretty": pretty,
    "progress": progress,
    "shortened": shortened,
    "since": since,
    "time": time_tag,
    "took": took,
    "used": used,
    "used_and_cached": used_and_cached,
    "used_below": used_below,
    "value_text": value_text,
    "web_words": web_words,
    "what": what,
}
GLOBALS: dict[str, Any] = {
    "at": at,
    "asset": asset,
    "count": count,
    "percent": percent,
    "share": share,
    "KINDS": KINDS,
}
