"""The template of a round's message: Celery's message with blanks.

Replaces: building each message with Celery (``Publisher``). A filled template is byte for byte the
message that Celery would have built with the same ids. Three samples that Celery built in this
process must be equal to the filled template. Otherwise Celery builds each message.

Worth: Celery takes some 200 microseconds for a message, a template 10 (``python -m benchmarks
messages``). If a run keeps its worker, ``read`` also makes validation unnecessary
(docs/internals/decisions/0028-what-is-known-is-not-asked-for-again.md).

Switch off: the setting ``fetch`` (``PERDURE_FETCH=false``). No template is used while a receiver is
connected to one of Celery's publish signals, or if a tracer has replaced ``Celery.send_task``.

Private parts used: none. It relies on the text that kombu's Redis transport writes.
"""

from __future__ import annotations

import json
import logging
import os
import re
from base64 import b64decode
from binascii import b2a_base64
from collections.abc import Mapping
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from kombu.utils.json import dumps

from perdure.worker.ids import RUN_ID, new_digits
from perdure.worker.messaging.fast.hooks import has_receivers, is_plain, publish_functions
from perdure.worker.messaging.message import InvalidMessage, validate
from perdure.worker.messaging.message_builder import Sender, sender
from perdure.worker.messaging.publisher import Build, LazyMessage

if TYPE_CHECKING:
    from celery import Celery

logger = logging.getLogger("perdure.dispatch")

