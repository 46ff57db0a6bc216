"""Form: a broker message in parts, for any transport, so that one corpus is sent over all."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import amqp

from perdure.worker.messaging.publisher import Publisher

#: A part that is not there at all.
ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "ABSENT"})()


@dataclass(frozen=True)
class Form:
    """A message.

    Attributes:
        body: the part that Celery reads: ``[args, kwargs, embed]`` as JSON.
        properties: kombu's envelope (body encoding, delivery tag, ...); RabbitMQ has no such thing.
        raw: the bytes that reach the broker, where they are no envelope at all.
        envelope: entries of the envelope beside the usual ones.
        table: RabbitMQ's table of headers, byte by byte, where no writer would write it.
    """

    body: Any
    content_type: Any = "application/json"
    content_encoding: Any = "utf-8"
    headers: Any = ABSENT
    properties: Any = ABSENT
    raw: bytes | None = None
    envelope: Mapping[str, Any] | None = None
    table: bytes | None = None

    @property
    def content(self) -> Any:
        """The body, read."""
        return json.loads(self.body)

    def with_(self, **changed: Any) -> Form:
        return replace(self, **changed)

    def with_headers(self, **changed: Any) -> Form:
        return replace(self, headers={**self.headers, **changed})

    def without_headers(self, *names: str) -> Form:
        return replace(
            self, headers={name: value for name, value in self.headers.items() if name not in names}
        )

    def with_properties(self, **changed: Any) -> Form:
        return replace(self, properties={**self.properties, **changed})

    def without_properties(self, *names: str) -> Form:
        return replace(
            self,
            properties={
                name: value for name, value in self.properties.items() if name not in names
            },
        )

    def with_args(self, *args: Any) -> Form:
        """Return a copy with other arguments.

        Values that JSON lacks are written as Python's json does.
        """
        return self.with_content(list(args), *self.content[1:])

    def with_content(self, *content: Any) -> Form:
        return replace(self, body=json.dumps(list(content)).encode())

    def listed(self) -> bytes:
        """Return the message as a broker's list entry (Redis)."""
        if self.raw is not None:
            return self.raw
        parts = {
            "body": self.listed_body(),
            "content-type": self.content_type,
            "content-encoding": self.content_encoding,
            "headers": self.headers,
            "properties": self.properties,
        }
        return json.dumps(
            {
                name: part
                for name, part in {**parts, **(self.envelope or {})}.items()
                if part is not ABSENT
            }
        ).encode()

    def listed_body(self) -> Any:
        """Return the body as the envelope holds it."""
        return base64.b64encode(self.body).decode() if isinstance(self.body, bytes) else self.body

    def published(self) -> amqp.Message:
        """Return the message for RabbitMQ."""
        body = (
            self.raw
            if self.raw is not None
            else self.body
            if isinstance(self.body, bytes)
            else json.dumps(self.body).encode()
        )
        if self.table is not None:
            return _Forged(body, self.table)
        named = {
            "content_type": self.content_type,
            "content_encoding": self.content_encoding,
            "application_headers": self.headers,
        }
        made = amqp.Message(
            body, **{name: part for name, part in named.items() if part is not ABSENT}
        )
        made.body = body  # as it is, whatever the encoding says
        return made


class _Forged(amqp.Message):  # type: ignore[misc]
    """A message with a hand-written table of headers, in bytes."""

    def __init__(self, body: bytes, table: bytes) -> None:
        super().__init__(body)
        self.table = table

    def _serialize_properties(self) -> bytes:
        return struct.pack(">HI", 0x2000, len(self.table)) + self.table


def form_of(text: str) -> Form:
    """Split a message that Celery built into its parts."""
    read = json.loads(text)
    return Form(
        base64.b64decode(read["body"]),
        read["content-type"],
        read["content-encoding"],
        read["headers"],
        read["properties"],
    )


def good(
    dispatcher: Publisher,
    run_id: str = "nobody",
    epoch: int = 0,
    step: int = 0,
    role: str = "controller",
) -> Form:
    """Return the message of a round."""
    return form_of(dispatcher.message(role, run_id, epoch, step).text)
