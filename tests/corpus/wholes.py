"""Messages that are none as a whole, that lack parts, or whose parts are of another kind."""

from __future__ import annotations

import json
from typing import Any

from tests.corpus.entry import LIST, Entry
from tests.corpus.form import ABSENT


def _raw(data: bytes, why: str, amqp_why: str = "") -> dict[str, Entry]:
    """Return entries of raw data: the whole message on a list, the body of a good message on
    RabbitMQ.
    """
    return {
        "": Entry(lambda good: good.with_(raw=data), why, frozenset({LIST})),
        ", as a body": Entry(lambda good: good.with_(body=data), amqp_why or why),
    }


def envelopes() -> dict[str, Entry]:
    """Return data that is no message at all."""
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
        "a protocol-4 pickle": (
            b"\x80\x04\x95\x0e\0\0\0\0\0\0\0\x8c\x02os\x94\x8c\x06system\x94\x93\x94.",
            "not JSON|not base64|not text",
        ),
        "YAML that runs": (b"!!python/object/apply:os.system [true]", "not JSON"),
        "zlib": (b"x\x9cK\xcb\xcf\x07\0\x02\x82\x01E", "not JSON|not base64|not text"),
        "UTF-16": (
            '[["nobody", 0, 0], {}, {}]'.encode("utf-16"),
            "not an object|not JSON|not base64|not text",
        ),
        "a byte-order mark": (b"\xef\xbb\xbf[]", r"not JSON|not an object|not \[args"),
        "8 megabytes": (b"x" * 8_000_000, "at most 16384|not JSON"),
        "a megabyte of JSON": (json.dumps(["x" * 1_000_000]).encode(), "at most 16384"),
    }
    read = {
        "null": b"null",
        "true": b"true",
        "a number": b"7",
        "a text": b'"x"',
        "NaN": b"NaN",
        "an array": b"[]",
        "an object": b"{}",
    }
    whole |= {
        name: (data, r"not an object|no properties|not \[args") for name, data in read.items()
    }
    return {
        f"{name}{how}": entry
        for name, (data, why) in whole.items()
        for how, entry in _raw(data, why).items()
    }


def parts() -> dict[str, Entry]:
    """Return messages with parts that are missing or of a wrong kind."""
    lists = frozenset({LIST})
    odd: dict[str, Any] = {
        "null": None,
        "a number": 7,
        "a text": "x",
        "an array": [1],
        "a truth": True,
    }
    entries = {
        "no body": Entry(lambda good: good.with_(body=ABSENT), "no body", lists),
        "a body not in base64": Entry(lambda good: good.with_(body="!"), "not base64", lists),
        "a body of an object": Entry(lambda good: good.with_(body={"a": 1}), "no body|not \\[args"),
        "no content type": Entry(lambda good: good.with_(content_type=ABSENT), "content type None"),
        "no content encoding": Entry(
            lambda good: good.with_(content_encoding=ABSENT), "content encoding None"
        ),
        "no properties": Entry(lambda good: good.with_(properties=ABSENT), "no properties", lists),
        "no headers": Entry(lambda good: good.with_(headers=ABSENT), "no headers|no header"),
        "empty headers": Entry(lambda good: good.with_(headers={}), "no header"),
        "a body that says it is in hex": Entry(
            lambda good: good.with_properties(body_encoding="hex"), "base64", lists
        ),
        "a body that names no encoding": Entry(
            lambda good: good.without_properties("body_encoding"), "base64", lists
        ),
        "no delivery tag": Entry(
            lambda good: good.without_properties("delivery_tag"), "no delivery tag", lists
        ),
        "a delivery tag of an array": Entry(
            lambda good: good.with_properties(delivery_tag=[1]), "no delivery tag", lists
        ),
        "no delivery info": Entry(
            lambda good: good.without_properties("delivery_info"), "no delivery info", lists
        ),
        "empty delivery info": Entry(
            lambda good: good.with_properties(delivery_info={}), "without exchange", lists
        ),
        "a routing key of an object": Entry(
            lambda good: good.with_properties(delivery_info={"exchange": "", "routing_key": {}}),
            "without exchange",
            lists,
        ),
        "a priority of a text": Entry(
            lambda good: good.with_properties(priority="high"), "priority", lists
        ),
        "a priority of a fraction": Entry(
            lambda good: good.with_properties(priority=0.5), "priority", lists
        ),
        "a correlation id of an object": Entry(
            lambda good: good.with_properties(correlation_id={}), "correlation_id", lists
        ),
        "a reply queue of an array": Entry(
            lambda good: good.with_properties(reply_to=["x"]), "reply_to", lists
        ),
    }
    for kind, value in odd.items():
        entries[f"headers of {kind}"] = Entry(
            lambda good, value=value: good.with_(headers=value), "no headers", lists
        )
        entries[f"properties of {kind}"] = Entry(
            lambda good, value=value: good.with_(properties=value), "no properties", lists
        )
    return entries


def content_types() -> dict[str, Entry]:
    """Return messages with serializers and encodings that are not JSON in UTF-8."""
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
        **{
            f"content type {name!r}": Entry(
                lambda good, name=name: good.with_(content_type=name), "content type"
            )
            for name in types
        },
        **{
            f"content encoding {name!r}": Entry(
                lambda good, name=name: good.with_(content_encoding=name), "content encoding"
            )
            for name in encodings
        },
        "content type of a number": Entry(
            lambda good: good.with_(content_type=7), "content type", frozenset({LIST})
        ),
    }
