"""The corpus: messages that are none of a round, each for a reason of its own, and what must become of each.

An entry makes its message from a good one. ``why`` is what the dead letter says of it; without, the message has the form of
a round's, and is let through: then it names no round that is due, and changes nothing.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from tests.corpus.form import ABSENT, Form

#: The transports an entry can be sent over: lists of a Redis, queues of RabbitMQ.
LIST, AMQP = "list", "amqp"
BOTH = frozenset({LIST, AMQP})
#: Nesting that the reader of tables still takes, and that the reader of JSON no longer does.
NESTED = 1500


@dataclass(frozen=True)
class Entry:
    """One message of the corpus.

    Attributes:
        make: it, from a good one of no run in particular.
        why: a part of what is said of it (a regular expression); None where it is let through.
        on: the transports that can carry it.
    """

    make: Callable[[Form], Form]
    why: str | None = None
    on: frozenset[str] = BOTH


def _deep(depth: int) -> Any:
    found: Any = 1
    for _ in range(depth):
        found = [found]
    return found


def _table(depth: int) -> bytes:
    """A table in a table in a table, as RabbitMQ's clients write it."""
    content = b""
    for _ in range(depth):
        content = b"\1a" + b"F" + struct.pack(">I", len(content)) + content
    return content


def _raw(data: bytes, why: str, amqp_why: str = "") -> dict[str, Entry]:
    """On a list it is the whole message, on RabbitMQ the body of a good one."""
    return {
        "": Entry(lambda good: good.with_(raw=data), why, frozenset({LIST})),
        ", as a body": Entry(lambda good: good.with_(body=data), amqp_why or why),
    }


def _envelopes() -> dict[str, Entry]:
    """What is no message at all."""
    whole = {
        "empty": (b"", "not JSON"),
        "white space": (b" \n\t ", "not JSON"),
        "zeros": (b"\0" * 64, "not JSON"),
        "half a brace": (b"{", "not JSON"),
        "not UTF-8": (b"\xff\xfe\xfd", "not JSON|not base64 of UTF-8|not text"),
        "a lone quote": (b'"', "not JSON"),
        "deep brackets": (b"[" * 5000, "not JSON"),
        "deep braces": (b'{"a":' * 1500, "not JSON"),
        "a number of 5,000 digits": (b"9" * 5000, "not JSON"),
        "a pickle": (b"cos\nsystem\n(S'true'\ntR.", "not JSON"),
        "a protocol-4 pickle": (b"\x80\x04\x95\x0e\0\0\0\0\0\0\0\x8c\x02os\x94\x8c\x06system\x94\x93\x94.", "not JSON|not base64|not text"),
        "YAML that runs": (b"!!python/object/apply:os.system [true]", "not JSON"),
        "zlib": (b"x\x9cK\xcb\xcf\x07\0\x02\x82\x01E", "not JSON|not base64|not text"),
        "UTF-16": ('[["nobody", 0, 0], {}, {}]'.encode("utf-16"), "not an object|not JSON|not base64|not text"),
        "a byte-order mark": (b"\xef\xbb\xbf[]", r"not JSON|not an object|not \[args"),
        "8 megabytes": (b"x" * 8_000_000, "at most 16384|not JSON"),
        "a megabyte of JSON": (json.dumps(["x" * 1_000_000]).encode(), "at most 16384"),
    }
    read = {"null": b"null", "true": b"true", "a number": b"7", "a text": b'"x"', "NaN": b"NaN", "an array": b"[]", "an object": b"{}"}
    whole |= {name: (data, r"not an object|no properties|not \[args") for name, data in read.items()}
    return {f"{name}{how}": entry for name, (data, why) in whole.items() for how, entry in _raw(data, why).items()}


