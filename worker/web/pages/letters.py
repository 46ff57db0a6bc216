"""Letters: the messages that workers refused, as pages show them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from worker.web.access import Permitted

#: So many of the newest.
SHOWN = 20


def letters_for(runs: Permitted) -> list[dict[str, Any]]:
    """The newest ones; none for whoever does not see everybody's."""
    if not runs.caller.is_admin:
        return []
    return [{**letter, "at": datetime.fromtimestamp(letter["at"], UTC)} for letter in runs.dead_letters(SHOWN)]
