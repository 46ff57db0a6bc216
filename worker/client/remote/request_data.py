"""The conversion of an operation's arguments to JSON data for an HTTP request."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from perdure.flows.core.files import data_of, files_of
from perdure.flows.core.retry import tightening
from perdure.worker.domain.settlement import LONGEST
from perdure.worker.domain.submission import When, from_now
from perdure.worker.errors import InvalidInput
from perdure.worker.operations import validation


def as_json(name: str, value: Any) -> Any:
    """Return an argument as JSON data. None stays None.

    Args:
        name: The name of the argument, which decides how it is converted.

    Raises:
        InvalidInput: The value is not valid.
    """
    encode = ENCODERS.get(name)
    if value is not None and encode is not None:
        return encode(value, name)
    if isinstance(value, Mapping):
        return dict(value)
    return value


def _time(when: When, name: str) -> str | float:
    """Return a start time or deadline as JSON data.

    A datetime becomes an ISO 8601 text. A duration becomes a number of seconds, not a text, because
    the two are different content for an idempotency key.

    Raises:
        InvalidInput: The value is not a time.
    """
    from_now(when, name, time.time())  # raises InvalidInput if it is not a time
    if isinstance(when, datetime):
        return when.isoformat()
    seconds = when.total_seconds() if isinstance(when, timedelta) else when
    return datetime.fromtimestamp(seconds, UTC).isoformat() if seconds > LONGEST else seconds


def _retry(policy: Any, name: str) -> Any:
    tight = tightening(policy)
    return None if tight is None else tight.to_data()


#: The conversion to JSON data, by argument, for arguments that are not JSON data.
ENCODERS: Mapping[str, Callable[[Any, str], Any]] = {
    "budgets": validation.budgets,
    "deadline": _time,
    "files": lambda files, name: [data_of(each) for each in files_of(files)] or None,
    "interrupt_after": lambda nodes, name: list(nodes),
    "interrupt_before": lambda nodes, name: list(nodes),
    "not_before": _time,
    "retry": _retry,
}


def check_no_callback(on_end: object) -> None:
    """Raise InvalidInput unless ``on_end`` is None, because HTTP allows no callback."""
    if on_end is not None:
        raise InvalidInput(
            "on_end cannot be passed over HTTP, because it names a task of an app; "
            "submit with Client"
        )
