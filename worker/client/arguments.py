"""Arguments: what a caller gave to a client, checked before the server is asked for anything.

Each raises InvalidInput (UnstorableValue for a text that is no Unicode): the argument's name, what was expected, what came.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Mapping
from datetime import datetime, timedelta

from flows.budgets import check_budgets
from flows.values import storable
from worker.errors import InvalidInput, InvalidSettings
from worker.run import RunStatus
from worker.settings import Settings
from worker.store.keys import INDEXES
from worker.submission import OWN_KEYS, RUN_ID

#: Bytes of an idempotency key, which is part of a key's name on the server.
MOST_KEY_BYTES = 1024
#: Bytes of who asked for something, and of why.
MOST_NOTE_BYTES = 16 * 1024
#: Runs that one page may hold.
MOST = 100_000
#: Where a page is cut off that is of one submitter's runs: in no index of a status, but in the submitter's own.
OWN = "own"
#: Where a page is cut off that is of all statuses.
ALL = "all"
CURSOR = re.compile(rf"({'|'.join((*INDEXES, OWN, ALL))})\|(\d{{1,15}}\.\d{{1,6}}:.+)", re.DOTALL | re.ASCII)
INBOX_CURSOR = re.compile(rf"(\d{{1,15}}):({RUN_ID.pattern})", re.ASCII)
#: Whose run it is; part of a key's name on the server.
SUBMITTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@+-]{0,99}")
NONCE = re.compile(r"[A-Za-z0-9]{16,64}")
EVENT_ID = re.compile(r"\d{1,19}(-\d{1,19})?", re.ASCII)


def text(value: object, name: str) -> None:
    """A text."""
    if not isinstance(value, str):
        raise wrong(name, "a text", value)
    storable(value, name)


def optional_texts(**values: object) -> None:
    """Each a text, or None."""
    for name, value in values.items():
        if value is not None:
            text(value, name)


def notes(**values: object) -> None:
    """Each a short text, or None: who asked for something, and why. It is kept with the run, and every look at the run carries it."""
    optional_texts(**values)
    for name, value in values.items():
        if isinstance(value, str) and len(value.encode()) > MOST_NOTE_BYTES:
            raise InvalidInput(f"{name} takes {len(value.encode())} bytes, at most {MOST_NOTE_BYTES} are accepted")


def submitter(value: object) -> None:
    """Whose run it is, or None."""
    optional_texts(submitted_by=value)
    if isinstance(value, str) and not SUBMITTER.fullmatch(value):
        raise wrong("submitted_by", "a name: letters, digits and _ . : @ + -, at most 100, a letter or digit first", value)


def names(value: object, name: str) -> None:
    """A list of texts, or None; a text by itself would be read letter by letter."""
    if value is not None and not (isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)):
        raise wrong(name, "a list of texts, or None", value)


def mapping(value: object, name: str, of_texts: bool = False) -> None:
    """A mapping from texts (to texts), or None."""
    if value is None:
        return
    fits = isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
    if not fits or (of_texts and not all(isinstance(each, str) for each in value.values())):  # type: ignore[attr-defined]
        raise wrong(name, "texts by name" if of_texts else "a mapping from names to JSON values", value)


def budgets(value: object, name: str) -> dict[str, float]:
    """Amounts by the name of a budget; none where it is None."""
    mapping(value, name)
    return check_budgets(value, name) if isinstance(value, Mapping) else {}


def key(value: object) -> None:
    """An idempotency key or None; an empty one (of a variable that is not set, say) would make one run of all."""
    optional_texts(idempotency_key=value)
    if value == "":
        raise wrong("idempotency_key", "a text that is not empty, or None", value)
    if isinstance(value, str) and len(value.encode()) > MOST_KEY_BYTES:
        raise wrong("idempotency_key", f"at most {MOST_KEY_BYTES} bytes (a digest of what it stands for, say)", value)


def nonce(value: object) -> None:
    """What makes a submission itself when it is sent again, or None; a short one could be met by chance, and another's run with it."""
    if value is not None and not (isinstance(value, str) and NONCE.fullmatch(value)):
        raise wrong("nonce", "letters and digits, from 16 to 64 of them, or None", value)


