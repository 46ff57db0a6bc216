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
    """A tool call in a response.

    Attributes:
        id: The call's id, unique in the run.
        name: The name of the command, step or node.
        args: The arguments. None if they are not complete or not known.
        approved: The person's decision about the call. None: no decision is known.
        below: The id of the run below that asked about the call and makes it. None: the run of the
            response makes it. The result of a call of a run below is not part of the response.
    """

    id: str
    name: str
    args: Mapping[str, Any] | None = None
    approved: bool | None = None
    below: str | None = None

    def fits(self, args: Mapping[str, Any] | None) -> tuple[bool, int]:
        """Return how similar the call's arguments are to ``args``. A larger tuple is better.

        They may differ even if ``args`` are from a question about this very call: a question has
        validated arguments, with the defaults that the model left out.

        Args:
            args: The arguments to compare. None: they are not known.

        Returns:
            Whether the arguments are equal and known, and how many of the call's arguments
            ``args`` has with the same value.
        """
        own, known = self.args or {}, args or {}
        same = sum(name in known and known[name] == value for name, value in own.items())
        return args is not None and self.args == args, same


class UiWriter(ABC):
    """A writer of a response in the protocol of a chat interface.

    "Write" means: the method yields the events of the protocol.

    Attributes:
        headers: Further headers of the HTTP response.
    """

    headers: Mapping[str, str] = {}

    @abstractmethod
    def begin(self, run: Run) -> Iterator[UiEvent]:
        """Begin the response."""

    @abstractmethod
    def begin_step(self, name: str) -> Iterator[UiEvent]:
        """Begin the response's part for an attempt of a step.

        ``name`` is the number of the step, as text.
        """

    @abstractmethod
    def end_step(self, name: str) -> Iterator[UiEvent]:
        """End the response's part for an attempt of a step."""

    @abstractmethod
    def start_text(self, part_id: str, kind: Literal["text", "thinking"]) -> Iterator[UiEvent]:
        """Begin a text: an answer (``text``) or reasoning (``thinking``).

        ``part_id`` is the id of the text, unique in the run.
        """

    @abstractmethod
    def add_text(
        self, part_id: str, kind: Literal["text", "thinking"], text: str
    ) -> Iterator[UiEvent]:
        """Add a piece to the text ``part_id``, which has begun."""

    @abstractmethod
    def end_text(self, part_id: str, kind: Literal["text", "thinking"]) -> Iterator[UiEvent]:
        """End the text with the id ``part_id``."""

    @abstractmethod
    def add_data(self, kind: str, part: str, text: str) -> Iterator[UiEvent]:
        """Write live text of a kind unknown to the protocol.

        Args:
            kind: The kind that the flow gave to the text.
            part: The name of the text among several texts that a round shows at the same time.
        """

    @abstractmethod
    def start_call(self, call: UiToolCall) -> Iterator[UiEvent]:
        """Begin a tool call. Its arguments may follow in pieces."""

    @abstractmethod
    def add_arguments(self, call: UiToolCall, text: str) -> Iterator[UiEvent]:
        """Add a piece of JSON text to a call's arguments."""

    @abstractmethod
    def end_call(self, call: UiToolCall) -> Iterator[UiEvent]:
        """End a tool call, because its arguments are complete.

        ``call.args`` has the arguments. It is None if they are not valid JSON.
        """

    @abstractmethod
    def give_result(self, call: UiToolCall, result: Any) -> Iterator[UiEvent]:
        """Write a call's result or error (``error_of``).

        The call has ended before.
        """

    @abstractmethod
    def retract(
        self, step: int, attempt: int, part_ids: Sequence[str], calls: Sequence[UiToolCall]
    ) -> Iterator[UiEvent]:
        """Remove the texts and calls of an attempt that was given up.

        Args:
            part_ids: The ids of the attempt's texts. All of them have ended.
            calls: The attempt's tool calls. All of them have ended.
        """

    @abstractmethod
    def ask(
        self, run_id: str, pending: PendingInterrupt, call: UiToolCall | None
    ) -> Iterator[UiEvent]:
        """End the response with a question to the person.

        Args:
            run_id: The run of the response. The question may be one of a run below it.
            pending: The question.
            call: The tool call that the person is to approve. None: the question is no approval.
        """

    @abstractmethod
    def finish(self, run: Run, answer: Any) -> Iterator[UiEvent]:
        """End the response of a run that completed.

        Args:
            answer: The run's answer, if no text has shown it. None: a text has shown the answer, or
                the run has no answer.
        """

    @abstractmethod
    def fail(self, error: str) -> Iterator[UiEvent]:
        """End the response of a run that failed."""

    @abstractmethod
    def abort(self, reason: str) -> Iterator[UiEvent]:
        """End the response of a run that was stopped."""

    def trailer(self) -> bytes:
        """Return the bytes that follow the last event. By default there are none."""
        return b""


def encoded(event: UiEvent) -> str:
    """Return an event as compact JSON."""
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"))


def interrupt_ref(run_id: str, pending: PendingInterrupt) -> str:
    """Return a name for a question that also contains the ids of the runs.

    It is ``RUN/3:1``, where ``RUN`` is the run of the response (``run_id``). If a run below it
    asks, it is ``RUN/CHILD/3:1``. A client that answers with this name need not name the runs.
    """
    return f"{run_id}/{question_key(run_id, pending)}"


def asked_below(run_id: str, pending: PendingInterrupt) -> dict[str, str]:
    """Return the id and flow of a run below that asks.

    If the run ``run_id`` itself asks, the result is empty.
    """
    if pending.run_id == run_id:
        return {}
    return {"run": pending.run_id, "flow": pending.flow}


def error_of(result: Any) -> str | None:
    """Return the text of the error in a tool's result. None if the result is no error."""
    if isinstance(result, Mapping) and result.keys() in ({"error"}, {"error", "run"}):
        return str(result["error"])
    return None
