"""The format of a round's message, and its validation.

A message is validated before Celery reads it. Validation accepts nothing but a message of a round.
The names of the Celery tasks are here as well, because a message has one, and a run's hash stores
it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from reprlib import Repr
from typing import Any

from perdure.worker.ids import RUN_ID

#: Celery's name of the task that runs a node, by the node's role.
TASKS = {"controller": "perdure.controller_round", "executor": "perdure.executor_round"}

#: Celery's name of the task that submits a run, on a user's own app.
SUBMIT = "perdure.submit"


#: Maximum length of a message that is parsed. A round's message has about 1 KiB.
MAX_BYTES = 16 * 1024
#: Headers with a meaning for Celery, and their types. A header not listed here or below is removed.
HEADERS: Mapping[str, type | tuple[type, ...]] = {
    "lang": str,
    "task": str,
    "id": str,
    "root_id": (str, type(None)),
    "parent_id": (str, type(None)),
    "group": type(None),
    "group_index": type(None),
    "shadow": type(None),
    "eta": type(None),
    "expires": type(None),
    "retries": int,
    "argsrepr": str,
    "kwargsrepr": str,
    "origin": str,
    "ignore_result": bool,
    "replaced_task_nesting": int,
}
ROUNDS = ", ".join(TASKS.values())
#: Maximum characters of one header. Celery's longest, the arguments as text, has about 300.
MAX_HEADER = 1024
#: Headers of tracers, passed on if they are short texts.
TRACING = ("traceparent", "tracestate", "baggage", "sentry-trace")
#: Properties that are passed on beside the delivery information. All are validated.
PROPERTIES = ("correlation_id", "reply_to", "priority", "body_encoding", "delivery_tag")
#: Celery's additions to the arguments. A round has none.
EMBED = {"callbacks", "errbacks", "chain", "chord"}

#: Shows an untrusted value in an error: shallow, and short.
SHOWN = Repr()
SHOWN.maxstring = SHOWN.maxother = SHOWN_CHARACTERS = 80


#: Fault of a message of another task. The task's name replaces the braces.
OTHER_TASK = f"task {{}} is none of {ROUNDS}"

#: Returns the validated message of a queue, as `validate` does.
Validator = Callable[[str | bytes, str], dict[str, Any]]


class InvalidMessage(ValueError):
    """Raised when a message is not a round's message.

    The text has the reason. It is short, even if the message is long.
    """


def validate(text: str | bytes, queue: str) -> dict[str, Any]:
    """Validate a message from a Redis queue, in kombu's format.

    Args:
        queue: The queue from which the message was popped. It replaces the queue that the message
            itself names. If the worker shuts down before the round begins, kombu puts the message
            back into this queue.

    Returns:
        The message, with valid headers and properties only.

    Raises:
        InvalidMessage: ``text`` is not exactly a round's message.
    """
    if len(text) > MAX_BYTES:
        raise InvalidMessage(f"{len(text)} bytes, at most {MAX_BYTES} are accepted")
    message = _json(text, "the message")
    _expect(isinstance(message, dict), "the message is not an object")
    properties = _properties(message.get("properties"), queue)
    body = message.get("body")
    headers = judge(
        message.get("content-type"),
        message.get("content-encoding"),
        message.get("headers"),
        _unwrapped(body),
    )
    plain = {"content-type": "application/json", "content-encoding": "utf-8"}
    return {"body": body, **plain, "headers": headers, "properties": properties}


def stored_round(text: str, queue: str) -> tuple[str, int, int]:
    """Return run id, epoch and step of a message that is stored with a run.

    Raises:
        InvalidMessage: ``text`` is not exactly a round's message.
    """
    return round_of(base64.b64decode(validate(text, queue)["body"]).decode())


def judge(content_type: Any, content_encoding: Any, headers: Any, body: Any) -> dict[str, Any]:
    """Validate the parts of a message from any broker, and return its valid headers.

    Other headers are left out.

    Args:
        body: The decoded body, as text.

    Raises:
        InvalidMessage: The message is not exactly a round's message.
    """
    _expect(
        content_type == "application/json",
        "content type {}, expected application/json",
        content_type,
    )
    _expect(content_encoding == "utf-8", "content encoding {}, expected utf-8", content_encoding)
    valid_headers = _headers(headers)
    round_of(body)
    return valid_headers


def round_of(body: Any) -> tuple[str, int, int]:
    """Return the run id, epoch and step in the body of a message.

    Raises:
        InvalidMessage: ``body`` is not exactly the body of a round's message.
    """
    _expect(isinstance(body, str), "the body is not text in UTF-8")
    _expect(
        len(body) <= MAX_BYTES, "{} bytes of body, at most {} are accepted", len(body), MAX_BYTES
    )
    content = _json(body, "the body")
    _expect(
        isinstance(content, list) and len(content) == 3, "the body is not [args, kwargs, embed]"
    )
    args, kwargs, embed = content
    _expect(
        isinstance(args, list) and len(args) == 3, "the arguments are not [run_id, epoch, step]"
    )
    run_id, epoch, step = args
    _expect(
        isinstance(run_id, str) and RUN_ID.fullmatch(run_id) is not None, "the run id is not one"
    )
    for name, value in (("epoch", epoch), ("step", step)):
        _expect(type(value) is int and 0 <= value < 2**53, "the {} is {}", name, value)
    _expect(kwargs == {}, "keyword arguments")
    _expect(
        isinstance(embed, dict) and set(embed) <= EMBED and not any(embed.values()),
        "callbacks, chains or chords",
    )
    return run_id, epoch, step


def _headers(headers: Any) -> dict[str, Any]:
    _expect(isinstance(headers, dict), "no headers")
    for name in ("task", "id"):
        _expect(name in headers, "no header {}", name)
    valid_headers: dict[str, Any] = {}
    for name, value in headers.items():
        kind = HEADERS.get(name)
        if kind is not None:
            if not isinstance(value, kind):
                raise _invalid("header {} is {}", name, value)
            if isinstance(value, str) and len(value) > MAX_HEADER:
                raise _invalid("header {} is too long", name)
            valid_headers[name] = value
    _expect(headers["task"] in TASKS.values(), OTHER_TASK, headers["task"])
    _expect(0 < len(headers["id"]) <= 200, "header {} is empty or too long", "id")
    _expect(headers.get("retries", 0) == 0, "header {} is not 0", "retries")
    limits = headers.get("timelimit", [None, None])
    _expect(limits in ([None, None], None), "header {} is {}", "timelimit", limits)
    _expect(not headers.get("stamps") and not headers.get("stamped_headers"), "stamped")
    valid_headers |= {
        name: headers[name]
        for name in TRACING
        if isinstance(headers.get(name), str) and len(headers[name]) <= MAX_HEADER
    }
    return {**valid_headers, "timelimit": [None, None]}


def _properties(properties: Any, queue: str) -> dict[str, Any]:
    _expect(isinstance(properties, dict), "no properties")
    _expect(properties.get("body_encoding") == "base64", "the body is not in base64")
    _expect(isinstance(properties.get("delivery_tag"), str), "no delivery tag")
    info = properties.get("delivery_info")
    _expect(isinstance(info, dict), "no delivery info")
    _expect(
        all(isinstance(info.get(name), str) for name in ("exchange", "routing_key")),
        "delivery info without exchange or routing key",
    )
    _expect(type(properties.get("priority", 0)) is int, "the priority is not a number")
    for name in ("correlation_id", "reply_to"):
        _expect(isinstance(properties.get(name), str | None), "property {} is not a text", name)
    valid_properties = {name: properties[name] for name in PROPERTIES if name in properties}
    return {**valid_properties, "delivery_info": {"exchange": "", "routing_key": queue}}


def _unwrapped(body: Any) -> str:
    _expect(isinstance(body, str), "no body")
    try:
        return base64.b64decode(body, validate=True).decode()
    except ValueError as error:
        raise InvalidMessage(f"the body is not base64 of UTF-8: {type(error).__name__}") from error


def _json(text: str | bytes, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidMessage(f"{what} is not JSON: {type(error).__name__}") from error


def _expect(holds: bool, why: str, *values: Any) -> None:
    """Raise InvalidMessage unless a condition for valid messages is true.

    Args:
        holds: The condition.
        why: The error's text, with braces for ``values``. It is formatted only for an error.
    """
    if not holds:
        raise _invalid(why, *values)


def _invalid(why: str, *values: Any) -> InvalidMessage:
    """Return the error for an invalid message.

    Args:
        why: The error's text, with braces for ``values``.
        values: Values of the message. The text has them in a short form.
    """
    return InvalidMessage(why.format(*(SHOWN.repr(value)[:SHOWN_CHARACTERS] for value in values)))