def is_run_id(value: object) -> bool:
    """Whether a run can have this id; raises InvalidInput where it is no text."""
    if not isinstance(value, str):
        raise wrong("run_id", "a text", value)
    return RUN_ID.fullmatch(value) is not None and not value.endswith(OWN_KEYS)


def status(value: object, name: str = "status") -> RunStatus | None:
    """A status or its word, or None."""
    if value is None or isinstance(value, RunStatus):
        return value
    if not isinstance(value, str) or value not in {each.value for each in RunStatus}:
        raise wrong(name, f"one of {', '.join(each.value for each in RunStatus)}", value)
    return RunStatus(value)


def limit(value: object) -> None:
    """How many runs a page may hold."""
    if type(value) is not int or not 1 <= value <= MOST:
        raise wrong("limit", f"a whole number from 1 to {MOST}", value)


def look(value: object) -> None:
    """How many runs may be looked at for one page; None: as many as there are."""
    if value is not None and (type(value) is not int or value < 1):
        raise wrong("look", "a whole number from 1, or None", value)


def cursor(value: object) -> tuple[str, str] | None:
    """The index and the place in it that a page's cursor names; None for the beginning."""
    if value is None:
        return None
    found = CURSOR.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise wrong("cursor", "the cursor of a page, or None", value)
    storable(value, "cursor")
    return found[1], found[2]


def inbox_cursor(value: object) -> tuple[int, str] | None:
    """Since when the last run of the page before has waited (ms), and its id; None for the beginning."""
    if value is None:
        return None
    found = INBOX_CURSOR.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise wrong("cursor", "the cursor of a page of the inbox, or None", value)
    return int(found[1]), found[2]


def after(value: object, name: str = "after") -> None:
    """The id of an event, or None."""
    fits = value is None or (isinstance(value, str) and EVENT_ID.fullmatch(value) and max(map(int, value.split("-"))) < 2**63)
    if not fits:
        raise wrong(name, "the id of an event, like 1718000000000-0, or None", value)


def mode(value: object) -> None:
    """How to stop."""
    if value not in ("graceful", "now"):
        raise wrong("mode", "'graceful' or 'now'", value)


def flag(value: object, name: str) -> None:
    """True or False."""
    if not isinstance(value, bool):
        raise wrong(name, "True or False", value)


def timeout(value: object) -> float | None:
    """Return the seconds of a timeout (seconds, a timedelta or None); what is below zero has run out already."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value)):
        raise wrong("timeout", "a number of seconds, a timedelta, or None", value)
    return value


def moment_before(older_than: object, now: object) -> datetime | None:
    """The time that lies ``older_than`` before ``now`` (None: this machine's time); None where there is no ``older_than``."""
    if now is not None and (not isinstance(now, datetime) or now.tzinfo is None):
        raise wrong("now", "an aware datetime, or None", now)
    if older_than is None:
        return None
    if not isinstance(older_than, timedelta):
        raise wrong("older_than", "a timedelta, or None", older_than)
    try:
        return (now or datetime.now().astimezone()) - older_than
    except OverflowError as error:
        raise wrong("older_than", "a timedelta that does not lead out of the calendar", older_than) from error


def settings(value: object) -> None:
    """Settings, or None; raises InvalidSettings."""
    if value is not None and not isinstance(value, Settings):
        raise InvalidSettings(f"settings should be a worker.Settings, or None; it is a {type(value).__name__}")


def app(value: object, url: object, settings: object) -> None:
    """A Celery app, which says the rest itself, or None; raises InvalidSettings."""
    if value is not None and (url is not None or settings is not None):
        raise InvalidSettings("app stands alone: it knows its state server, its broker and its settings; leave out url and settings")


def wrong(name: str, expected: str, value: object) -> InvalidInput:
    """The error for an argument."""
    return InvalidInput(f"{name} should be {expected}; it is {reprlib.repr(value)} ({type(value).__name__})")
