"""What a round's message looks like, exactly; anything else is refused before Celery sees it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

from worker.dispatch import TASKS

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
#: Headers of tracers, passed on where they are short texts.
TRACING = ("traceparent", "tracestate", "baggage", "sentry-trace")
#: What Celery puts beside the arguments; a round has none of it.
EMBED = {"callbacks", "errbacks", "chain", "chord"}


class Malformed(ValueError):
    """The message is not one of a round; says why."""


def sift(text: str | bytes) -> str:
    """The message as it may be passed on, in the envelope of kombu's virtual transports (Redis).

    Raises:
        Malformed: it is not exactly a round's message.
    """
    if len(text) > MAX_BYTES:
        raise Malformed(f"{len(text)} bytes, at most {MAX_BYTES} are looked at")
    message = _json(text, "the message")
    _expect(isinstance(message, dict), "the message is not an object")
    _properties(message.get("properties"))
    body = _unwrapped(message.get("body"))
    headers = judge(message.get("content-type"), message.get("content-encoding"), message.get("headers"), body)
    return json.dumps({**message, "headers": headers})


def judge(content_type: Any, content_encoding: Any, headers: Any, body: Any) -> dict[str, Any]:
    """The headers as they may be passed on, of a message of any transport.

    Args:
        body: its text.

    Raises:
        Malformed: it is not exactly a round's message.
    """
    _expect(content_type == "application/json", f"content type {content_type!r}, expected application/json")
    _expect(content_encoding == "utf-8", f"content encoding {content_encoding!r}, expected utf-8")
    kept = _headers(headers)
    _body(body)
    return kept


def _headers(headers: Any) -> dict[str, Any]:
    _expect(isinstance(headers, dict), "no headers")
    for name in ("task", "id"):
        _expect(name in headers, f"no header {name!r}")
    for name, kind in HEADERS.items():
        _expect(name not in headers or isinstance(headers[name], kind), f"header {name!r} is {headers.get(name)!r}")
    _expect(headers["task"] in TASKS.values(), f"task {headers['task']!r} is none of {', '.join(TASKS.values())}")
    _expect(0 < len(headers["id"]) <= 200, "header 'id' is empty or too long")
    _expect(headers.get("retries", 0) == 0, "header 'retries' is not 0")
    limits = headers.get("timelimit", [None, None])
    _expect(limits in ([None, None], None), f"header 'timelimit' is {limits!r}")
    _expect(not headers.get("stamps") and not headers.get("stamped_headers"), "stamped")
    kept = {name: headers[name] for name in HEADERS if name in headers}
    kept |= {name: headers[name] for name in TRACING if isinstance(headers.get(name), str) and len(headers[name]) <= 1024}
    return {**kept, "timelimit": [None, None]}


def _properties(properties: Any) -> None:
    _expect(isinstance(properties, dict), "no properties")
    _expect(properties.get("body_encoding") == "base64", "the body is not in base64")
    _expect(isinstance(properties.get("delivery_tag"), str), "no delivery tag")
    info = properties.get("delivery_info")
    _expect(isinstance(info, dict), "no delivery info")
    _expect(all(isinstance(info.get(name), str) for name in ("exchange", "routing_key")), "delivery info without exchange or routing key")
    _expect(type(properties.get("priority", 0)) is int, "the priority is not a number")
    for name in ("correlation_id", "reply_to"):
        _expect(isinstance(properties.get(name), str | None), f"property {name!r} is not a text")


def _unwrapped(body: Any) -> str:
    _expect(isinstance(body, str), "no body")
    try:
        return base64.b64decode(body, validate=True).decode()
    except ValueError as error:
        raise Malformed(f"the body is not base64 of UTF-8: {error}") from error


def _body(body: Any) -> None:
    _expect(isinstance(body, str), "the body is not text in UTF-8")
    _expect(len(body) <= MAX_BYTES, f"{len(body)} bytes of body, at most {MAX_BYTES} are looked at")
    content = _json(body, "the body")
    _expect(isinstance(content, list) and len(content) == 3, "the body is not [args, kwargs, embed]")
    args, kwargs, embed = content
    _expect(isinstance(args, list) and len(args) == 3, "the arguments are not [run_id, epoch, step]")
    run_id, epoch, step = args
    _expect(isinstance(run_id, str) and RUN_ID.fullmatch(run_id) is not None, "the run id is not one")
    for name, value in (("epoch", epoch), ("step", step)):
        _expect(type(value) is int and 0 <= value < 2**53, f"the {name} is {value!r}")
    _expect(kwargs == {}, "keyword arguments")
    _expect(isinstance(embed, dict) and set(embed) <= EMBED and not any(embed.values()), "callbacks, chains or chords")


def _json(text: str | bytes, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"{what} is not JSON: {type(error).__name__}") from error


def _expect(holds: bool, why: str) -> None:
    if not holds:
        raise Malformed(why)
