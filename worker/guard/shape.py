"""Shape: a round's message with blanks for what differs from one to the next. Who has sifted one message of a shape knows the others.

To sift a message takes four times as long as to see that it has a known shape. What comes of it is the same: ``Shapes.sifted`` is
``sifted``, and what has no shape known here takes the long way.
"""

from __future__ import annotations

import itertools
import json
import re
from binascii import a2b_base64
from collections import Counter
from contextlib import suppress
from typing import Any

from worker.guard.sifting import MAX_BYTES, MAX_HEADER, RUN_ID, TRACING, sifted

#: So many messages of one queue are looked at for their shape, and no more: in a round and outside of one, and two to spare.
MOST = 4
#: Text in JSON that stands for itself, as nothing in it is escaped: any, and a task's id. What else there may be takes the long way.
PLAIN = f"[ -!#-\\[\\]-~]{{0,{MAX_HEADER}}}"
TASK_ID = "[ -!#-\\[\\]-~]{1,200}"
#: Where blanks are, beside the body. What is no text there is part of the shape.
BLANKS = {
    "headers": {"id", "root_id", "parent_id", "argsrepr", "origin", *TRACING},
    "properties": {"correlation_id", "reply_to", "delivery_tag"},
}
BODY = "[A-Za-z0-9+/]*={0,2}"
#: Numbers of so many digits are below 2**53.
NUMBER = "(0|[1-9][0-9]{0,14})"
CONTENT = re.compile(
    rf'\[\["({RUN_ID.pattern})", {NUMBER}, {NUMBER}\], {{}}, {{"callbacks": null, "errbacks": null, "chain": null, "chord": null}}\]'
)


class Shape:
    """The messages of one queue that differ in their blanks alone.

    Args:
        text: such a message.

    Raises:
        Malformed: it is not exactly a round's message.
        ValueError, re.error: it has no shape that is read as it is sifted.
    """

    def __init__(self, text: str, queue: str) -> None:
        self._queue, (self._headers, self._properties) = queue, _kept(text, queue)
        message = json.loads(text)
        #: The blanks of the headers and of the properties, in the order in which the text has them.
        self._names: list[list[str]] = []
        for part, blanks in BLANKS.items():
            self._names.append([name for name, value in message[part].items() if name in blanks and isinstance(value, str)])
            message[part] |= {name: f"<{name}>" for name in self._names[-1]}
        # A message whose blanks are all different.
        sample = json.dumps(message)
        pattern = re.escape(sample).replace(re.escape(f'"{message["body"]}"'), f'"({BODY})"')
        for name in itertools.chain(*self._names):
            pattern = pattern.replace(re.escape(f'"<{name}>"'), f'"({TASK_ID if name == "id" else PLAIN})"')
        self._pattern = re.compile(pattern)
        for each in (sample, text):
            read = self.read(each)
            if read is None or (read["headers"], read["properties"], read["body"]) != (*_kept(each, queue), message["body"]):
                raise ValueError("it is read as another than it is sifted")

    def read(self, text: str) -> dict[str, Any] | None:
        """What ``sifted`` makes of it, and as ``content`` what its body says; None where it is not of this shape."""
        found = self._pattern.fullmatch(text) if len(text) <= MAX_BYTES else None
        if found is None:
            return None
        body, *blanks = found.groups()
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
            "content": [[run_id, int(epoch), int(step)], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}],
        }


class Shapes:
    """The shapes that one process knows."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Shape, ...]] = {}
        self._looked_at: Counter[str] = Counter()

    def sifted(self, text: str | bytes, queue: str) -> dict[str, Any]:
        """As ``worker.guard.sifting.sifted``, and raises what that does. Where the shape is known, ``content`` is what the body says."""
        known = self._known.get(queue, ())
        plain = text if isinstance(text, str) else text.decode("ascii", "replace")  # other letters are in no shape
        for shape in known:
            message = shape.read(plain)
            if message is not None:
                if shape is not known[0]:  # the next is likely to be of the same
                    self._known[queue] = (shape, *(other for other in known if other is not shape))
                return message
        message = sifted(text, queue)
        if self._looked_at[queue] < MOST:
            self._looked_at[queue] += 1
            with suppress(ValueError, re.error):
                self._known[queue] = (Shape(plain, queue), *known)
        return message


def _kept(text: str, queue: str) -> tuple[dict[str, Any], dict[str, Any]]:
    message = sifted(text, queue)
    return message["headers"], message["properties"]
