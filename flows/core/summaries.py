"""Short forms of long values: limits of command results, and short texts for people who watch.

The limits keep a long output from filling the history, or the window of the controller's model. The
short texts are never read back.
"""

from __future__ import annotations

import hashlib
from typing import Any

from perdure.flows.core.json_values import canonical
from perdure.flows.core.outcomes import Command
from perdure.flows.core.reply_extras import public

SHOWN_CHARACTERS = 200


def safe_text(text: str, limit: int) -> str:
    """Return at most ``limit`` characters of a text. Lone surrogates are replaced by ``?``.

    A text that is cut ends with ``…``.
    """
    short = text if len(text) <= limit else text[: limit - 1] + "…"
    return short.encode("utf-8", "replace").decode("utf-8")


def safe_ends(text: str, limit: int) -> str:
    """Return at most ``limit`` characters, with invalid Unicode replaced.

    Of a longer text, the middle is left out, because an error often names its cause at its end.
    """
    if len(text) <= limit:
        return safe_text(text, limit)
    note = f"\n[about {len(text) - limit} characters are left out here]\n"
    half = (limit - len(note)) // 2
    return safe_text(f"{text[:half]}{note}{text[-half:]}", limit)


def safe_repr(value: Any) -> str:
    """Return the ``repr`` of a value. If ``repr`` raises an error, the text names the class."""
    try:
        return repr(value)
    except Exception as broken:
        return f"<{type(value).__name__}: its repr raises {type(broken).__name__}>"


def shown(value: Any) -> str:
    """Return the first 200 characters of a text, or of another stored value's JSON."""
    return safe_text(value if isinstance(value, str) else canonical(value), SHOWN_CHARACTERS)


def digest(value: Any) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of a stored value's JSON.

    Equal values have the same digest.
    """
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]


def summary_of(command: Command, **more: Any) -> dict[str, Any]:
    """Return a command's name, arguments, public extras and ``more``, each cut short.

    People who watch the run see this summary.
    """
    extras = {
        name: shown(value)
        for name, value in public(command.extras).items()
        if value not in (None, "", [])
    }
    return {
        "command": command.name,
        "args": shown(dict(command.args)),
        **extras,
        **{name: shown(value) for name, value in more.items()},
    }


#: Default maximum characters of a result in the history: about 8,000 tokens.
MOST = 32_000
#: Maximum characters of a longer result that are kept as an artifact. More than that is data and
#: belongs in a file.
MOST_KEPT = 4 * 1024 * 1024


def bounded(result: Any, most: int, name: str, run: str = "") -> tuple[Any, dict[str, str]]:
    """Cut a command's result to its maximum length.

    Args:
        result: JSON data.
        most: maximum characters of the result in the history. A text is counted as it is, other
            data as JSON.
        name: name of the artifact that stores a longer result.
        run: the child run that has the artifact. Empty: the run that reads the result.

    Returns:
        The result and no artifact if the result is short enough. Otherwise an object with the
            beginning of the result, and the artifact (by name) that stores the whole of it.
    """
    text = result if isinstance(result, str) else canonical(result)
    if len(text) <= most:
        return result, {}
    stored = safe_text(text, MOST_KEPT)
    whole = "the whole" if len(text) <= MOST_KEPT else f"its first {MOST_KEPT} characters"
    where = f" of run {run}" if run else ""
    note = f"cut after {most} of {len(text)} characters; {whole} is the artifact {name!r}{where}"
    artifact = f"{run}/{name}" if run else name
    return {"beginning": text[:most], "note": note, "artifact": artifact}, {name: stored}


def ended(text: str) -> str:
    """Return a text with a full stop, unless it already ends with ``.``, ``?`` or ``!``."""
    return text if text.endswith((".", "?", "!")) else f"{text}."