#: Run id, epoch and step.
RoundArgs = tuple[str, int, int]
#: The shortest possible arguments of a round, the longest, and some between.
SAMPLES: tuple[RoundArgs, ...] = (
    ("a", 0, 0),
    ("Second.sample_of-3:@", 1, 20),
    ("z" * 200, 2**53 - 1, 2**53 - 2),
)
#: The fields that are filled in, beside the body.
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
    """The common form of this process's messages of one task and queue, with blanks.

    Args:
        text: One of these messages, as Celery built it.
        args: The arguments of that message.
        queue: The queue of the messages.

    Raises:
        LookupError, TypeError, ValueError: The form of ``text`` is not known here.
    """

    def __init__(self, text: str, args: RoundArgs, queue: str) -> None:
        self._queue, self._validated = queue, _validated(text, queue)
        message = json.loads(text)
        content = b64decode(message["body"]).decode()
        self._embed = json.loads(content)[2]
        self._content = _with_blanks(content, {json.dumps(args): '["%s", %s, %s]'})
        message["body"] = "<body>"
        for (part, key), name in BLANKS.items():
            message[part][key] = f"<{name}>"
        #: Fixed texts, and between each two of them the name of a blank.
        self._pieces = re.split(
            '"<({})>"'.format("|".join({"body", *BLANKS.values()})), dumps(message)
        )
        self._blank_values = itemgetter(*self._pieces[1::2])

    def fill(self, args: RoundArgs, sender: Sender, task_id: str, tag: str) -> str:
        """Return the text of a round's message: the template with its blanks filled in.

        Args:
            args: Run id, epoch and step. The run id must be valid, so that neither JSON nor
                ``repr`` escapes a character of it.
            sender: The Celery ids of the sender.
            task_id: The id of the Celery task.
            tag: kombu's delivery tag.
        """
        named = f'"{task_id}"'
        pieces = self._pieces.copy()
        pieces[1::2] = self._blank_values(
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

    def read(
        self, args: RoundArgs, sender: Sender, task_id: str, tag: str
    ) -> dict[str, Any] | None:
        """Return the validated form of the message whose text ``fill`` returns.

        No text is parsed. The body is decoded already. The arguments are those of ``fill``.

        Returns:
            None if the text has to be validated.
        """
        if (
            self._validated is None
            or not isinstance(sender.root, str | None)
            or not isinstance(sender.parent, str | None)
        ):
            return None
        headers, properties = (
            self._validated["headers"].copy(),
            self._validated["properties"].copy(),
        )
        headers["id"] = properties["correlation_id"] = task_id
        headers["root_id"], headers["parent_id"] = sender.root or task_id, sender.parent
        headers["argsrepr"], headers["timelimit"] = str(args), [None, None]
        properties["reply_to"], properties["delivery_tag"] = sender.reply_to, tag
        properties["delivery_info"] = {"exchange": "", "routing_key": self._queue}
        content = [list(args), {}, self._embed.copy()]
        return {
            **self._validated,
            "body": self._body(args),
            "headers": headers,
            "properties": properties,
            "content": content,
        }

    def makes(self, text: str, args: RoundArgs, sender: Sender) -> bool:
        """Return whether the template reproduces Celery's message exactly.

        Both the text and the validated form must be the same.

        Args:
            text: Celery's message.
            args: The arguments of the message.
            sender: The sender of the message.
        """
        message = json.loads(text)
        ids = message["headers"]["id"], message["properties"]["delivery_tag"]
        received = _validated(text, self._queue)
        if received is not None:
            received["body"] = b64decode(message["body"])
            received["content"] = json.loads(received["body"])
        return self.fill(args, sender, *ids) == text and self.read(args, sender, *ids) == received

    def _body(self, args: RoundArgs) -> bytes:
        return (self._content % args).encode()


class MessageTemplates:
    """The templates that one process has learned from Celery's messages."""

    def __init__(self) -> None:
        self._templates: dict[tuple[Any, ...], Template | None] = {}

    def draft(
        self,
        app: Celery,
        build: Build,
        task: str,
        queue: str,
        args: RoundArgs,
        origin: Sender | None,
    ) -> LazyMessage | None:
        """Return a round's message from a template. Its text is made only on demand.

        Args:
            build: Builds such a message with Celery.
            task: The name of the Celery task.
            args: The run's id, epoch and step.
            origin: The Celery ids of the sender. None: those of this thread.

        Returns:
            None if Celery has to build the message.
        """
        if has_receivers(task) or not RUN_ID.fullmatch(args[0]):
            return None
        origin = origin or sender()
        template = self._template(app, build, task, queue, origin)
        if template is None:
            return None
        blanks = (args, origin, *new_ids())
        return LazyMessage(
            task, queue, partial(template.fill, *blanks), partial(template.read, *blanks)
        )

    def _template(
        self, app: Celery, build: Build, task: str, queue: str, origin: Sender
    ) -> Template | None:
        """Return the template of a task and queue. The first call learns it.

        Returns:
            None if Celery has to build each message of this task and queue.
        """
        functions = publish_functions()
        # A forked process has another name, which its messages contain. Inside a round Celery may
        # build another message than outside.
        key = (task, queue, os.getpid(), origin.parent is None, functions)
        if key not in self._templates:
            self._templates[key] = (
                learn_template(build, queue, origin) if is_plain(app, task, functions) else None
            )
        return self._templates[key]


def learn_template(build: Build, queue: str, origin: Sender) -> Template | None:
    """Make a template from samples that Celery builds.

    The template must reproduce each sample exactly.

    Args:
        build: Builds a message for this queue with Celery, from run id, epoch and step.
        origin: The sender of the samples.

    Returns:
        None if the form of Celery's messages is not known here.
    """
    samples = [(build(*args), args) for args in SAMPLES]
    try:
        template = Template(*samples[0], queue)
        if all(template.makes(text, args, origin) for text, args in samples):
            return template
        why = "it differs from the template in unexpected fields"
    except (LookupError, TypeError, ValueError) as error:
        why = f"{type(error).__name__}: {error}"
    logger.info(
        "Celery builds each message, which is slower and nothing else: "
        "the message format of this Celery version is not known here (%s)",
        why,
    )
    return None


def new_ids() -> tuple[str, str]:
    """Return two random UUIDs: the Celery task id and the delivery tag of a new message.

    ``uuid.uuid4`` would take as long for the two ids as all other work on a message.
    """
    digits = new_digits(64)
    return _uuid(digits[:32]), _uuid(digits[32:])


def _validated(text: str, queue: str) -> dict[str, Any] | None:
    try:
        return validate(text, queue)
    except InvalidMessage:  # e.g. its parent ids come from a message that was not validated
        return None


#: Texts that JSON writes unchanged, like the ids that Celery and this module make.
PLAIN = re.compile(r"[\w.:@-]+", re.ASCII)


def _written(value: Any) -> str:
    """Return the value of a message header as JSON.

    The value may be of any type, because it may come from a message that was not validated.
    """
    return f'"{value}"' if isinstance(value, str) and PLAIN.fullmatch(value) else str(dumps(value))


def _uuid(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def _with_blanks(text: str, marks: Mapping[str, str]) -> str:
    """Return ``text`` as a format for the operator ``%``.

    Args:
        marks: The parts of the text to replace, each with its placeholder.
    """
    text = text.replace("%", "%%")
    for mark, blank in marks.items():
        text = text.replace(mark, blank)
    return text
