"""Logs of a worker: text for people, or one JSON object a line with the run, step and attempt that it is about."""

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

_of_flows = logging.getLogger("holdfast.flow")
#: What the lines written now are about: in a round run_id, step, attempt, node and worker; nothing outside.
_about: ContextVar[Mapping[str, Any]] = ContextVar("about", default=MappingProxyType({}))
#: kombu's alarms about messages that it prefetched. A message is a hint here; the sweep sends it again.
RESTORES = ("UNABLE TO RESTORE", "EMERGENCY DUMP", "Requeuing undeliverable")
#: kombu's alarm where a message outlived the connection it came by.
UNACKNOWLEDGED = "Couldn't ack"
#: Attributes that every record has; the others came as ``extra``.
ORDINARY = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


class about:  # noqa: N801 - used like a function; a generator's context takes three times as long, and each round has two
    """Every line written inside, by whatever library, carries these facts too (in JSON)."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self._facts = facts

    def __enter__(self) -> None:
        self._token = _about.set({**_about.get(), **self._facts})

    def __exit__(self, *_: object) -> None:
        _about.reset(self._token)


class RoundLogger(logging.LoggerAdapter[logging.Logger]):
    """The logger of one round: its lines carry the round's facts from any thread. ``extra`` of a call is kept."""

    def __init__(self, logger: logging.Logger, facts: Mapping[str, Any]) -> None:
        super().__init__(logger, dict(facts))

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        return msg, {**kwargs, "extra": {**(self.extra or {}), **(kwargs.get("extra") or {})}}


def round_logger() -> RoundLogger:
    """The logger for the flow that plays the round this thread is in."""
    return RoundLogger(_of_flows, _about.get())


class TextFormatter(logging.Formatter):
    """Time, level, logger, message; ``several``: and the process, where several write to one place."""

    def __init__(self, several: bool = False) -> None:
        super().__init__(f"%(asctime)s %(levelname)s {'[%(process)d] ' * several}%(name)s: %(message)s", "%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        return _harmless(super().format(_without_needless_traceback(record)))


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ``time`` (ISO 8601, UTC), ``level``, ``logger``, ``message``, ``worker``; in a round ``run_id``, ``step``,
    ``attempt``, ``node``; of an exception ``error`` and ``traceback``; then what the line was given as ``extra``."""

    def format(self, record: logging.LogRecord) -> str:
        record = _without_needless_traceback(record)
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "worker": f"{socket.gethostname()}:{os.getpid()}",
            **_about.get(),
        }
        # What a line calls itself by another's name ("level") is no reason to lose that one.
        line |= {name: value for name, value in vars(record).items() if name not in ORDINARY and name not in ("time", "level", "logger")}
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def set_up_logging(log_format: LogFormat, level: int = logging.WARNING, several: bool = False) -> None:
    """Log to stderr: ours from INFO on, everybody else's from ``level`` on. ``several``: other processes write there as well."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter(several))
    handler.addFilter(lambda record: not (record.name.startswith("kombu.") and str(record.msg).startswith(RESTORES)))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    logging.getLogger("multiprocessing").handlers = [handler]  # what the pool of processes says; it does not pass it on
    logging.getLogger("holdfast").setLevel(min(level, logging.INFO))
    logging.captureWarnings(log_format == "json")


def _harmless(text: str) -> str:
    """Indent every line but the first, and make control characters visible.

    A goal or an error may hold line breaks and escape sequences: it must neither write log lines of
    its own nor reach the terminal.
    """
    first, *more = (_visible(line) for line in text.splitlines() or [""])
    return "\n".join([first, *(f"    {line}" for line in more)])


def _visible(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(each if each.isprintable() or each == "\t" else ascii(each)[1:-1] for each in line)


def _without_needless_traceback(record: logging.LogRecord) -> logging.LogRecord:
    """No traceback where the server is away: that happens, and the first line says it."""
    if record.name.startswith("celery.worker.consumer"):
        record.exc_info = record.exc_text = None
        record.msg, record.args = " ".join(record.getMessage().split("\n")), ()
    elif str(record.msg).startswith(UNACKNOWLEDGED):
        # The broker went away under a round: the message comes again, and is refused, as its round is committed.
        record.exc_info = record.exc_text = None
        record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
    return record
