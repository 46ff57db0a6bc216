"""The checks of arguments by their names.

A name means the same in every operation. An operation in which a name has another meaning declares
another check for it (``Operation.checks``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from perdure.worker.errors import InvalidInput
from perdure.worker.operations import validation
from perdure.worker.operations.intervals import seconds_of

#: Raises InvalidInput or UnstorableValue unless a value is valid for an argument of this name.
Check = Callable[[Any, str], object]


def by_value(check: Callable[[Any], object]) -> Check:
    """Convert a function that takes only the value to a check, which also takes a name.

    The name is ignored. The errors of the function name the argument by themselves.
    """
    return lambda value, name: check(value)


def anything(value: object, name: str) -> None:
    """Accept every value, for an argument that the operation itself checks."""


def note(value: object, name: str) -> None:
    """Raise InvalidInput unless this is a text that may be stored with a run (at most 16 KiB)."""
    validation.notes(**{name: value})


def labels(value: object, name: str) -> None:
    """Raise InvalidInput unless this is a mapping from texts to texts."""
    validation.mapping(value, name, of_texts=True)


def amounts(value: object, name: str) -> None:
    """Raise InvalidInput unless these are amounts to add to budgets, by budget name."""
    validation.budgets(value, "add")


def check_words(value: object, name: str) -> None:
    """Raise InvalidInput unless this is a text with more than white space."""
    validation.text(value, name)
    if not str(value).strip():
        raise InvalidInput(f"{name} is empty; expected what to say to the run")


def query(value: object, name: str) -> None:
    """Raise InvalidInput unless this is a query line, such as ``status:errored`` (``RunQuery``)."""
    from perdure.worker.domain.run_query import RunQuery  # Few commands search.

    validation.text(value, name)
    RunQuery.of(str(value))


#: The check of each argument.
CHECKS: Mapping[str, Check] = {
    "add": amounts,
    "after": validation.after,
    "amounts": amounts,
    "answer": anything,
    "at": by_value(validation.step),
    "before": validation.after,
    "budgets": validation.budgets,
    "below": validation.text,
    "by": note,
    "children": validation.flag,
    # A time is checked where it is read, together with the clock.
    "deadline": anything,
    "depth": by_value(validation.depth),
    "files": anything,
    "flow": validation.text,
    "follow": validation.flag,
    "goal": validation.text,
    "idempotency_key": validation.key,
    "inputs": validation.mapping,
    "interrupt": validation.text,
    "interrupt_after": validation.names,
    "interrupt_before": validation.names,
    "keep": anything,
    "key": validation.key,
    "labels": labels,
    "limit": by_value(validation.limit),
    "look": by_value(validation.look),
    "max_rounds": anything,
    "mode": by_value(validation.mode),
    "model": validation.text,
    "name": validation.text,
    "nonce": by_value(validation.nonce),
    "not_before": anything,
    "on_end": anything,
    "parent": validation.text,
    "payload": anything,
    "query": query,
    "reason": note,
    "requested_by": note,
    "retry": anything,
    # No run has an id of another form, so the error is RunNotFound.
    "run": anything,
    "run_id": anything,
    "status": validation.status,
    "step": by_value(validation.step),
    "submitted_by": validation.submitter,
    "text": validation.text,
    "thread": by_value(validation.thread),
    "thread_id": validation.text,
    "timeout": by_value(seconds_of),
    "topic": by_value(validation.topic),
    "tree": validation.flag,
    "values": validation.mapping,
    "wait": by_value(seconds_of),
    "width": by_value(validation.width),
}
#: Arguments that name the caller. Over HTTP, the access token identifies the caller.
CALLER_ARGUMENTS = ("by", "requested_by")
#: Arguments whose values are names that the caller chose.
OWN_NAMES = ("idempotency_key", "topic")
#: Arguments that name a run. A caller over HTTP needs the permission to read it.
RUN_ARGUMENTS = ("run_id", "parent", "below")
