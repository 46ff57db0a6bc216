"""Results: what a command hands back, bounded, so that one long output does not fill a model's window or a run's history."""

from __future__ import annotations

from typing import Any

from flows.summaries import safe_text
from flows.values import canonical

#: Characters of a result that go into the history unless a flow says otherwise: about 8,000 tokens.
MOST = 32_000
#: Characters of a longer one that are kept as an artifact; what is longer still is data, and belongs into a file.
MOST_KEPT = 4 * 1024 * 1024


def bounded(result: Any, most: int, name: str) -> tuple[Any, dict[str, str]]:
    """What of a result goes into the history, and the artifacts that keep the whole.

    Args:
        result: JSON data.
        most: characters of it (as JSON, or of a text as it is) that may go into the history.
        name: of the artifact.
    """
    text = result if isinstance(result, str) else canonical(result)
    if len(text) <= most:
        return result, {}
    kept = safe_text(text, MOST_KEPT)
    whole = "the whole" if len(text) <= MOST_KEPT else f"its first {MOST_KEPT} characters"
    note = f"cut after {most} of {len(text)} characters; {whole} is the artifact {name!r}"
    return {"beginning": text[:most], "note": note, "artifact": name}, {name: kept}
