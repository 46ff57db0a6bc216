"""Checks of a client's arguments before they are sent.

Each check raises InvalidInput with the argument's name, the expected and the actual value. A text
that is not valid Unicode raises UnstorableValue. The checks of a client's own arguments
(``settings`` and ``app``) raise InvalidSettings.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Mapping
from datetime import datetime, timedelta

from perdure.flows.core.budgets import check_budgets
from perdure.flows.core.json_values import storable
from perdure.flows.core.names import TOPIC, is_name
from perdure.worker.domain.run import RunStatus
from perdure.worker.errors import InvalidInput, InvalidSettings
from perdure.worker.ids import RUN_ID
from perdure.worker.settings import Settings
from perdure.worker.store.keys import INDEXES, OWN_KEYS

#: A key in a header of HTTP, as the API accepts it.
HEADER_KEY = re.compile(r"(?=.{1,900}$)[\x21-\x7E]([\x20-\x7E]*[\x21-\x7E])?")
#: Maximum bytes of an idempotency key, which is part of a key's name on the state server.
MOST_KEY_BYTES = 1024
#: Maximum bytes of a note: who requested something, and why.
MOST_NOTE_BYTES = 16 * 1024
#: Maximum number of runs on one page.
MOST = 100_000
#: Maximum number of generations of a tree that is read at once.
MOST_GENERATIONS = 32
#: Cursor prefix of a page with one submitter's runs. It comes from the submitter's index, not from
#: a status index.
OWN = "own"
#: Cursor prefix of a page with runs of all statuses.
ALL = "all"
#: A cursor of another order than newest first begins with the order.
CURSOR = re.compile(
    rf"((?:oldest-|duration-|cost-)?(?:{'|'.join((*INDEXES, OWN, ALL))}))"
    r"\|(\d{1,15}\.\d{1,6}:.+)",
    re.DOTALL | re.ASCII,
)
#: A position in an index. The inbox cursor has two after its run: its window (waiting_runs.py).
_PLACE = rf"\d{{1,15}}\.\d{{1,6}}:{RUN_ID.pattern}"
INBOX_CURSOR = re.compile(
    rf"(\d{{1,15}}):({RUN_ID.pattern})(?:\|((?:{_PLACE})?)\|((?:{_PLACE})?))?", re.ASCII
)
#: Number of children before a page, and the id of the last child before it.
CHILDREN_CURSOR = re.compile(rf"(\d{{1,9}})(?::({RUN_ID.pattern}))?", re.ASCII)
#: Form of a submitter's name, which is part of a key's name on the state server.
SUBMITTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@+-]{0,99}")
#: Form of a topic that may have the name of its owner in front.
OWNED_TOPIC = re.compile(rf"({SUBMITTER.pattern}/)?{TOPIC.pattern}")
#: Maximum characters of the name of a thread.
MOST_OF_A_THREAD = 180
#: Default and maximum seconds for which a signal waits for a run that takes its topic.
KEPT, MOST_KEPT = 3600, 30 * 86_400
NONCE = re.compile(r"[A-Za-z0-9]{16,64}")
EVENT_ID = re.compile(r"\d{1,19}(-\d{1,19})?", re.ASCII)


def text(value: object, name: str) -> None:
    """Raise InvalidInput unless this is a text."""
    if not isinstance(value, str):
        raise wrong(name, "a text", value)
    storable(value, name)


def optional_texts(**values: object) -> None:
    """Raise InvalidInput unless each argument is a text or None."""
    for name, value in values.items():
        if value is not None:
            text(value, name)


def notes(**values: object) -> None:
    """Raise InvalidInput unless each argument is None or a text of at most 16 KiB.

    The arguments name a person or a reason (``by``, ``requested_by``, ``reason``). They are stored
    with the run, and every read of the run returns them. ``by`` must not begin or end with a space.
    """
    optional_texts(**values)
    for name, value in values.items():
        if name == "by" and isinstance(value, str) and value != value.strip():
            raise wrong(name, "a name without spaces around it", value)
        if isinstance(value, str) and len(value.encode()) > MOST_NOTE_BYTES:
            raise InvalidInput(
                f"{name} takes {len(value.encode())} bytes; the limit is {MOST_NOTE_BYTES}"
            )


def submitter(value: object, name: str = "submitted_by") -> None:
    """Raise InvalidInput unless this is a submitter's name or None."""
    optional_texts(**{name: value})
    if isinstance(value, str) and not SUBMITTER.fullmatch(value):
        raise wrong(
            name,
            "a name: letters, digits and _ . : @ + -, at most 100, a letter or digit first",
            value,
        )


