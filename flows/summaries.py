"""Short texts for people who watch; never read back."""

from __future__ import annotations

import hashlib
from typing import Any

from flows.extras import public
from flows.outcomes import Command
from flows.values import canonical

SHOWN_CHARACTERS = 200


def safe_text(text: str, limit: int) -> str:
    """At most ``limit`` characters of ``text``, with what is not valid Unicode replaced."""
    short = text if len(text) <= limit else text[: limit - 1] + "…"
    return short.encode("utf-8", "replace").decode("utf-8")


def shown(value: Any) -> str:
    """A stored value on one short line: text as it is, everything else as JSON."""
    return safe_text(value if isinstance(value, str) else canonical(value), SHOWN_CHARACTERS)


def digest(value: Any) -> str:
    """By which a stored value is known: the beginning of the SHA-256 of its JSON."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]


def summary_of(command: Command, **more: Any) -> dict[str, Any]:
    """The command, its arguments, what else the reply said (its thoughts), and ``more``; each cut short."""
    said = {name: shown(value) for name, value in public(command.extras).items() if value not in (None, "", [])}
    return {"command": command.name, "args": shown(dict(command.args)), **said, **{name: shown(value) for name, value in more.items()}}
