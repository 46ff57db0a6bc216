"""The checks of arguments by their names. A name means the same in every operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from perdure.worker.operations import validation

#: Raises InvalidInput or UnstorableValue unless a value is valid for an argument of this name.
Check = Callable[[object, str], None]


def note(value: object, name: str) -> None:
    """Raise InvalidInput unless this is a text that is stored with a run."""
    validation.notes(**{name: value})


def limit(value: object, name: str) -> None:
    """Raise InvalidInput unless this is a number of items."""
    validation.limit(value)


#: The check of each argument.
CHECKS: Mapping[str, Check] = {
    "flow": validation.text,
    "limit": limit,
    "reason": note,
    "requested_by": note,
    "submitted_by": validation.submitter,
}
#: Arguments that name the caller. Over HTTP, the access token identifies the caller.
CALLER = ("by", "requested_by")