def names(value: object, name: str) -> None:
    """Raise InvalidInput unless this is a list or tuple of texts, or None.

    A single text is not valid, because it would be read character by character.
    """
    if value is not None and not (
        isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
    ):
        raise wrong(name, "a list of texts, or None", value)


def mapping(value: object, name: str, of_texts: bool = False) -> None:
    """Raise InvalidInput unless this is a mapping with text keys, or None.

    If ``of_texts`` is True, the values must be texts too.
    """
    if value is None:
        return
    fits = isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
    if not fits or (of_texts and not all(isinstance(each, str) for each in value.values())):  # type: ignore[attr-defined]
        raise wrong(
            name, "texts by name" if of_texts else "a mapping from names to JSON values", value
        )


def budgets(value: object, name: str) -> dict[str, float]:
    """Validate the amounts of budgets, and return them by budget name. None gives an empty dict."""
    mapping(value, name)
    return check_budgets(value, name) if isinstance(value, Mapping) else {}


def key(value: object, name: str = "idempotency_key") -> None:
    """Raise InvalidInput unless this is an idempotency key or None.

    An empty key is not valid. It often comes from an unset variable, and all submissions with it
    would become one run.
    """
    optional_texts(**{name: value})
    if value == "":
        raise wrong(name, "a text that is not empty, or None", value)
    if isinstance(value, str) and len(value.encode()) > MOST_KEY_BYTES:
        raise wrong(
            name, f"at most {MOST_KEY_BYTES} bytes (a digest of what it stands for, say)", value
        )


def key_over_http(value: object, name: str = "idempotency_key") -> None:
    """Raise InvalidInput unless this is None or a key that an HTTP header can hold."""
    key(value, name)
    if isinstance(value, str) and not HEADER_KEY.fullmatch(value):
        expected = "over HTTP, at most 900 printable ASCII characters without a space at either end"
        raise wrong(name, expected, value)


def signal(name: object) -> None:
    """Raise InvalidInput unless this is a signal's name."""
    if not is_name(name):
        raise wrong("name", "letters, digits, '_', '.' or '-', at most 100", name)


def topic(value: object, over_http: bool = False) -> None:
    """Raise InvalidInput unless this is a topic or None.

    Args:
        over_http: True: the topic has no slash, because the server adds its owner. False: the topic
            may begin with the name of its owner and a slash.
    """
    pattern = TOPIC if over_http else OWNED_TOPIC
    if value is not None and not (isinstance(value, str) and pattern.fullmatch(value)):
        raise wrong(
            "topic", "letters, digits and _ . : @ + -, at most 200, a letter or digit first", value
        )


def thread(value: object) -> None:
    """Raise InvalidInput unless this is a thread's name."""
    if not (isinstance(value, str) and TOPIC.fullmatch(value) and len(value) <= MOST_OF_A_THREAD):
        raise wrong(
            "thread",
            f"letters, digits and _ . : @ + -, at most {MOST_OF_A_THREAD}, a letter or digit first",
            value,
        )


def recipient(run_id: object, topic_name: object, keep: object) -> None:
    """Raise InvalidInput unless a signal has exactly one recipient, a run or a topic.

    Args:
        run_id: The id of the run, or None.
        topic_name: The topic, or None.
        keep: Seconds for which the signal may wait for a run that takes the topic, at most 30 days.
            It must be None for a signal to a run.
    """
    if (run_id is None) == (topic_name is None):
        raise InvalidInput("a signal needs a run_id or a topic, and not both")
    if topic_name is None and keep is not None:
        raise InvalidInput("keep is for a signal to a topic; that to a run is kept with the run")
    if keep is not None and (
        isinstance(keep, bool) or not isinstance(keep, int | float) or not 0 < keep <= MOST_KEPT
    ):
        raise wrong("keep", f"seconds, more than 0 and at most {MOST_KEPT:,} (30 days)", keep)


