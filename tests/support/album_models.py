"""Scripted models for the albums of the guides.

They log their requests, and wait while the test kills their worker.
"""

from __future__ import annotations

import base64
import json
import os
import time
from pathlib import Path
from typing import Any

LOG = "ALBUM_LOG"
#: Seconds after which a request goes on that no test has let go.
LONGEST_HOLD = 60.0


def answered(messages: list[tuple[str, list[str | bytes]]]) -> str:
    """Log a request, wait while the test holds it, and answer it.

    Args:
        messages: role, and texts and bytes of each message.
    """
    log = Path(os.environ[LOG])
    shown = [
        [
            role,
            [each if isinstance(each, str) else base64.b64encode(each).decode() for each in parts],
        ]
        for role, parts in messages
    ]
    with log.open("a") as file:
        file.write(json.dumps(shown) + "\n")
    until = time.monotonic() + LONGEST_HOLD
    while log.with_suffix(".hold").exists() and time.monotonic() < until:
        time.sleep(0.01)
    return f"answer to {len(messages)} messages"


def pydantic_model() -> Any:
    from pydantic_ai.messages import BinaryContent, ModelResponse, TextPart, UserPromptPart
    from pydantic_ai.models.function import FunctionModel

    def answer(messages: Any, info: Any) -> ModelResponse:
        shown: list[tuple[str, list[str | bytes]]] = []
        for part in (part for message in messages for part in message.parts):
            if isinstance(part, UserPromptPart):
                content = [part.content] if isinstance(part.content, str) else part.content
                parts: list[str | bytes] = [
                    each.data if isinstance(each, BinaryContent) else str(each) for each in content
                ]
                shown.append(("user", parts))
            elif isinstance(part, TextPart):
                shown.append(("assistant", [part.content]))
        return ModelResponse(parts=[TextPart(answered(shown))])

    return FunctionModel(answer)


def openai_model() -> Any:
    from agents import Model, ModelResponse, Usage
    from openai.types.responses import ResponseOutputMessage, ResponseOutputText

    class Answers(Model):
        async def get_response(self, *args: Any, **named: Any) -> ModelResponse:
            given = named["input"] if "input" in named else args[1]
            items = [{"role": "user", "content": given}] if isinstance(given, str) else given
            text = answered([(each["role"], _parts(each["content"])) for each in items])
            part = ResponseOutputText(type="output_text", text=text, annotations=[], logprobs=[])
            message = ResponseOutputMessage(
                id="m", type="message", role="assistant", status="completed", content=[part]
            )
            return ModelResponse(output=[message], usage=Usage(requests=1), response_id=None)

        def stream_response(self, *args: Any, **named: Any) -> Any:
            raise NotImplementedError

    return Answers()


def langgraph_model() -> Any:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class Answers(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "scripted"

        def _generate(self, messages: Any, *args: Any, **named: Any) -> ChatResult:
            roles = {"human": "user", "ai": "assistant"}
            text = answered([(roles[each.type], _parts(each.content)) for each in messages])
            return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])

    return Answers()


def _parts(content: Any) -> list[str | bytes]:
    if isinstance(content, str):
        return [content]
    parts: list[str | bytes] = []
    for each in content:
        data = each.get("base64") or (each.get("image_url") or "").partition(",")[2]
        parts.append(base64.b64decode(data) if data else each["text"])
    return parts
