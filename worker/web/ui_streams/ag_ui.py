"""The events of AG-UI (Agent User Interaction Protocol) 1.0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from perdure.flows.core.json_values import canonical
from perdure.worker.domain.interrupt import PendingInterrupt
from perdure.worker.domain.run import Run
from perdure.worker.web.ui_streams.writer import (
    UiEvent,
    UiToolCall,
    UiWriter,
    asked_below,
    error_of,
    interrupt_ref,
)

VERSION = "1.0"
#: The answer to an approval, as JSON Schema.
APPROVAL: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "reason": {"type": "string"},
        "editedArgs": {"type": "object"},
    },
    "required": ["approved"],
}


class AgUiWriter(UiWriter):
    """The writer of a response as events of AG-UI.

    To retract texts, it writes a snapshot of all messages without these texts.

    Args:
        thread_id, run_id: The client's ids of the conversation and of this response. None: the ids
            of Perdure's run.
        messages: The messages of the conversation so far. None: the run's goal is the only message.
    """

    def __init__(
        self,
        thread_id: str | None = None,
        run_id: str | None = None,
        messages: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        self._ids = {"threadId": thread_id, "runId": run_id}
        self._metadata: dict[str, Any] = {}
        self._given = None if messages is None else list(messages)
        #: Messages of the response, by id.
        self._own: dict[str, dict[str, Any]] = {}

    def begin(self, run: Run) -> Iterator[UiEvent]:
        """Begin AG-UI's run. The metadata of the event name Perdure's run and flow."""
        self._ids["threadId"] = self._ids["threadId"] or run.state.thread_id or run.id
        self._ids["runId"] = self._ids["runId"] or run.id
        self._metadata = {"run": run.id, "flow": run.flow}
        yield {
            "type": "RUN_STARTED",
            **self._ids,
            "protocolVersion": VERSION,
            "metadata": self._metadata,
        }
        if self._given is None:
            self._given = [{"id": f"{run.id}.goal", "role": "user", "content": run.goal}]
            yield from self._snapshot()

    def begin_step(self, name: str) -> Iterator[UiEvent]:
        """Begin a step of AG-UI's run."""
        yield {"type": "STEP_STARTED", "stepName": name}

    def end_step(self, name: str) -> Iterator[UiEvent]:
        """End a step of AG-UI's run."""
        yield {"type": "STEP_FINISHED", "stepName": name}

    def start_text(self, part_id: str, kind: Literal["text", "thinking"]) -> Iterator[UiEvent]:
        """Begin a message with text or reasoning."""
        role = "assistant" if kind == "text" else "reasoning"
        self._own[part_id] = {"id": part_id, "role": role, "content": ""}
        if kind == "text":
            yield {"type": "TEXT_MESSAGE_START", "messageId": part_id, "role": "assistant"}
        else:
            yield {"type": "REASONING_START", "messageId": part_id}
            yield {"type": "REASONING_MESSAGE_START", "messageId": part_id, "role": "reasoning"}

    def add_text(
        self, part_id: str, kind: Literal["text", "thinking"], text: str
    ) -> Iterator[UiEvent]:
        """Add a piece to a message with text or reasoning."""
        self._own[part_id]["content"] += text
        name = "TEXT_MESSAGE" if kind == "text" else "REASONING_MESSAGE"
        yield {"type": f"{name}_CONTENT", "messageId": part_id, "delta": text}

    def end_text(self, part_id: str, kind: Literal["text", "thinking"]) -> Iterator[UiEvent]:
        """End a message with text or reasoning."""
        if kind == "text":
            yield {"type": "TEXT_MESSAGE_END", "messageId": part_id}
        else:
            yield {"type": "REASONING_MESSAGE_END", "messageId": part_id}
            yield {"type": "REASONING_END", "messageId": part_id}

    def add_data(self, kind: str, part: str, text: str) -> Iterator[UiEvent]:
        """Write live text of a kind that the flow defines, as a custom event."""
        yield {
            "type": "CUSTOM",
            "name": "live",
            "value": {"kind": kind, "part": part, "text": text},
        }

    def start_call(self, call: UiToolCall) -> Iterator[UiEvent]:
        """Begin a tool call. If ``call`` has its arguments, write them too."""
        function = {"name": call.name, "arguments": ""}
        self._own[call.id] = {
            "id": call.id,
            "role": "assistant",
            "toolCalls": [{"id": call.id, "type": "function", "function": function}],
        }
        yield {"type": "TOOL_CALL_START", "toolCallId": call.id, "toolCallName": call.name}
        if call.args is not None:
            yield from self.add_arguments(call, canonical(dict(call.args)))

    def add_arguments(self, call: UiToolCall, text: str) -> Iterator[UiEvent]:
        """Add a piece of JSON text to a call's arguments."""
        self._own[call.id]["toolCalls"][0]["function"]["arguments"] += text
        yield {"type": "TOOL_CALL_ARGS", "toolCallId": call.id, "delta": text}

    def end_call(self, call: UiToolCall) -> Iterator[UiEvent]:
        """End a tool call."""
        yield {"type": "TOOL_CALL_END", "toolCallId": call.id}

    def give_result(self, call: UiToolCall, result: Any) -> Iterator[UiEvent]:
        """Write the result of a call. A text is unchanged, other results become JSON text."""
        error = error_of(result)
        content = error or (result if isinstance(result, str) else canonical(result))
        message_id = f"{call.id}.result"
        self._own[message_id] = {
            "id": message_id,
            "role": "tool",
            "toolCallId": call.id,
            "content": content,
            **({} if error is None else {"error": error}),
        }
        yield {
            "type": "TOOL_CALL_RESULT",
            "messageId": message_id,
            "toolCallId": call.id,
            "content": content,
            "role": "tool",
        }

    def retract(
        self, step: int, attempt: int, part_ids: Sequence[str], calls: Sequence[UiToolCall]
    ) -> Iterator[UiEvent]:
        """Write a snapshot of all messages except the retracted texts and calls."""
        for each in (*part_ids, *(call.id for call in calls)):
            self._own.pop(each, None)
        yield from self._snapshot()

    def ask(
        self, run_id: str, pending: PendingInterrupt, call: UiToolCall | None
    ) -> Iterator[UiEvent]:
        """Finish AG-UI's run with an interrupt. The client answers it with its next ``resume``."""
        interrupt: dict[str, Any] = {
            "id": interrupt_ref(run_id, pending),
            "reason": "tool_call" if call is not None else pending.kind,
            "message": pending.question,
            "metadata": {"data": pending.shown_data, **asked_below(run_id, pending)},
        }
        if call is not None:
            interrupt |= {"toolCallId": call.id, "responseSchema": dict(APPROVAL)}
        if pending.deadline is not None:
            interrupt["expiresAt"] = pending.deadline.isoformat()
        yield self._finished({"type": "interrupt", "interrupts": [interrupt]}, "interrupted")

    def finish(self, run: Run, answer: Any) -> Iterator[UiEvent]:
        """Finish AG-UI's run, with the answer of Perdure's run as the result.

        If ``answer`` is a text, a message with this text comes first. AG-UI has no outcome for a
        run that used up its cycles, so the event's metadata have Perdure's status.
        """
        if isinstance(answer, str) and answer:
            part_id = f"{run.id}.answer"
            yield from self.start_text(part_id, "text")
            yield from self.add_text(part_id, "text", answer)
            yield from self.end_text(part_id, "text")
        yield {**self._finished({"type": "success"}, run.status_text), "result": run.answer}

    def fail(self, error: str) -> Iterator[UiEvent]:
        """End AG-UI's run with an error."""
        yield {"type": "RUN_ERROR", "message": error}

    def abort(self, reason: str) -> Iterator[UiEvent]:
        """Finish AG-UI's run as cancelled. The metadata of the event have the reason."""
        yield self._finished({"type": "cancelled"}, "stopped", reason=reason)

    def _finished(self, outcome: dict[str, Any], status: str, **more: str) -> UiEvent:
        return {
            "type": "RUN_FINISHED",
            **self._ids,
            "outcome": outcome,
            "metadata": {**self._metadata, "status": status, **more},
        }

    def _snapshot(self) -> Iterator[UiEvent]:
        yield {"type": "MESSAGES_SNAPSHOT", "messages": [*(self._given or ()), *self._own.values()]}
