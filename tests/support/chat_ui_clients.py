"""Clients of chat protocols (AI SDK, AG-UI).

Each validates every event, and builds a person's view from the events.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ag_ui.core import Event
from pydantic import TypeAdapter
from pydantic_ai.ui.vercel_ai import response_types

AG_UI: TypeAdapter[Any] = TypeAdapter(Event)
CHUNKS = {
    chunk.model_fields["type"].default: chunk
    for chunk in vars(response_types).values()
    if isinstance(chunk, type)
    and issubclass(chunk, response_types.BaseChunk)
    and "type" in chunk.model_fields
}


def events_of(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the events of a stream, without the end."""
    for line in lines:
        if line.startswith("data: ") and line != "data: [DONE]":
            yield json.loads(line.removeprefix("data: "))


def chunk_of(data: dict[str, Any]) -> dict[str, Any]:
    """Validate a chunk of the AI SDK, which has exactly the fields of its type."""
    kind = CHUNKS.get(data["type"], response_types.DataChunk)
    read = kind.model_validate(data)
    assert json.loads(read.model_dump_json(by_alias=True, exclude_unset=True)) == data
    return data


@dataclass
class AiSdkPage:
    """A message as ``useChat`` keeps it.

    Attributes:
        parts: in their order. Retracted parts are gone, as the guide says.
    """

    id: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    parts: list[dict[str, Any]] = field(default_factory=list)
    finished: str = ""
    error: str = ""
    aborted: str = ""
    retractions: int = 0
    _open: dict[str, dict[str, Any]] = field(default_factory=dict)

    def take(self, lines: Iterable[str]) -> AiSdkPage:
        for data in events_of(lines):
            assert not self.finished, "nothing follows the end of a message"
            self._take(chunk_of(data))
        return self

    def _take(self, chunk: dict[str, Any]) -> None:
        self.metadata |= chunk.get("messageMetadata", {})
        match chunk["type"]:
            case "start":
                self.id = chunk["messageId"]
            case "start-step":
                self.parts.append({"type": "step-start"})
            case "finish-step":
                assert not self._open, "a step ends when its texts have ended"
            case "text-start" | "reasoning-start":
                assert chunk["id"] not in self._open
                part = {"type": chunk["type"].removesuffix("-start"), "text": ""}
                self._open[chunk["id"]] = part
                self.parts.append(part)
            case "text-delta" | "reasoning-delta":
                self._open[chunk["id"]]["text"] += chunk["delta"]
            case "text-end" | "reasoning-end":
                del self._open[chunk["id"]]
            case "tool-input-start":
                self.parts.append(
                    {
                        "type": f"tool-{chunk['toolName']}",
                        "toolCallId": chunk["toolCallId"],
                        "text": "",
                        "state": "input-streaming",
                    }
                )
            case "tool-input-delta":
                self.call(chunk)["text"] += chunk["inputTextDelta"]
            case "tool-input-available":
                call = self.call(chunk)
                assert not call["text"] or json.loads(call["text"]) == chunk["input"]
                call |= {"input": chunk["input"], "state": "input-available"}
            case "tool-output-available":
                self.check_decision(chunk, True)
                self.call(chunk).update(output=chunk["output"], state="output-available")
            case "tool-output-error":
                self.check_decision(chunk, True)
                self.call(chunk).update(errorText=chunk["errorText"], state="output-error")
            case "tool-output-denied":
                self.check_decision(chunk, False)
                self.call(chunk).update(state="output-denied")
            case "tool-approval-request":
                self.call(chunk).update(
                    approval={"id": chunk["approvalId"]}, state="approval-requested"
                )
            case "data-retracted":
                self.retractions += 1
                last = max(
                    place for place, part in enumerate(self.parts) if part["type"] == "step-start"
                )
                del self.parts[last:]
            case "finish":
                self.finished = chunk["finishReason"]
            case "error":
                self.error = chunk["errorText"]
            case "abort":
                self.aborted = chunk["reason"]
            case _:
                self.parts.append(chunk)

    def call(self, chunk: dict[str, Any]) -> dict[str, Any]:
        [found] = [part for part in self.parts if part.get("toolCallId") == chunk["toolCallId"]]
        return found

    def check_decision(self, chunk: dict[str, Any], approved: bool) -> None:
        """Check the decision: a message is valid only if a part with a result has the decision that
        allows it.

        So does the schema of ``validateUIMessages`` say. Without an approval, it was not denied.
        """
        approval = self.call(chunk).get("approval", {} if not approved else {"approved": True})
        assert approval.get("approved") is approved, f"{chunk['type']} after {approval}"

    @property
    def text(self) -> str:
        return "".join(part["text"] for part in self.parts if part["type"] == "text")

    def message(self) -> dict[str, Any]:
        """Return the message as the client sends it with the next request."""
        return {"id": self.id, "role": "assistant", "parts": [{**part} for part in self.parts]}


@dataclass
class AgUiPage:
    """A conversation as an ``HttpAgent`` of AG-UI keeps it. Breaches of its order fail."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    started: dict[str, Any] = field(default_factory=dict)
    finished: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    snapshots: int = 0
    _open: set[str] = field(default_factory=set)

    def take(self, lines: Iterable[str]) -> AgUiPage:
        self.started, self.finished = {}, {}
        for data in events_of(lines):
            assert not self.finished and not self.error, "nothing follows the end of a run"
            AG_UI.validate_python(data)
            self._take(data)
        return self

    def _take(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        assert (kind == "RUN_STARTED") == (not self.started)
        match kind:
            case "RUN_STARTED":
                self.started = event
            case "STEP_STARTED":
                self._begin(f"step {event['stepName']}")
            case "STEP_FINISHED":
                self._open.remove(f"step {event['stepName']}")
            case "TEXT_MESSAGE_START" | "REASONING_MESSAGE_START":
                self._begin(event["messageId"])
                self.messages.append(
                    {"id": event["messageId"], "role": event["role"], "content": ""}
                )
            case "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT":
                assert event["messageId"] in self._open and event["delta"]
                self._message(event["messageId"])["content"] += event["delta"]
            case "TEXT_MESSAGE_END" | "REASONING_MESSAGE_END":
                self._open.remove(event["messageId"])
            case "TOOL_CALL_START":
                self._begin(event["toolCallId"])
                function = {"name": event["toolCallName"], "arguments": ""}
                call = {"id": event["toolCallId"], "type": "function", "function": function}
                self.messages.append(
                    {"id": event["toolCallId"], "role": "assistant", "toolCalls": [call]}
                )
            case "TOOL_CALL_ARGS":
                assert event["toolCallId"] in self._open
                self._message(event["toolCallId"])["toolCalls"][0]["function"]["arguments"] += (
                    event["delta"]
                )
            case "TOOL_CALL_END":
                self._open.remove(event["toolCallId"])
            case "TOOL_CALL_RESULT":
                self.messages.append(
                    {
                        "id": event["messageId"],
                        "role": "tool",
                        "toolCallId": event["toolCallId"],
                        "content": event["content"],
                    }
                )
            case "MESSAGES_SNAPSHOT":
                self.snapshots += 1
                self.messages = event["messages"]
            case "RUN_FINISHED":
                assert not self._open
                self.finished = event
            case "RUN_ERROR":
                self.error = event["message"]

    def _begin(self, name: str) -> None:
        assert name not in self._open
        self._open.add(name)

    def _message(self, message_id: str) -> dict[str, Any]:
        [found] = [each for each in self.messages if each["id"] == message_id]
        return found

    @property
    def text(self) -> str:
        return "".join(
            each.get("content") or "" for each in self.messages if each["role"] == "assistant"
        )