def _parts() -> dict[str, Entry]:
    """Parts that are missing, or are of another kind than they should be."""
    lists = frozenset({LIST})
    odd: dict[str, Any] = {"null": None, "a number": 7, "a text": "x", "an array": [1], "a truth": True}
    entries = {
        "no body": Entry(lambda good: good.with_(body=ABSENT), "no body", lists),
        "a body not in base64": Entry(lambda good: good.with_(body="!"), "not base64", lists),
        "a body of an object": Entry(lambda good: good.with_(body={"a": 1}), "no body|not \\[args"),
        "no content type": Entry(lambda good: good.with_(content_type=ABSENT), "content type None"),
        "no content encoding": Entry(lambda good: good.with_(content_encoding=ABSENT), "content encoding None"),
        "no properties": Entry(lambda good: good.with_(properties=ABSENT), "no properties", lists),
        "no headers": Entry(lambda good: good.with_(headers=ABSENT), "no headers|no header"),
        "empty headers": Entry(lambda good: good.with_(headers={}), "no header"),
        "a body that says it is in hex": Entry(lambda good: good.with_properties(body_encoding="hex"), "base64", lists),
        "a body that names no encoding": Entry(lambda good: good.without_properties("body_encoding"), "base64", lists),
        "no delivery tag": Entry(lambda good: good.without_properties("delivery_tag"), "no delivery tag", lists),
        "a delivery tag of an array": Entry(lambda good: good.with_properties(delivery_tag=[1]), "no delivery tag", lists),
        "no delivery info": Entry(lambda good: good.without_properties("delivery_info"), "no delivery info", lists),
        "empty delivery info": Entry(lambda good: good.with_properties(delivery_info={}), "without exchange", lists),
        "a routing key of an object": Entry(
            lambda good: good.with_properties(delivery_info={"exchange": "", "routing_key": {}}), "without exchange", lists
        ),
        "a priority of a text": Entry(lambda good: good.with_properties(priority="high"), "priority", lists),
        "a priority of a fraction": Entry(lambda good: good.with_properties(priority=0.5), "priority", lists),
        "a correlation id of an object": Entry(lambda good: good.with_properties(correlation_id={}), "correlation_id", lists),
        "a reply queue of an array": Entry(lambda good: good.with_properties(reply_to=["x"]), "reply_to", lists),
    }
    for kind, value in odd.items():
        entries[f"headers of {kind}"] = Entry(lambda good, value=value: good.with_(headers=value), "no headers", lists)
        entries[f"properties of {kind}"] = Entry(lambda good, value=value: good.with_(properties=value), "no properties", lists)
    return entries


def _content_types() -> dict[str, Entry]:
    """Serializers and encodings that are not JSON in UTF-8."""
    types = (
        "application/x-python-serialize",
        "application/x-yaml",
        "application/x-msgpack",
        "application/data",
        "text/plain",
        "application/json; charset=utf-16",
        "",
    )
    encodings = ("binary", "utf-16", "us-ascii", "rot13", "zlib", "")
    return {
        **{f"content type {name!r}": Entry(lambda good, name=name: good.with_(content_type=name), "content type") for name in types},
        **{
            f"content encoding {name!r}": Entry(lambda good, name=name: good.with_(content_encoding=name), "content encoding")
            for name in encodings
        },
        "content type of a number": Entry(lambda good: good.with_(content_type=7), "content type", frozenset({LIST})),
    }


def _headers() -> dict[str, Entry]:
    """Headers that are missing, and values that Celery would choke on or obey."""
    unwanted: dict[str, tuple[dict[str, Any], str]] = {
        "task of a number": ({"task": 1}, "'task'"),
        "task of an object": ({"task": {"a": 1}}, "'task'"),
        "task null": ({"task": None}, "'task'"),
        "id null": ({"id": None}, "'id'"),
        "id empty": ({"id": ""}, "'id'"),
        "id endless": ({"id": "x" * 5000}, "'id'"),
        "id of an array": ({"id": [1]}, "'id'"),
        "eta a text": ({"eta": "tomorrow"}, "'eta'"),
        "eta far off": ({"eta": "9999-12-31T23:59:59"}, "'eta'"),
        "eta of a number": ({"eta": 1e300}, "'eta'"),
        "expires past": ({"expires": "2000-01-01T00:00:00"}, "'expires'"),
        "retries a text": ({"retries": "many"}, "'retries'"),
        "retries a fraction": ({"retries": 1.5}, "'retries'"),
        "retries huge": ({"retries": 2**62}, "'retries'"),
        "retries negative": ({"retries": -1}, "'retries'"),
        "a time limit": ({"timelimit": [0.001, 0.001]}, "'timelimit'"),
        "a time limit of a text": ({"timelimit": "soon"}, "'timelimit'"),
        "a time limit of one": ({"timelimit": [1]}, "'timelimit'"),
        "a group": ({"group": "g", "group_index": 1}, "'group'"),
        "a shadow": ({"shadow": "another.name"}, "'shadow'"),
        "stamps": ({"stamps": {"a": [1]}, "stamped_headers": ["a"]}, "stamped"),
        "stamped headers of a text": ({"stamped_headers": "abc"}, "stamped"),
        "language of a number": ({"lang": 7}, "'lang'"),
        "root of an object": ({"root_id": {}}, "'root_id'"),
        "parent of an array": ({"parent_id": [1]}, "'parent_id'"),
        "arguments told at length": ({"argsrepr": "x" * 9000}, "'argsrepr'"),
        "result ignored as a text": ({"ignore_result": "no"}, "'ignore_result'"),
        "nesting of a text": ({"replaced_task_nesting": "x"}, "'replaced_task_nesting'"),
        "a task nested deep": ({"task": _deep(100)}, "'task'"),
    }
    entries = {name: Entry(lambda good, changed=changed: good.with_headers(**changed), why) for name, (changed, why) in unwanted.items()}
    for names in (("id",), ("task",), ("task", "id")):
        entries[f"no header {' nor '.join(names)}"] = Entry(lambda good, names=names: good.without_headers(*names), "no header")
    # Where the reader of JSON gives up, and where what it read can no longer be shown: nobody knows where in between a worker is.
    for depth in range(880, 1000, 5):
        entries[f"a task nested {depth} deep"] = Entry(
            lambda good, depth=depth: good.with_(
                raw=good.with_headers(task="HERE").listed().replace(b'"HERE"', b"[" * depth + b"]" * depth)
            ),
            "'task'|not JSON",
            frozenset({LIST}),
        )
    return entries


