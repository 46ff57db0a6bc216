"""The UI message stream of Vercel's AI SDK 5 or later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

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

#: Names of the protocol for a text, by the kind of the text.
NAMES = {"text": "text", "thinking": "reasoning"}
INTERRUPT, RETRACTED, ANSWER = "data-interrupt", "data-retracted", "data-answer"
LIVE = "data-live"


class AiSdkWriter(UiWriter):
    """The writer of a response as chunks of a UI message. The message has the id of the run.

    To retract texts and calls, it writes a part ``data-retracted``. This part means that the parts
    since the last ``step-start`` are void.
    """

    headers: Mapping[str, str] = {"x-vercel-ai-ui-message-stream": "v1"}

    def begin(self, run: Run) -> Iterator[UiEvent]:
        """Begin the message. The message's metadata name the run and the flow."""
        metadata = {"run": run.id, "flow": run.flow}
        yield {"type": "start", "messageId": run.id, "messageMetadata": metadata}

    def begin_step(self, name: str) -> Iterator[UiEvent]:
        """Begin a step of the message. The protocol has no field for ``name``."""
        yield {"type": "start-step"}

    def end_step(self, name: str) -> Iterator[UiEvent]:
        """End a step of the message. The protocol has no field for ``name``."""
        yield {"type": "finish-step"}

    def start_text(self, part_id: str, kind: Literal["text", "thinking"]) -> Iterator[UiEvent]:
        """Begin a part with text or reasoning."""
        yield {"type": f"{NAMES[kind]}-start", "id": part_id}

    def add_text(
        self, part_id: str, kind: Literal["text", "thinking"], text: str
    ) -> Iterator[UiEvent]:
        """Add a piece to a part with text or reasoning."""
        yield {"type": f"{NAMES[kind]}-delta", "id": part_id, "delta": text}

    def end_text(self, part_id: str, kind: Literal["text", "thinking"]) -> Iterator[UiEvent]:
        """End a part with text or reasoning."""
        yield {"type": f"{NAMES[kind]}-end", "id": part_id}

    def add_data(self, kind: str, part: str, text: str) -> Iterator[UiEvent]:
        """Write live text of a kind that the flow defines, as a data part."""
        yield {"type": LIVE, "data": {"kind": kind, "part": part, "text": text}}

    def start_call(self, call: UiToolCall) -> Iterator[UiEvent]:
        """Begin a part with a tool call."""
        yield {"type": "tool-input-start", "toolCallId": call.id, "toolName": call.name}

    def add_arguments(self, call: UiToolCall, text: str) -> Iterator[UiEvent]:
        """Add a piece of JSON text to a call's input."""
        yield {"type": "tool-input-delta", "toolCallId": call.id, "inputTextDelta": text}

    def end_call(self, call: UiToolCall) -> Iterator[UiEvent]:
        """Write the whole input of the call. It is empty if ``call`` has no arguments."""
        args = {} if call.args is None else dict(call.args)
        yield {
            "type": "tool-input-available",
            "toolCallId": call.id,
            "toolName": call.name,
            "input": args,
        }

    def give_result(self, call: UiToolCall, result: Any) -> Iterator[UiEvent]:
        """Write the output, the error or the denial of a call.

        If the client's message denied the call, only the denial is written: the protocol permits no
        other state of such a part. The client's message already has the reason.
        """
        error = error_of(result)
        if call.approved is False:
            yield {"type": "tool-output-denied", "toolCallId": call.id}
        elif error is not None:
            yield {"type": "tool-output-error", "toolCallId": call.id, "errorText": error}
        else:
            yield {"type": "tool-output-available", "toolCallId": call.id, "output": result}

    def retract(
        self, step: int, attempt: int, part_ids: Sequence[str], calls: Sequence[UiToolCall]
    ) -> Iterator[UiEvent]:
        """Write that the parts since the last ``step-start`` are void. Each call gets an error."""
        for call in calls:
            yield {
                "type": "tool-output-error",
                "toolCallId": call.id,
                "errorText": "retracted: the attempt that made this call was given up",
            }
        data = {"step": step, "attempt": attempt, "parts": list(part_ids)}
        yield {"type": RETRACTED, "data": data}

    def ask(
        self, run_id: str, pending: PendingInterrupt, call: UiToolCall | None
    ) -> Iterator[UiEvent]:
        """Ask for the approval of ``call``, or ask a question, and finish the message.

        A question of kind ``question`` is also written as a text.
        """
        reference = interrupt_ref(run_id, pending)
        if call is not None:
            yield {
                "type": "tool-approval-request",
                "approvalId": reference,
                "toolCallId": call.id,
            }
        elif pending.kind == "question":
            yield from self._text(f"{reference}.question", pending.question)
        data = {
            "interrupt": reference,
            "kind": pending.kind,
            "question": pending.question,
            "data": pending.shown_data,
            **asked_below(run_id, pending),
        }
        yield {"type": INTERRUPT, "id": reference, "data": data}
        yield from self._finish("tool-calls" if call is not None else "other", run_id)

    def finish(self, run: Run, answer: Any) -> Iterator[UiEvent]:
        """Finish the message.

        If ``answer`` is not None or '', a part with the answer comes first: a text, or a data part
        for an answer of another type.
        """
        if isinstance(answer, str) and answer:
            yield from self._text(f"{run.id}.answer", answer)
        elif answer not in (None, ""):
            yield {"type": ANSWER, "data": answer}
        yield from self._finish("stop" if run.finished else "length", run.id, run.status_text)

    def fail(self, error: str) -> Iterator[UiEvent]:
        """End the stream with an error."""
        yield {"type": "error", "errorText": error}
        yield {"type": "finish", "finishReason": "error"}

    def abort(self, reason: str) -> Iterator[UiEvent]:
        """End the stream of a run that was stopped."""
        yield {"type": "abort", "reason": reason}

    def trailer(self) -> bytes:
        """Return the bytes that end the stream."""
        return b"data: [DONE]\n\n"

    def _text(self, part_id: str, text: str) -> Iterator[UiEvent]:
        yield from self.start_text(part_id, "text")
        yield from self.add_text(part_id, "text", text)
        yield from self.end_text(part_id, "text")

    @staticmethod
    def _finish(reason: str, run_id: str, status: str = "interrupted") -> Iterator[UiEvent]:
        yield {
            "type": "finish",
            "finishReason": reason,
            "messageMetadata": {"run": run_id, "status": status},
        }
