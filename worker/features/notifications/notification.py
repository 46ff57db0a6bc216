"""Notification: a message about a run for one rule of ``notify``, with the delivery's state."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from perdure.worker.domain.document import Document
from perdure.worker.domain.interrupt import PendingInterrupt
from perdure.worker.domain.run import Run, RunStatus
from perdure.worker.errors import PerdureError

#: Maximum characters of a text of the run in a notification. Receivers read more over HTTP.
LONGEST_TEXT = 1000
#: The event of a notification that a person asked for, to try a rule.
TEST = "test"


class NotDelivered(PerdureError):
    """Raised when an attempt to deliver a notification failed.

    The worker records the reason, and tries again later unless ``is_final`` is True.

    Args:
        message: The reason. It has no secret and no URL, only the receiver's host.
        concerns_receiver: Whether other notifications of the rule would fail too.
        is_final: Whether a further attempt would be useless. The notification is then given up.
        after: Seconds for which the receiver asks the sender to wait. None if it does not ask.
    """

    code = "not-delivered"
    title = "The notification was not delivered"

    def __init__(
        self,
        message: str,
        *,
        concerns_receiver: bool = False,
        is_final: bool = False,
        after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.concerns_receiver = concerns_receiver
        self.is_final = is_final
        self.after = after


@dataclass(frozen=True)
class Notification(Document):
    """One notification of one rule, with the state of its delivery."""

    id: str
    """Id, the same on each attempt: receivers recognize a repetition by it."""
    rule: str
    """Name of the rule."""
    event: str
    """``waiting``, ``in_doubt``, ``errored``, ``completed``, ``stopped`` or ``test``."""
    run_id: str
    """The run. Empty for a test."""
    flow: str
    """The run's flow. Empty for a test."""
    created_at: datetime
    """When the delivery began, or began again."""
    body: Mapping[str, Any] = field(repr=False)
    """What the receiver gets."""
    attempts: int = 0
    """Attempts so far."""
    error: str | None = None
    """Why the last attempt failed. Not set before a failure."""
    due_at: datetime | None = None
    """When the next attempt is due. Not set for a dead notification."""
    dead_at: datetime | None = None
    """When the delivery was given up. Not set as long as it goes on."""

    def packed(self) -> str:
        """Return the notification as JSON text for the store."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def unpacked(cls, text: str) -> Notification:
        """Build the notification from the text of ``packed``."""
        return cls.from_dict(json.loads(text))

    def failed(self, error: str, due_at: datetime | None) -> Notification:
        """Return a copy of the notification after one more failed attempt.

        Args:
            error: the reason of the failure.
            due_at: the time of the next attempt. None if there is none.
        """
        return replace(self, attempts=self.attempts + 1, error=error, due_at=due_at)


def event_of(run: Run) -> tuple[str, frozenset[str]] | None:
    """Return the event of a run that is interrupted or has ended.

    Returns:
        The event's name, and the names that match this event in a rule. None if the run is neither
            interrupted nor ended.
    """
    if run.status is RunStatus.INTERRUPTED:
        asked = PendingInterrupt.of(run)
        if asked is None:
            return None
        in_doubt = asked.kind == "in_doubt"
        return ("in_doubt", frozenset({"in_doubt", "waiting"})) if in_doubt else _alone("waiting")
    if run.status is RunStatus.STOPPED:
        doubts = {"in_doubt"} if "in_doubt" in run.details else set()
        return "stopped", frozenset({"stopped"} | doubts)
    if run.status in (RunStatus.COMPLETED, RunStatus.ERRORED):
        return _alone(run.status.value)
    return None


def _alone(event: str) -> tuple[str, frozenset[str]]:
    return event, frozenset({event})


def notification_of(
    rule: str, event: str, run: Run, link: str | None, now: datetime
) -> Notification:
    """Return a rule's notification about a run that is interrupted or has ended.

    The notification's id is a digest of the event. So a worker that finds the same event again
    derives the same id.

    Args:
        rule: the name of the rule.
        event: the name of the event.
        link: the URL of the run's page, or None.
        now: the time at which the delivery begins.
    """
    asked = PendingInterrupt.of(run) if run.status is RunStatus.INTERRUPTED else None
    happened = (rule, event, run.id, run.created_at.isoformat(), run.updated_at.isoformat())
    text = json.dumps([*happened, asked.id if asked else None])
    data: dict[str, Any] = {
        "run_id": run.id,
        "flow": run.flow,
        "goal": cut(run.purpose),  # Inputs go to no receiver outside.
        "status": run.status.value,
        "finished": run.finished,
        "labels": dict(run.labels),
        "submitted_by": run.details.get("submitted_by"),
        "epoch": run.details["epoch"],
        "error": cut(run.error) if run.error else None,
        "in_doubt": run.details.get("in_doubt"),
        "question": None if asked is None else question_of(asked),
        "link": link,
    }
    body = {"type": f"run.{event}", "timestamp": run.updated_at.isoformat(), "data": data}
    return Notification(
        f"msg_{hashlib.sha256(text.encode()).hexdigest()[:32]}",
        rule,
        event,
        run.id,
        run.flow,
        now,
        body,
    )


def question_of(asked: PendingInterrupt) -> dict[str, Any]:
    """Return a run's question as JSON data for a notification's body."""
    return {
        "id": asked.id,
        "kind": asked.kind,
        "text": cut(asked.question),
        "command": asked.command,
        "deadline": None if asked.deadline is None else asked.deadline.isoformat(),
    }


def trial_notification(rule: str, notification_id: str, at: datetime) -> Notification:
    """Return a notification of the event ``test``, which belongs to no run."""
    body = {"type": TEST, "timestamp": at.isoformat(), "data": {"rule": rule}}
    return Notification(notification_id, rule, TEST, "", "", at, body)


def cut(text: str) -> str:
    """Return a text, cut to ``LONGEST_TEXT`` characters. A text that was cut ends with "…"."""
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"


def moment(ms: float) -> datetime:
    """Return the UTC time of milliseconds since 1970."""
    return datetime.fromtimestamp(ms / 1000, UTC)
