"""The output of a log line."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from perdure.worker.logs import JsonFormatter, TextFormatter, about, round_logger


def record(
    message: str = "said %s", *args: object, name: str = "perdure.rounds", **attributes: Any
) -> logging.LogRecord:
    made = logging.LogRecord(name, logging.WARNING, "file.py", 1, message, args, None)
    vars(made).update(attributes)
    return made


def line(made: logging.LogRecord) -> dict[str, Any]:
    text = JsonFormatter().format(made)
    assert "\n" not in text
    found: dict[str, Any] = json.loads(text)
    return found


def test_a_line_carries_what_it_is_about_and_the_innermost_wins() -> None:
    with about({"run_id": "r", "step": 3}), about({"step": 4, "attempt": 2}):
        made = line(record("said %s", "x"))
    assert (made["message"], made["level"], made["run_id"], made["step"], made["attempt"]) == (
        "said x",
        "WARNING",
        "r",
        4,
        2,
    )
    assert "run_id" not in line(record("said %s", "x"))


def test_an_extra_named_like_the_frame_does_not_replace_it() -> None:
    made = line(record("m", level="deep", logger="mine", time="noon", tokens=5))
    assert (made["level"], made["logger"], made["tokens"]) == (
        "WARNING",
        "perdure.rounds",
        5,
    ) and made["time"].endswith("+00:00")


def test_what_is_no_json_is_shown_as_text() -> None:
    assert line(record("m", path=object))["path"] == "<class 'object'>"


def test_an_exception_is_part_of_its_line() -> None:
    try:
        raise ValueError("no")
    except ValueError:
        made = line(record("m", exc_info=sys.exc_info()))
    assert made["error"] == "ValueError: no" and made["traceback"].startswith("Traceback")


class Unsayable(Exception):
    """An exception without a text, which Python cannot format."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)


def test_a_line_is_written_whatever_the_class_of_its_exception_raises() -> None:
    error = Unsayable()
    made = line(record("it failed", exc_info=(Unsayable, error, None), till=error))
    assert (made["message"], made["error"]) == (
        "it failed",
        "Unsayable: its message cannot be made (RuntimeError)",
    )
    text = TextFormatter().format(record("it failed", exc_info=(Unsayable, error, None)))
    assert "it failed" in text


def test_a_lost_connection_is_told_without_traceback_in_both_formats() -> None:
    for formatter in (JsonFormatter(), TextFormatter()):
        try:
            raise ConnectionError("away")
        except ConnectionError:
            made = record(
                "lost:\nretrying", name="celery.worker.consumer.consumer", exc_info=sys.exc_info()
            )
        assert "Traceback" not in formatter.format(made) and "lost: retrying" in formatter.format(
            made
        )


def test_a_message_that_outlived_its_connection_is_a_warning_without_traceback() -> None:
    try:
        raise ConnectionResetError("the broker went away")
    except ConnectionResetError:
        made = record(
            "Couldn't ack %r, reason:%r",
            2,
            "gone",
            name="celery.worker.request",
            exc_info=sys.exc_info(),
        )
    made.levelno, made.levelname = logging.CRITICAL, "CRITICAL"
    told = TextFormatter().format(made)
    assert "WARNING" in told and "Traceback" not in told and "traceback" not in line(made)


def test_the_logger_of_a_round_keeps_the_facts_outside_of_it_and_the_extra_of_a_call() -> None:
    with about({"run_id": "r", "step": 3}):
        logger = round_logger()
    _, kwargs = logger.process("m", {"extra": {"tokens": 5}})
    assert kwargs["extra"] == {"run_id": "r", "step": 3, "tokens": 5}


def test_a_goal_can_neither_write_log_lines_of_its_own_nor_reach_the_terminal() -> None:
    told = TextFormatter().format(
        record(
            "no customer named %s",
            "x\x1b[2J\x07\r\n09:00:00 CRITICAL perdure: all is lost\x9b1m\u202e",
        )
    )
    assert all(each.isprintable() or each in "\n\t" for each in told)
    assert "\\x1b[2J" in told and "\n    09:00:00 CRITICAL" in told
    assert [line for line in told.splitlines()[1:] if not line.startswith("    ")] == []


def test_a_traceback_is_indented_whatever_its_error_says() -> None:
    try:
        raise LookupError("one\n09:00:00 CRITICAL perdure: forged\x1b]0;owned\x07")
    except LookupError:
        told = TextFormatter().format(record("m", exc_info=sys.exc_info()))
    assert "\x1b" not in told and all(line.startswith("    ") for line in told.splitlines()[1:])