def _tasks() -> dict[str, Entry]:
    """Tasks that are not a round: unknown ones, Celery's own, and the messages by which workers are controlled."""
    builtin = ("accumulate", "backend_cleanup", "chain", "chord", "chord_unlock", "chunks", "group", "map", "starmap")
    names = [*(f"celery.{name}" for name in builtin), "os.system", "holdfast.controller", "holdfast.controller_round ", ""]
    entries = {f"task {name!r}": Entry(lambda good, name=name: good.with_headers(task=name), "task '") for name in names}
    embed = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
    signature = {"task": "celery.backend_cleanup", "args": [], "kwargs": {}, "options": {}, "subtask_type": None}
    for name in ("callbacks", "errbacks", "chain"):
        entries[f"{name} of Celery's"] = Entry(
            lambda good, name=name: good.with_content(good.content[0], {}, {**embed, name: [signature]}), "callbacks"
        )
    control = {"method": "shutdown", "arguments": {}, "destination": None, "pattern": None, "matcher": None}
    return {
        **entries,
        "a chord of Celery's": Entry(lambda good: good.with_content(good.content[0], {}, {**embed, "chord": signature}), "callbacks"),
        "an embedding of its own": Entry(lambda good: good.with_content(good.content[0], {}, {**embed, "mine": 1}), "callbacks"),
        "a broadcast": Entry(lambda good: good.with_(body=json.dumps(control).encode(), headers={}), "no header"),
        "a broadcast with a round's headers": Entry(lambda good: good.with_(body=json.dumps(control).encode()), r"not \[args"),
        "an event": Entry(lambda good: good.with_(body=b'{"type": "worker-offline", "hostname": "x"}'), r"not \[args"),
        "protocol 1": Entry(
            lambda good: good.with_(
                body=json.dumps({"task": "holdfast.controller_round", "id": "x", "args": ["nobody", 0, 0], "kwargs": {}}).encode(),
                headers={},
            ),
            "no header",
        ),
        "protocol 1 with the headers of 2": Entry(
            lambda good: good.with_(body=json.dumps({"task": "os.system", "id": "x", "args": [], "kwargs": {}}).encode()), r"not \[args"
        ),
    }


