"""Messages that are whole, and whose headers, task or arguments are none of a round."""

from __future__ import annotations

import json
import struct
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from tests.corpus.entry import AMQP, LIST, Entry

#: Nesting that the reader of tables still takes, and that the reader of JSON no longer does.
NESTED = 1500


def _deep(depth: int) -> Any:
    found: Any = 1
    for _ in range(depth):
        found = [found]
    return found


def _table(depth: int) -> bytes:
    """Return nested tables, as RabbitMQ's clients write them."""
    content = b""
    for _ in range(depth):
        content = b"\1a" + b"F" + struct.pack(">I", len(content)) + content
    return content


def headers() -> dict[str, Entry]:
    """Return cases with missing headers, and with values that Celery would choke on or obey."""
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
    entries = {
        name: Entry(lambda good, changed=changed: good.with_headers(**changed), why)
        for name, (changed, why) in unwanted.items()
    }
    for names in (("id",), ("task",), ("task", "id")):
        entries[f"no header {' nor '.join(names)}"] = Entry(
            lambda good, names=names: good.without_headers(*names), "no header"
        )
    # At one depth the JSON reader gives up, at another its value can no longer be shown. The depth
    # of a worker's stack in between is unknown.
    for depth in range(880, 1000, 5):
        entries[f"a task nested {depth} deep"] = Entry(
            lambda good, depth=depth: good.with_(
                raw=good.with_headers(task="HERE")
                .listed()
                .replace(b'"HERE"', b"[" * depth + b"]" * depth)
            ),
            "'task'|not JSON",
            frozenset({LIST}),
        )
    return entries


def tasks() -> dict[str, Entry]:
    """Return tasks that are not a round: unknown ones, Celery's, and remote control of workers."""
    builtin = (
        "accumulate",
        "backend_cleanup",
        "chain",
        "chord",
        "chord_unlock",
        "chunks",
        "group",
        "map",
        "starmap",
    )
    names = [
        *(f"celery.{name}" for name in builtin),
        "os.system",
        "perdure.controller",
        "perdure.controller_round ",
        "",
    ]
    entries = {
        f"task {name!r}": Entry(lambda good, name=name: good.with_headers(task=name), "task '")
        for name in names
    }
    embed = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
    signature = {
        "task": "celery.backend_cleanup",
        "args": [],
        "kwargs": {},
        "options": {},
        "subtask_type": None,
    }
    for name in ("callbacks", "errbacks", "chain"):
        entries[f"{name} of Celery's"] = Entry(
            lambda good, name=name: good.with_content(
                good.content[0], {}, {**embed, name: [signature]}
            ),
            "callbacks",
        )
    control = {
        "method": "shutdown",
        "arguments": {},
        "destination": None,
        "pattern": None,
        "matcher": None,
    }
    return {
        **entries,
        "a chord of Celery's": Entry(
            lambda good: good.with_content(good.content[0], {}, {**embed, "chord": signature}),
            "callbacks",
        ),
        "an embedding of its own": Entry(
            lambda good: good.with_content(good.content[0], {}, {**embed, "mine": 1}), "callbacks"
        ),
        "a broadcast": Entry(
            lambda good: good.with_(body=json.dumps(control).encode(), headers={}), "no header"
        ),
        "a broadcast with a round's headers": Entry(
            lambda good: good.with_(body=json.dumps(control).encode()), r"not \[args"
        ),
        "an event": Entry(
            lambda good: good.with_(body=b'{"type": "worker-offline", "hostname": "x"}'),
            r"not \[args",
        ),
        "protocol 1": Entry(
            lambda good: good.with_(
                body=json.dumps(
                    {
                        "task": "perdure.controller_round",
                        "id": "x",
                        "args": ["nobody", 0, 0],
                        "kwargs": {},
                    }
                ).encode(),
                headers={},
            ),
            "no header",
        ),
        "protocol 1 with the headers of 2": Entry(
            lambda good: good.with_(
                body=json.dumps({"task": "os.system", "id": "x", "args": [], "kwargs": {}}).encode()
            ),
            r"not \[args",
        ),
    }


def arguments() -> dict[str, Entry]:
    """Return arguments that are not a run, an epoch and a step."""
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
    entries = {
        name: Entry(lambda good, args=args: good.with_args(*args), why)
        for name, (args, why) in unwanted.items()
    }
    return {
        **entries,
        "keyword arguments": Entry(
            lambda good: good.with_content(good.content[0], {"x": 1}, good.content[2]), "keyword"
        ),
        "keyword arguments of an array": Entry(
            lambda good: good.with_content(good.content[0], [], good.content[2]), "keyword"
        ),
        "arguments of an object": Entry(
            lambda good: good.with_content({"run_id": "nobody"}, {}, good.content[2]), "arguments"
        ),
        "no embedding": Entry(lambda good: good.with_content(good.content[0], {}), r"not \[args"),
        "an embedding null": Entry(
            lambda good: good.with_content(good.content[0], {}, None), "callbacks"
        ),
    }


def tables() -> dict[str, Entry]:
    """Return values that only RabbitMQ's tables can express."""
    tables = frozenset({AMQP})
    values: dict[str, tuple[dict[str, Any], str]] = {
        "id of bytes that are no text": ({"id": b"\xff\xfe"}, "'id'"),
        "eta a timestamp": ({"eta": datetime(2030, 1, 1, tzinfo=UTC)}, "'eta'"),
        "expires a decimal": ({"expires": Decimal("1.5")}, "'expires'"),
    }
    entries = {
        name: Entry(lambda good, changed=changed: good.with_headers(**changed), why, tables)
        for name, (changed, why) in values.items()
    }
    forged = {  # RabbitMQ passes these on; it refuses unreadable ones
        "table deep": _table(NESTED),
        "timestamp beyond the years": b"\1aT" + struct.pack(">Q", 2**63),
    }
    return {
        **entries,
        **{
            name: Entry(lambda good, table=table: good.with_(table=table), "", tables)
            for name, table in forged.items()
        },
    }
