"""Reasoning that is sent back to Groq: in the field ``reasoning`` of an assistant's message. Imported where a Groq model is opened.

The model library can put reasoning only between tags into the content, which a model reads as its own words. So the message that
it makes is completed here. This uses a private method of the library; without that method the reasoning is left out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic_ai.messages import ModelResponse, ThinkingPart, ToolCallPart

#: The library's method that makes an assistant's message of a reply.
_METHOD = "_map_model_response"
#: The attribute that marks a model whose messages are completed.
_MARK = "holdfast_sends_reasoning"


def send_reasoning(model: Any) -> None:
    """Complete the messages that a model of Groq makes of its replies."""
    to_message = getattr(model, _METHOD, None)
    if to_message is None:
        return

    def to_whole_message(response: ModelResponse) -> Any:
        thoughts = [part.content for part in response.parts if isinstance(part, ThinkingPart) and part.content]
        message = to_message(replace(response, parts=[part for part in response.parts if not isinstance(part, ThinkingPart)]))
        return {**message, "reasoning": "\n\n".join(thoughts)} if thoughts else message

    setattr(model, _METHOD, to_whole_message)
    setattr(model, _MARK, True)


def takes_reasoning(model: Any, response: ModelResponse) -> bool:
    """Return whether Groq takes the reasoning of this reply back.

    It refuses reasoning in a request to a model that has none, so a reply of another model is sent without it. It uses the
    reasoning of replies that call tools and leaves out that of answers, as the format of these models says.
    """
    if not getattr(model, _MARK, False) or response.model_name != model.model_name:
        return False
    return any(isinstance(part, ToolCallPart) for part in response.parts)
