"""Ids that a person shortened: the run whose id begins so, where it is the only one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from worker.cli.exits import USAGE, Failed
from worker.words.texts import plain

if TYPE_CHECKING:
    from worker.client import Client

#: Letters of an id that Holdfast makes: it is not shortened.
WHOLE = 16
#: Fewer letters name too many runs.
FEWEST = 3
#: Ids that are shown where several begin so.
SHOWN = 5


def known_id(client: Client, given: str) -> str:
    """Return the id that ``given`` is, or begins; ``given`` itself where no run is found.

    Raises:
        Failed: several runs begin so.
    """
    from worker.errors import DamagedRun, RunNotFound

    if not FEWEST <= len(given) < WHOLE:
        return given
    try:
        client.get(given)
    except RunNotFound:
        ids = client.ids_beginning(given)
    except DamagedRun:
        return given
    else:
        return given
    if len(ids) > 1:
        more = ", ..." if len(ids) > SHOWN else ""
        named = ", ".join(map(plain, ids[:SHOWN]))
        raise Failed(f"{len(ids)} runs have an id that begins with {given!r}: {named}{more}; say more of it", USAGE)
    return ids[0] if ids else given