def nonce(value: object) -> None:
    """Raise InvalidInput unless this is a nonce or None.

    The nonce identifies a submission that is sent again. Who guesses the nonce of another caller's
    submission gets that caller's run, so a short nonce is not valid.
    """
    if value is not None and not (isinstance(value, str) and NONCE.fullmatch(value)):
        raise wrong("nonce", "letters and digits, from 16 to 64 of them, or None", value)


def is_run_id(value: object) -> bool:
    """Return whether a text has the form of a run id.

    Raises:
        InvalidInput: The value is not a text.
    """
    if not isinstance(value, str):
        raise wrong("run_id", "a text", value)
    return RUN_ID.fullmatch(value) is not None and not value.endswith(OWN_KEYS)


def step(value: object) -> None:
    """Raise InvalidInput unless this is the number of a step: a whole number from 0."""
    if type(value) is not int or value < 0:
        raise wrong("step", "a whole number from 0", value)


def status(value: object, name: str = "status") -> RunStatus | None:
    """Return a status argument as a RunStatus. None stays None.

    Raises:
        InvalidInput: The argument is not the name of a status.
    """
    if value is None or isinstance(value, RunStatus):
        return value
    if not isinstance(value, str) or value not in {each.value for each in RunStatus}:
        raise wrong(name, f"one of {', '.join(each.value for each in RunStatus)}", value)
    return RunStatus(value)


def limit(value: object) -> None:
    """Raise InvalidInput unless this is a whole number from 1 to ``MOST``, such as a page size."""
    if type(value) is not int or not 1 <= value <= MOST:
        raise wrong("limit", f"a whole number from 1 to {MOST}", value)


def depth(value: object) -> None:
    """Raise InvalidInput unless this is a number of generations, from 1 to 32."""
    if type(value) is not int or not 1 <= value <= MOST_GENERATIONS:
        raise wrong("depth", f"a whole number from 1 to {MOST_GENERATIONS}", value)


def width(value: object) -> None:
    """Raise InvalidInput unless this is a valid width of a tree: a whole number from 1 to ``MOST``.

    The width is the maximum number of listed children of the same flow and status.
    """
    if type(value) is not int or not 1 <= value <= MOST:
        raise wrong("width", f"a whole number from 1 to {MOST}", value)


def look(value: object) -> None:
    """Raise InvalidInput unless this is None or a whole number from 1.

    It is the maximum number of runs to read for one page. None means no maximum.
    """
    if value is not None and (type(value) is not int or value < 1):
        raise wrong("look", "a whole number from 1, or None", value)


def cursor(value: object) -> tuple[str, str] | None:
    """Parse the cursor of a page of runs.

    Returns:
        The order of the list (``RunFilter.order``) and the position in the list. None if the cursor
            is None: the page is the first.

    Raises:
        InvalidInput: The cursor is not valid.
    """
    if value is None:
        return None
    match = CURSOR.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise wrong("cursor", "the cursor of a page, or None", value)
    storable(value, "cursor")
    return match[1], match[2]


def offset(value: object) -> tuple[int, str]:
    """Parse the cursor of a page of children.

    Returns:
        The number of children before the page, and the id of the last of them. The id is empty if
            a cursor of an earlier version has none. None, the first page, gives 0 and an empty id.

    Raises:
        InvalidInput: The cursor is not valid.
    """
    if value is None:
        return 0, ""
    match = CHILDREN_CURSOR.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise wrong("cursor", "the cursor of a page of children, or None", value)
    return int(match[1]), match[2] or ""


