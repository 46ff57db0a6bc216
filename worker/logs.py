"""Logs of a worker: text for people, or one JSON object per line.

A JSON object has the run, step and attempt of its line.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
from collections.abc import Mapping, MutableMapping
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Literal

LogFormat = Literal["text", "json"]

_of_flows = logging.getLogger("perdure.flow")
#: Facts for the log lines written now. During a round: run_id, step, attempt, node and worker.
#: Outside a round: none.
_about: ContextVar[Mapping[str, Any]] = ContextVar("about", default=MappingProxyType({}))
#: Beginnings of kombu's warnings about messages that it prefetched. They are dropped: the sweep
#: resends a lost message.
RESTORES = ("UNABLE TO RESTORE", "EMERGENCY DUMP", "Requeuing undeliverable")
#: Beginning of kombu's warning that a message outlived the connection that delivered it.
UNACKNOWLEDGED = "Couldn't ack"
#: Attributes of every log record. Any others came from ``extra``.
ORDINARY = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


class about:  # noqa: N801 - used like a function
    """A context manager that adds facts to the JSON log lines of its block.

    Lines of any library get the facts. Lines of other threads do not.

    It is a class, because a generator-based context manager takes three times as long, and each
    round enters two.
    """

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self._facts = facts

    def __enter__(self) -> None:
        self._token = _about.set({**_about.get(), **self._facts})

    def __exit__(self, *_: object) -> None:
        _about.reset(self._token)


class RoundLogger(logging.LoggerAdapter[logging.Logger]):
    """Logger of one round. It adds the round's facts to its lines, whichever thread logs them."""

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        """Add the round's facts (run, step and so on) to the ``extra`` of a logging call.

        If the call's own ``extra`` has a fact of the same name, the call's value is kept.
        """
        return msg, {**kwargs, "extra": {**(self.extra or {}), **(kwargs.get("extra") or {})}}


def round_logger() -> RoundLogger:
    """Return a logger for the round that this thread runs.

    The logger's lines have the round's run id, step, attempt, node and worker. If this thread runs
    no round, the lines have no such facts.
    """
    return RoundLogger(_of_flows, dict(_about.get()))


class TextFormatter(logging.Formatter):
    """Log format for people: time, level, logger, message.

    Args:
        several: Whether lines also have the process id, because several processes write to one
            output.
    """

    def __init__(self, several: bool = False) -> None:
        super().__init__(
            f"%(asctime)s %(levelname)s {'[%(process)d] ' * several}%(name)s: %(message)s",
            "%H:%M:%S",
        )

    def format(self, record: logging.LogRecord) -> str:
        """Return a log record as text in which control characters are escaped.

        So the record can neither forge log lines nor control the terminal.
        """
        return _harmless(super().format(_without_needless_traceback(record)))


class JsonFormatter(logging.Formatter):
    """Log format with one JSON object per line.

    The object has ``time`` (ISO 8601, UTC), ``level``, ``logger``, ``message`` and ``worker``.
    Lines of a round also have ``run_id``, ``step``, ``attempt`` and ``node``. Lines with an
    exception also have ``error`` and ``traceback``. The entries of the logging call's ``extra`` are
    added, except entries named ``time``, ``level`` or ``logger``.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return a log record as one line of JSON."""
        record = _without_needless_traceback(record)
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "worker": f"{socket.gethostname()}:{os.getpid()}",
            **_about.get(),
        }
        # An ``extra`` named like a standard field ("level") must not replace that field.
        line |= {
            name: value
            for name, value in vars(record).items()
            if name not in ORDINARY and name not in ("time", "level", "logger")
        }
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def set_up_logging(
    log_format: LogFormat, level: int = logging.WARNING, several: bool = False
) -> None:
    """Configure logging to stderr.

    Perdure's lines are logged from INFO on, or from ``level`` on if ``level`` is lower. Lines of
    other libraries are logged from ``level`` on. The handlers that the root logger had are removed.
    kombu's warnings about prefetched messages (``RESTORES``) are dropped.

    Args:
        log_format: ``text`` or ``json``. With ``json``, Python's warnings are logged too.
        level: Lowest level of other libraries' lines.
        several: Whether other processes write to stderr too. Text lines then have the process id.
            Ignored with ``json``.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter(several))
    handler.addFilter(
        lambda record: (
            not (record.name.startswith("kombu.") and str(record.msg).startswith(RESTORES))
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    # This logger of the process pool does not propagate to the root logger.
    logging.getLogger("multiprocessing").handlers = [handler]
    logging.getLogger("perdure").setLevel(min(level, logging.INFO))
    logging.captureWarnings(log_format == "json")


def _harmless(text: str) -> str:
    """Return a log text with escaped control characters. All lines but the first are indented.

    A goal or an error in the text may contain line breaks and escape sequences. These must neither
    forge log lines nor control the terminal.
    """
    first, *more = (_visible(line) for line in text.splitlines() or [""])
    return "\n".join([first, *(f"    {line}" for line in more)])


def _visible(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(
        each if each.isprintable() or each == "\t" else ascii(each)[1:-1] for each in line
    )


def _without_needless_traceback(record: logging.LogRecord) -> logging.LogRecord:
    """Remove the traceback of a record that reports a lost broker, and return the record.

    The record itself is changed. A record of Celery's consumer also becomes a single line. A record
    about an acknowledgement that failed becomes a warning. Other records are returned unchanged.
    """
    if record.name.startswith("celery.worker.consumer"):
        record.exc_info = record.exc_text = None
        record.msg, record.args = " ".join(record.getMessage().split("\n")), ()
    elif str(record.msg).startswith(UNACKNOWLEDGED):
        # The broker was lost during a round. It redelivers the message, which is refused because
        # the round is already committed.
        record.exc_info = record.exc_text = None
        record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
    return record
