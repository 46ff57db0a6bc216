"""Template: a round's message as Celery builds it, with blanks for what differs from one message to the next.

Celery takes many times as long for a message as it takes to fill in a template. What is filled in is, byte for byte, what Celery
would have built with the same ids: three samples that Celery built have to agree with it, else there is no template.
"""

from __future__ import annotations

import json
import logging
import re
from base64 import b64decode
from binascii import b2a_base64
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

from kombu.utils.json import dumps

from worker.carrier import Sender
from worker.guard.sifting import Malformed, sifted
from worker.ids import new_digits

logger = logging.getLogger("holdfast.dispatch")

#: Run id, epoch and step.
Round = tuple[str, int, int]
#: The shortest that a round's arguments can be, the longest, and some between.
SAMPLES: tuple[Round, ...] = (("a", 0, 0), ("Second.sample_of-3:@", 1, 20), ("z" * 200, 2**53 - 1, 2**53 - 2))
#: Where the blanks are, beside the body.
BLANKS = {
    ("headers", "id"): "id",
    ("headers", "root_id"): "root",
    ("headers", "parent_id"): "parent",
    ("headers", "argsrepr"): "argsrepr",
    ("properties", "correlation_id"): "id",
    ("properties", "delivery_tag"): "tag",
    ("properties", "reply_to"): "reply_to",
}


class Template:
    """The messages of one task for one queue, sent by this process.

    Args:
        text: such a message, as Celery built it.
        args: those of that message.
        queue: the one that it is for.

    Raises:
        LookupError, TypeError, ValueError: it is not of the form that is known here.
    """

    def __init__(self, text: str, args: Round, queue: str) -> None:
        self._queue, self._sifted = queue, _sifted(text, queue)
        message = json.loads(text)
        content = b64decode(message["body"]).decode()
        self._embed = json.loads(content)[2]
        self._content = _with_blanks(content, {json.dumps(args): '["%s", %s, %s]'})
        message["body"] = "<body>"
        for (part, key), name in BLANKS.items():
            message[part][key] = f"<{name}>"
        #: What never changes, and between each two of these the name of what is filled in.
        self._pieces = re.split('"<({})>"'.format("|".join({"body", *BLANKS.values()})), dumps(message))
        self._filled = itemgetter(*self._pieces[1::2])

    def fill(self, args: Round, sender: Sender, task_id: str, tag: str) -> str:
        """The message of this round.

        Args:
            args: the run id is one that a run can have; neither JSON nor ``repr`` escapes any of it.
            task_id: what Celery is to call the task.
            tag: what kombu is to call the delivery.
        """
        named = f'"{task_id}"'
        pieces = self._pieces.copy()
        pieces[1::2] = self._filled(
            {
                "body": f'"{b2a_base64(self._body(args), newline=False).decode()}"',
                "id": named,
                "root": _written(sender.root) if sender.root else named,
                "parent": "null" if sender.parent is None else _written(sender.parent),
                "argsrepr": f'"{args}"',
                "tag": f'"{tag}"',
                "reply_to": f'"{sender.reply_to}"',
            }
        )
        return "".join(pieces)

    def read(self, args: Round, sender: Sender, task_id: str, tag: str) -> dict[str, Any] | None:
        """The same message as ``worker.guard.shape.Shapes.sifted`` reads it, its body decoded; None where that has to look at it."""
        if self._sifted is None or not isinstance(sender.root, str | None) or not isinstance(sender.parent, str | None):
            return None
        headers, properties = self._sifted["headers"].copy(), self._sifted["properties"].copy()
        headers["id"] = properties["correlation_id"] = task_id
        headers["root_id"], headers["parent_id"] = sender.root or task_id, sender.parent
        headers["argsrepr"], headers["timelimit"] = str(args), [None, None]
        properties["reply_to"], properties["delivery_tag"] = sender.reply_to, tag
        properties["delivery_info"] = {"exchange": "", "routing_key": self._queue}
        content = [list(args), {}, self._embed.copy()]
        return {**self._sifted, "body": self._body(args), "headers": headers, "properties": properties, "content": content}

    def makes(self, text: str, args: Round, sender: Sender) -> bool:
        """Whether it makes this very message of what is said to be in it, and reads it as it is sifted, if at all."""
        message = json.loads(text)
        ids = message["headers"]["id"], message["properties"]["delivery_tag"]
        received = _sifted(text, self._queue)
        if received is not None:
            received["body"] = b64decode(message["body"])
            received["content"] = json.loads(received["body"])
        return self.fill(args, sender, *ids) == text and self.read(args, sender, *ids) == received

    def _body(self, args: Round) -> bytes:
        return (self._content % args).encode()


def learned(build: Callable[[str, int, int], str], queue: str, sender: Sender) -> Template | None:
    """The template of what ``build`` builds with Celery for this queue and ``sender``; None where its form is not known here."""
    samples = [(build(*args), args) for args in SAMPLES]
    try:
        template = Template(*samples[0], queue)
        if all(template.makes(text, args, sender) for text, args in samples):
            return template
        why = "it differs from the template in more than is known to differ"
    except (LookupError, TypeError, ValueError) as error:
        why = f"{type(error).__name__}: {error}"
    logger.info("each message is built by Celery, which costs time and nothing else: this version's form is not known here (%s)", why)
    return None


def new_ids() -> tuple[str, str]:
    """A task's and a delivery's id, each a random UUID. (``uuid.uuid4`` takes as long for them as all the rest of a message.)"""
    digits = new_digits(64)
    return _uuid(digits[:32]), _uuid(digits[32:])


def _sifted(text: str, queue: str) -> dict[str, Any] | None:
    try:
        return sifted(text, queue)
    except Malformed:  # it tells of a round that came by no guard
        return None


#: Texts that JSON writes as they are; the ids that Celery and this module make are.
PLAIN = re.compile(r"[\w.:@-]+", re.ASCII)


def _written(said: Any) -> str:
    """As JSON, what a round's message said of itself; where no guard has looked at it, anything."""
    return f'"{said}"' if isinstance(said, str) and PLAIN.fullmatch(said) else str(dumps(said))


def _uuid(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def _with_blanks(text: str, marks: Mapping[str, str]) -> str:
    """As a format for ``%``, in which each mark is a blank."""
    text = text.replace("%", "%%")
    for mark, blank in marks.items():
        text = text.replace(mark, blank)
    return text