def inbox_cursor(value: object) -> tuple[tuple[int, str], str, str] | None:
    """Parse the cursor of an inbox page, which names the last run of the previous page.

    Returns:
        The entry of that run: the time (ms) since which it has waited, and its id. Then the
            positions at which the window of the page begins and ends (``WaitingRuns``). They are
            empty if the cursor has none. None instead of all three if the cursor is None: the page
            is the first.

    Raises:
        InvalidInput: The cursor is not valid.
    """
    if value is None:
        return None
    match = INBOX_CURSOR.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise wrong("cursor", "the cursor of a page of the inbox, or None", value)
    return (int(match[1]), match[2]), match[3] or "", match[4] or ""


def after(value: object, name: str = "after") -> None:
    """Raise InvalidInput unless this is an event id or None."""
    fits = value is None or (
        isinstance(value, str)
        and EVENT_ID.fullmatch(value)
        and max(map(int, value.split("-"))) < 2**63
    )
    if not fits:
        raise wrong(name, "the id of an event, like 1718000000000-0, or None", value)


def mode(value: object) -> None:
    """Raise InvalidInput unless the mode is ``graceful`` or ``now``."""
    if value not in ("graceful", "now"):
        raise wrong("mode", "'graceful' or 'now'", value)


def flag(value: object, name: str) -> None:
    """Raise InvalidInput unless this is True or False."""
    if not isinstance(value, bool):
        raise wrong(name, "True or False", value)


def timeout(value: object) -> float | None:
    """Return a timeout in seconds. A timedelta is converted, and None stays None.

    A negative timeout is valid: it has expired already.

    Raises:
        InvalidInput: The timeout is neither a number, nor a timedelta, nor None.
    """
    if isinstance(value, timedelta):
        return value.total_seconds()
    if value is not None and (
        isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value)
    ):
        raise wrong("timeout", "a number of seconds, a timedelta, or None", value)
    return value


def moment_before(older_than: object, now: object) -> datetime | None:
    """Return the time that is ``older_than`` before ``now``.

    Args:
        older_than: A timedelta that is not negative, or None.
        now: An aware datetime. None means this machine's time.

    Returns:
        The time, or None if ``older_than`` is None.

    Raises:
        InvalidInput: An argument is not valid, or the time is outside the calendar.
    """
    if now is not None and (not isinstance(now, datetime) or now.tzinfo is None):
        raise wrong("now", "an aware datetime, or None", now)
    if older_than is None:
        return None
    if not isinstance(older_than, timedelta) or older_than < timedelta():
        raise wrong("older_than", "a timedelta that is not negative, or None", older_than)
    try:
        return (now or datetime.now().astimezone()) - older_than
    except OverflowError as error:
        raise wrong(
            "older_than", "a timedelta that ends within the calendar", older_than
        ) from error


def settings(value: object) -> None:
    """Raise InvalidSettings unless this is a ``Settings`` or None."""
    if value is not None and not isinstance(value, Settings):
        raise InvalidSettings(
            f"settings: expected a perdure.Settings or None, got a {type(value).__name__}"
        )


def app(value: object, url: object, settings: object) -> None:
    """Raise InvalidSettings if ``app`` is not None, and ``url`` or ``settings`` is not None."""
    if value is not None and (url is not None or settings is not None):
        raise InvalidSettings(
            "app cannot be combined with url or settings: the app has its own state server, "
            "broker and settings"
        )


def wrong(name: str, expected: str, value: object) -> InvalidInput:
    """Return the InvalidInput for an argument with a wrong value.

    Args:
        expected: The valid values, as words that follow "should be".
    """
    return InvalidInput(
        f"{name} should be {expected}; it is {reprlib.repr(value)} ({type(value).__name__})"
    )


def pauses(before: object, after: object) -> None:
    """Raise InvalidInput unless each argument is None or a list of node names."""
    names(before, "interrupt_before")
    names(after, "interrupt_after")


def options(
    run_labels: object,
    submitted_by: object,
    idempotency_key: object,
    submission_nonce: object,
    limits: object,
) -> None:
    """Raise InvalidInput unless these options of a submission or fork are valid."""
    mapping(run_labels, "labels", of_texts=True)
    submitter(submitted_by)
    key(idempotency_key)
    nonce(submission_nonce)
    budgets(limits, "budgets")
