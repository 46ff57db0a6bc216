"""The common base of the writers for the protocols of chat interfaces."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from perdure.worker.domain.interrupt import PendingInterrupt
from perdure.worker.domain.run import Run
from perdure.worker.web.question_facts import question_key

#: An event of a protocol, as JSON data.
UiEvent = dict[str, Any]


@dataclass(frozen=True)
class UiToolCall:
    """A call of a tool in a response.

    Attributes:
        id: the call's id, unique in the run.
        name: the name of the command, step or node.
        args: the arguments. None until they are complete.
        approved: the decision in the client's message. None: the message has no decision.
        below: the id of the child run that asked about the call and makes it. None: the response's
            run makes it. The result of a child run's call is not part of the response.
    """

    id: str
    name: str
    args: Mapping[str, Any] | None = None
    approved: bool | None = None
    below: str | None = None

    def fits(self, args: Mapping[str, Any] | None) -> tuple[bool, int]:
        """Return how well the call's arguments fit those of a question about it. More is better.

        A question has the checked arguments, with defaults that the model left out.

        Returns:
            Whether they are equal, and how many of the call's arguments are among ``args``.
        """
        own, known = self.args or {}, args or {}
        same = sum(name in known and known[name] == value for name, value in own.items())
        return args is not None and self.args == args, same


class UiWriter(ABC):
    """Writes a run's stream as events of a protocol.

    Each method yields the events that it writes.

    Attributes:
        headers: further headers of the HTTP response.
    """

    headers: Mapping[str, str] = {}

    @abstractmethod
    def begin(self, run: Run) -> Iterator[UiEvent]:
        """Begin the response."""

    @abstractmethod
    def begin_step(self, name: str) -> Iterator[UiEvent]:
        """Begin the part of the response that one attempt of a step shows."""

    @abstractmethod
    def end_step(self, name: str) -> Iterator[UiEvent]:
        """End the part of an attempt."""

    @abstractmethod
    def start_text(self, part_id: str, kind: Literal["text", "thinking"]) -> Iterator[UiEvent]:
        """Begin a text."""

    @abstractmethod
    def add_text(
        self, part_id: str, kind: Literal["text", "thinking"], text: str
    ) -> Iterator[UiEvent]:
        """Add a piece to a text that has begun."""

    @abstractmethod
    def end_text(self, part_id: str, kind: Literal["text", "thinking"]) -> Iterator[UiEvent]:
        """End a text."""

    @abstractmethod
    def add_data(self, kind: str, part: str, text: str) -> Iterator[UiEvent]:
        """Write live text of a kind unknown to the protocol."""

    @abstractmethod
    def start_call(self, call: UiToolCall) -> Iterator[UiEvent]:
        """Begin a tool call, whose arguments may not be complete."""

    @abstractmethod
    def add_arguments(self, call: UiToolCall, text: str) -> Iterator[UiEvent]:
        """Add a piece of JSON to an open call's arguments."""

    @abstractmethod
    def end_call(self, call: UiToolCall) -> Iterator[UiEvent]:
        """End a tool call. ``call`` has its arguments, unless they are not valid JSON."""

    @abstractmethod
    def give_result(self, call: UiToolCall, result: Any) -> Iterator[UiEvent]:
        """Write the result of a call."""

    @abstractmethod
    def retract(
        self, step: int, attempt: int, part_ids: Sequence[str], calls: Sequence[UiToolCall]
    ) -> Iterator[UiEvent]:
        """Take back the texts and calls of an attempt.

        The attempt was given up, and all its texts and calls have ended.
        """

    @abstractmethod
    def ask(
        self, run_id: str, pending: PendingInterrupt, call: UiToolCall | None
    ) -> Iterator[UiEvent]:
        """End the response with a question to the person.

        Args:
            run_id: the response's run. A run below it may ask the question.
            call: the tool call for which the person's approval is needed. None for other questions.
        """

    @abstractmethod
    def finish(self, run: Run, answer: Any) -> Iterator[UiEvent]:
        """End the response of a run that completed.

        Args:
            answer: the run's answer, if no text has shown it. None: a text has shown it, or the run
                has no answer.
        """

    @abstractmethod
    def fail(self, error: str) -> Iterator[UiEvent]:
        """End the response of a run that failed."""

    @abstractmethod
    def abort(self, reason: str) -> Iterator[UiEvent]:
        """End the response of a run that was stopped."""

    def trailer(self) -> bytes:
        """Return the bytes after the last event."""
        return b""


def encoded(event: UiEvent) -> str:
    """Return an event as compact JSON."""
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"))


def interrupt_ref(run_id: str, pending: PendingInterrupt) -> str:
    """Return a name of a question that begins with the id of the response's run.

    It is ``RUN/3:1``, or ``RUN/CHILD/3:1`` if a run below asks. A client that answers with this
    name need not name the runs.
    """
    return f"{run_id}/{question_key(run_id, pending)}"


def asked_below(run_id: str, pending: PendingInterrupt) -> dict[str, str]:
    """Return id and flow of the run that asks, if it is a run below the response's run."""
    if pending.run_id == run_id:
        return {}
    return {"run": pending.run_id, "flow": pending.flow}


def error_of(result: Any) -> str | None:
    """Return the error's text in a tool's result, or None if it is no error."""
    if isinstance(result, Mapping) and result.keys() in ({"error"}, {"error", "run"}):
        return str(result["error"])
    return None