def _arguments() -> dict[str, Entry]:
    """Arguments that are not a run, an epoch and a step."""
    unwanted: dict[str, tuple[tuple[Any, ...], str]] = {
        "no arguments": ((), "arguments"),
        "too few arguments": (("nobody",), "arguments"),
        "too many arguments": (("nobody", 0, 0, 1), "arguments"),
        "a run id of an array": (([], 0, 0), "run id"),
        "a run id of a number": ((7, 0, 0), "run id"),
        "an empty run id": (("", 0, 0), "run id"),
        "a run id of 300 letters": (("x" * 300, 0, 0), "run id"),
        "a run id with a line end": (("nobody\n", 0, 0), "run id"),
        "a run id with a path": (("../../etc/passwd", 0, 0), "run id"),
        "a run id with a pattern": (("*", 0, 0), "run id"),
        "a run id with a zero": (("no\0body", 0, 0), "run id"),
        "an epoch of a text": (("nobody", "0", 0), "epoch"),
        "an epoch of a truth": (("nobody", True, 0), "epoch"),
        "an epoch null": (("nobody", None, 0), "epoch"),
        "a step of a fraction": (("nobody", 0, 0.5), "step"),
        "a step below zero": (("nobody", 0, -1), "step"),
        "a step beyond counting": (("nobody", 0, 2**53), "step"),
        "a step of 400 digits": (("nobody", 0, 10**400), "step"),
        "a step not a number": (("nobody", 0, float("nan")), "step"),
        "a step endless": (("nobody", 0, float("inf")), "step"),
    }
    entries = {name: Entry(lambda good, args=args: good.with_args(*args), why) for name, (args, why) in unwanted.items()}
    return {
        **entries,
        "keyword arguments": Entry(lambda good: good.with_content(good.content[0], {"x": 1}, good.content[2]), "keyword"),
        "keyword arguments of an array": Entry(lambda good: good.with_content(good.content[0], [], good.content[2]), "keyword"),
        "arguments of an object": Entry(lambda good: good.with_content({"run_id": "nobody"}, {}, good.content[2]), "arguments"),
        "no embedding": Entry(lambda good: good.with_content(good.content[0], {}), r"not \[args"),
        "an embedding null": Entry(lambda good: good.with_content(good.content[0], {}, None), "callbacks"),
    }


def _tables() -> dict[str, Entry]:
    """What only RabbitMQ's tables can say."""
    tables = frozenset({AMQP})
    values: dict[str, tuple[dict[str, Any], str]] = {
        "id of bytes that are no text": ({"id": b"\xff\xfe"}, "'id'"),
        "eta a timestamp": ({"eta": datetime(2030, 1, 1, tzinfo=UTC)}, "'eta'"),
        "expires a decimal": ({"expires": Decimal("1.5")}, "'expires'"),
    }
    entries = {
        name: Entry(lambda good, changed=changed: good.with_headers(**changed), why, tables) for name, (changed, why) in values.items()
    }
    forged = {  # RabbitMQ passes these on; what it cannot read itself (an unknown kind of value, a false length) it refuses
        "table deep": _table(NESTED),
        "timestamp beyond the years": b"\1aT" + struct.pack(">Q", 2**63),
    }
    return {**entries, **{name: Entry(lambda good, table=table: good.with_(table=table), "", tables) for name, table in forged.items()}}


def _hints() -> dict[str, Entry]:
    """Messages in a round's form that name nothing which is due."""
    return {
        "no such run": Entry(lambda good: good),
        "no such run, far on": Entry(lambda good: good.with_args("nobody", 2**53 - 1, 2**53 - 1)),
        "a header that nobody knows": Entry(lambda good: good.with_headers(made_up=[1, 2], __class__="x")),
        "a compression that it has not": Entry(lambda good: good.with_headers(compression="zlib")),
        "half a surrogate": Entry(lambda good: good.with_headers(origin="\ud800", argsrepr="\udfff"), on=frozenset({LIST})),
        "control characters": Entry(lambda good: good.with_headers(origin="\x1b[2J\0\r\n", argsrepr="%s %(x)d {}")),
        "a reply queue": Entry(lambda good: good.with_properties(reply_to="evil").with_headers(ignore_result=False)),
        "a priority beyond counting": Entry(lambda good: good.with_properties(priority=10**300), on=frozenset({LIST})),
        "a delivery info of another place": Entry(
            lambda good: good.with_properties(delivery_info={"exchange": "evil", "routing_key": "evil"}), on=frozenset({LIST})
        ),
        "parts that nobody knows": Entry(lambda good: good.with_(envelope={"redelivered": [1], "x": {"y": 1}}), on=frozenset({LIST})),
        "properties that nobody knows": Entry(lambda good: good.with_properties(expiration="0", x_death=[{}]), on=frozenset({LIST})),
    }


#: All of them, by name.
MESSAGES: dict[str, Entry] = {
    **_envelopes(),
    **_parts(),
    **_content_types(),
    **_headers(),
    **_tasks(),
    **_arguments(),
    **_tables(),
    **_hints(),
}


def carried_by(transport: str) -> dict[str, Entry]:
    """Those that this transport can carry."""
    return {name: entry for name, entry in MESSAGES.items() if transport in entry.on}
