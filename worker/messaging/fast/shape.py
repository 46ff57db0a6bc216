"""The shape of a round's message: a regular expression that validates and parses a message at once.

Replaces: ``perdure.worker.messaging.message.validate`` for messages of a known shape.
``Shapes.validate`` returns the same. A message of no known shape is validated by the plain
function.

Worth: validation takes four times as long as matching a shape. The worker's instructions outside a
round fell from 741,000 to 451,000 (callgrind,
docs/internals/decisions/0025-a-message-of-a-known-form.md).

Switch off: the setting ``fetch`` (``PERDURE_FETCH=false``).

``private_parts.messages.DecodedMessage`` passes the parsed body on to Celery.
"""

from __future__ import annotations

import itertools
import json
import re
from binascii import a2b_base64
from collections import Counter
from contextlib import suppress
from typing import Any

from perdure.worker.ids import RUN_ID
from perdure.worker.messaging.message import MAX_BYTES, MAX_HEADER, TRACING, validate

#: Maximum messages of one queue to learn shapes from. One message sent inside a round and one sent
#: outside suffice. Two are spare.
MOST = 4
#: A JSON text in which nothing is escaped: any header, and a task's id. Other texts are validated
#: by the plain function.
PLAIN = f"[ -!#-\\[\\]-~]{{0,{MAX_HEADER}}}"
TASK_ID = "[ -!#-\\[\\]-~]{1,200}"
#: Fields that may differ, beside the body. A value that is no text is part of the shape.
BLANKS = {
    "headers": {"id", "root_id", "parent_id", "argsrepr", "origin", *TRACING},
    "properties": {"correlation_id", "reply_to", "delivery_tag"},
}
BODY = "[A-Za-z0-9+/]*={0,2}"
#: Numbers of at most 15 digits are below 2**53.
NUMBER = "(0|[1-9][0-9]{0,14})"
CONTENT = re.compile(
    rf'\[\["({RUN_ID.pattern})", {NUMBER}, {NUMBER}\], {{}}, '
    r'{"callbacks": null, "errbacks": null, "chain": null, "chord": null}\]'
)


class Shape:
    """The common form of a queue's messages that differ only in ``BLANKS`` and the body.

    Args:
        text: One of these messages.
        queue: The queue of the messages.

    Raises:
        InvalidMessage: ``text`` is not exactly a round's message.
        ValueError, re.error: The regular expression made from ``text`` would not return the same as
            validation.
    """

    def __init__(self, text: str, queue: str) -> None:
        self._queue, (self._headers, self._properties) = queue, _validated_parts(text, queue)
        message = json.loads(text)
        #: The blanks of the headers and of the properties, in the order of the text.
        self._names: list[list[str]] = []
        for part, blanks in BLANKS.items():
            self._names.append(
                [
                    name
                    for name, value in message[part].items()
                    if name in blanks and isinstance(value, str)
                ]
            )
            message[part] |= {name: f"<{name}>" for name in self._names[-1]}
        # A message whose blanks all differ.
        sample = json.dumps(message)
        pattern = re.escape(sample).replace(re.escape(f'"{message["body"]}"'), f'"({BODY})"')
        for name in itertools.chain(*self._names):
            pattern = pattern.replace(
                re.escape(f'"<{name}>"'), f'"({TASK_ID if name == "id" else PLAIN})"'
            )
        self._pattern = re.compile(pattern)
        for each in (sample, text):
            read = self.read(each)
            if read is None or (read["headers"], read["properties"], read["body"]) != (
                *_validated_parts(each, queue),
                message["body"],
            ):
                raise ValueError("the shape reads the message in another way than validation does")

    def read(self, text: str) -> dict[str, Any] | None:
        """Validate and parse a message of this shape, both with the regular expression.

        Returns:
            The result of ``validate``, with the decoded body as ``content``. None if the message
            does not have this shape.
        """
        match = self._pattern.fullmatch(text) if len(text) <= MAX_BYTES else None
        if match is None:
            return None
        body, *blanks = match.groups()
        try:
            content = CONTENT.fullmatch(a2b_base64(body, strict_mode=True).decode())
        except ValueError:
            return None
        if content is None:
            return None
        run_id, epoch, step = content.groups()
        of_headers, of_properties = self._names
        headers, properties = self._headers.copy(), self._properties.copy()
        headers.update(zip(of_headers, blanks[: len(of_headers)], strict=True))
        headers["timelimit"] = [None, None]
        properties.update(zip(of_properties, blanks[len(of_headers) :], strict=True))
        properties["delivery_info"] = {"exchange": "", "routing_key": self._queue}
        return {
            "body": body,
            "content-type": "application/json",
            "content-encoding": "utf-8",
            "headers": headers,
            "properties": properties,
            "content": [
                [run_id, int(epoch), int(step)],
                {},
                {"callbacks": None, "errbacks": None, "chain": None, "chord": None},
            ],
        }


class Shapes:
    """The shapes that one process has learned from the messages of its queues."""

    def __init__(self) -> None:
        self._shapes: dict[str, tuple[Shape, ...]] = {}
        self._learned_from: Counter[str] = Counter()

    def validate(self, text: str | bytes, queue: str) -> dict[str, Any]:
        """Validate a message, by its shape if possible.

        If a learned shape matches, its regular expression validates the message. The result is that
        of ``perdure.worker.messaging.message.validate``. But a message of a known shape also has
        its decoded body as ``content``.

        Raises:
            InvalidMessage: ``text`` is not exactly a round's message.
        """
        shapes = self._shapes.get(queue, ())
        # A character beyond ASCII is in no shape.
        plain = text if isinstance(text, str) else text.decode("ascii", "replace")
        for shape in shapes:
            message = shape.read(plain)
            if message is not None:
                if shape is not shapes[0]:  # the next message probably has the same shape
                    self._shapes[queue] = (
                        shape,
                        *(other for other in shapes if other is not shape),
                    )
                return message
        message = validate(text, queue)
        if self._learned_from[queue] < MOST:
            self._learned_from[queue] += 1
            with suppress(ValueError, re.error):
                self._shapes[queue] = (Shape(plain, queue), *shapes)
        return message


def _validated_parts(text: str, queue: str) -> tuple[dict[str, Any], dict[str, Any]]:
    message = validate(text, queue)
    return message["headers"], message["properties"]
