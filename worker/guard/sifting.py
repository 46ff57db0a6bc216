"""What a round's message looks like, exactly; anything else is refused before Celery sees it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from reprlib import Repr
from typing import Any

from worker.task_names import TASKS

#: A round's message is about 1 KiB; nothing longer is parsed.
MAX_BYTES = 16 * 1024
RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@-]{0,199}")
#: Headers with a meaning for Celery, and what each must be; a header that is not named here or below is taken off.
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
#: Characters of one header; the longest that Celery writes, the arguments as text, has about 300.
MAX_HEADER = 1024
#: Headers of tracers, passed on where they are short texts.
TRACING = ("traceparent", "tracestate", "baggage", "sentry-trace")
#: What of a message's properties is passed on, beside where it came from; it has all been looked at.
PROPERTIES = ("correlation_id", "reply_to", "priority", "body_encoding", "delivery_tag")
#: What Celery puts beside the arguments; a round has none of it.
EMBED = {"callbacks", "errbacks", "chain", "chord"}

#: A stranger's value as it is told: shallow, and short.
SHOWN = Repr()
SHOWN.maxstring = SHOWN.maxother = SHOWN_CHARACTERS = 80


class Malformed(ValueError):
    """The message is not one of a round; says why, in a few words whatever the message holds."""


def sifted(text: str | bytes, queue: str) -> dict[str, Any]:
    """The message as it may be passed on, in the envelope of kombu's virtual transports (Redis).

    Args:
        queue: that it came on. It goes back there, should the worker leave before it is played, whatever the message says.

    Raises:
        Malformed: it is not exactly a round's message.
    """
    if len(text) > MAX_BYTES:
        raise Malformed(f"{len(text)} bytes, at most {MAX_BYTES} are looked at")
    message = _json(text, "the message")
    _expect(isinstance(message, dict), "the message is not an object")
    properties = _properties(message.get("properties"), queue)
    body = message.get("body")
    headers = judge(message.get("content-type"), message.get("content-encoding"), message.get("headers"), _unwrapped(body))
    plain = {"content-type": "application/json", "content-encoding": "utf-8"}
    return {"body": body, **plain, "headers": headers, "properties": properties}


def stored_round(text: str, queue: str) -> tuple[str, int, int]:
    """The run, epoch and step of a message as a run's hash keeps it; raises Malformed where it is not exactly a round's message."""
    return round_of(base64.b64decode(sifted(text, queue)["body"]).decode())


def judge(content_type: Any, content_encoding: Any, headers: Any, body: Any) -> dict[str, Any]:
    """The headers as they may be passed on, of a message of any transport.

    Args:
        body: its text.

    Raises:
        Malformed: it is not exactly a round's message.
    """
    _expect(content_type == "application/json", "content type {}, expected application/json", content_type)
    _expect(content_encoding == "utf-8", "content encoding {}, expected utf-8", content_encoding)
    kept = _headers(headers)
    round_of(body)
    return kept


def round_of(body: Any) -> tuple[str, int, int]:
    """The run, epoch and step that the body of a message names; raises Malformed where it is not exactly a round's."""
    _expect(isinstance(body, str), "the body is not text in UTF-8")
    _expect(len(body) <= MAX_BYTES, "{} bytes of body, at most {} are looked at", len(body), MAX_BYTES)
    content = _json(body, "the body")
    _expect(isinstance(content, list) and len(content) == 3, "the body is not [args, kwargs, embed]")
    args, kwargs, embed = content
    _expect(isinstance(args, list) and len(args) == 3, "the arguments are not [run_id, epoch, step]")
    run_id, epoch, step = args
    _expect(isinstance(run_id, str) and RUN_ID.fullmatch(run_id) is not None, "the run id is not one")
    for name, value in (("epoch", epoch), ("step", step)):
        _expect(type(value) is int and 0 <= value < 2**53, "the {} is {}", name, value)
    _expect(kwargs == {}, "keyword arguments")
    _expect(isinstance(embed, dict) and set(embed) <= EMBED and not any(embed.values()), "callbacks, chains or chords")
    return run_id, epoch, step


def _headers(headers: Any) -> dict[str, Any]:
    _expect(isinstance(headers, dict), "no headers")
    for name in ("task", "id"):
        _expect(name in headers, "no header {}", name)
    for name, value in headers.items():
        kind = HEADERS.get(name)
        if kind is not None and not isinstance(value, kind):
            raise _malformed("header {} is {}", name, value)
        if kind is not None and isinstance(value, str) and len(value) > MAX_HEADER:
            raise _malformed("header {} is too long", name)
    _expect(headers["task"] in TASKS.values(), f"task {{}} is none of {ROUNDS}", headers["task"])
    _expect(0 < len(headers["id"]) <= 200, "header {} is empty or too long", "id")
    _expect(headers.get("retries", 0) == 0, "header {} is not 0", "retries")
    limits = headers.get("timelimit", [None, None])
    _expect(limits in ([None, None], None), "header {} is {}", "timelimit", limits)
    _expect(not headers.get("stamps") and not headers.get("stamped_headers"), "stamped")
    kept = {name: headers[name] for name in HEADERS if name in headers}
    kept |= {name: headers[name] for name in TRACING if isinstance(headers.get(name), str) and len(headers[name]) <= MAX_HEADER}
    return {**kept, "timelimit": [None, None]}


def _properties(properties: Any, queue: str) -> dict[str, Any]:
    _expect(isinstance(properties, dict), "no properties")
    _expect(properties.get("body_encoding") == "base64", "the body is not in base64")
    _expect(isinstance(properties.get("delivery_tag"), str), "no delivery tag")
    info = properties.get("delivery_info")
    _expect(isinstance(info, dict), "no delivery info")
    _expect(all(isinstance(info.get(name), str) for name in ("exchange", "routing_key")), "delivery info without exchange or routing key")
    _expect(type(properties.get("priority", 0)) is int, "the priority is not a number")
    for name in ("correlation_id", "reply_to"):
        _expect(isinstance(properties.get(name), str | None), "property {} is not a text", name)
    kept = {name: properties[name] for name in PROPERTIES if name in properties}
    return {**kept, "delivery_info": {"exchange": "", "routing_key": queue}}


def _unwrapped(body: Any) -> str:
    _expect(isinstance(body, str), "no body")
    try:
        return base64.b64decode(body, validate=True).decode()
    except ValueError as error:
        raise Malformed(f"the body is not base64 of UTF-8: {type(error).__name__}") from error


def _json(text: str | bytes, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"{what} is not JSON: {type(error).__name__}") from error


def _expect(holds: bool, why: str, *values: Any) -> None:
    """``values`` fill the braces; they are looked at only where it does not hold."""
    if not holds:
        raise _malformed(why, *values)


def _malformed(why: str, *values: Any) -> Malformed:
    """``values`` fill the braces, and are looked at to no great depth."""
    return Malformed(why.format(*(SHOWN.repr(value)[:SHOWN_CHARACTERS] for value in values)))
