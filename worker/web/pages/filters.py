"""Filters and functions of the templates: words for people, and texts of strangers made harmless."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from worker.durations import coarse, duration
from worker.web.pages.assets import ASSETS
from worker.words.asked import KINDS, or_else, what
from worker.words.costs import amount, money, used
from worker.words.numbers import percent, progress_of, share
from worker.words.texts import clock, count, exact, lines, moment, plain, since, value_text

#: What no page may hold: what HTML forbids, what UTF-8 cannot say, and what turns the text around it the other way.
HARMFUL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def harmless(value: Any) -> Any:
    """What every expression of a template goes through: texts lose what is harmful in any place, None says nothing."""
    if value is None:
        return ""
    return HARMFUL.sub("\ufffd", value) if isinstance(value, str) and not isinstance(value, Markup) else value


def cut(text: str, limit: int = 100) -> str:
    """On one line, cut to ``limit`` characters. What is huge is cut before it is looked at."""
    return plain(text[: limit * 4], limit)


def pretty(value: Any) -> str:
    """A value as JSON on many lines."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def progress(told: Any) -> str:
    """``3 of 5 · testing a commit``: what a round says of how far it is."""
    if not isinstance(told, dict):
        return ""
    text = told.get("text")
    return " · ".join(part for part in (progress_of(told), cut(text) if isinstance(text, str) else "") if part)


def time_tag(at: datetime | str | None, form: str = "age") -> Markup | str:
    """``<time>``: an age (``age``), a time of day (``clock``) or a date and time (``moment``), with the whole of it as its title."""
    if at is None:
        return ""
    when = datetime.fromisoformat(at) if isinstance(at, str) else at
    said = {"age": lambda: coarse(since(when)), "clock": lambda: clock(when), "moment": lambda: moment(when)}[form]()
    return Markup('<time datetime="{}" title="{}">{}</time>').format(when.astimezone(UTC).isoformat(), moment(when), said)


@pass_context
def at(context: Context, *parts: str, **query: str | int | None) -> str:
    """The address of a page of this server: ``at("runs", run.id)``, ``at("runs", status="errored")``; what is None or '' is left out."""
    root = context["request"].scope.get("root_path", "").rstrip("/")
    asked = urlencode({name: value for name, value in query.items() if value not in (None, "")})
    return f"{root}/{'/'.join(quote(part, safe='@:') for part in parts)}" + (f"?{asked}" if asked else "")


@pass_context
def asset(context: Context, name: str) -> str:
    """The address of a static file, which changes with its content."""
    return f"{context['request'].scope.get('root_path', '').rstrip('/')}/static/{name}?v={ASSETS[name]}"


FILTERS: dict[str, Callable[..., Any]] = {
    "amount": lambda value, name: amount(name, value),
    "cut": cut,
    "duration": duration,
    "exact": exact,
    "lines": lines,
    "money": money,
    "or_else": or_else,
    "plain": plain,
    "pretty": pretty,
    "progress": progress,
    "since": since,
    "time": time_tag,
    "used": used,
    "value_text": value_text,
    "what": what,
}
GLOBALS: dict[str, Any] = {"at": at, "asset": asset, "count": count, "percent": percent, "share": share, "KINDS": KINDS}
