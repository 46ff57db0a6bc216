"""The adapter to pydantic-ai: replies of the library as the controller's replies.

This module is imported only when a request is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic_ai import messages as theirs
from pydantic_ai.usage import RequestUsage

from perdure.flows.controllers.model.chat import Piece, Reply, ToolCall, Usage
from perdure.flows.controllers.model.parse_reply import told_apart
from perdure.flows.controllers.model.responses import kept_of
from perdure.flows.controllers.model.stream_end import fault_in, refusal_in
from perdure.flows.controllers.model.thoughts import without_thoughts

#: Maximum tokens that a usage may plausibly report. A number above it is a fault of the server.
MOST_TOKENS = 10**9


def piece_of(event: theirs.ModelResponseStreamEvent, tools: dict[int, str]) -> Piece | None:
    """Return the piece of a reply in an event. None if the event has no piece.

    Args:
        tools: The tool of each call so far, by the call's position in the reply. This function adds
            a new call.
    """
    if isinstance(event, theirs.PartStartEvent):
        match event.part:
            case theirs.TextPart(content=text):
                return Piece(text)
            case theirs.ThinkingPart(content=text):
                return Piece(text, "thinking")
            case theirs.ToolCallPart(tool_name=tool, args=args):
                tools[event.index] = tool
                return Piece(args if isinstance(args, str) else "", "arguments", tool)
    if isinstance(event, theirs.PartDeltaEvent):
        match event.delta:
            case theirs.TextPartDelta(content_delta=text):
                return Piece(text)
            case theirs.ThinkingPartDelta(content_delta=str(text)):
                return Piece(text, "thinking")
            case theirs.ToolCallPartDelta(args_delta=str(text)):
                return Piece(text, "arguments", tools.get(event.index, ""))
    return None


def reply_of(
    response: theirs.ModelResponse, requested_model: str, ended: str, secrets: Sequence[str]
) -> Reply:
    """Convert a complete response of the library to a reply.

    Args:
        requested_model: The name of the model, if the response does not give one.
        ended: Why the reply ended (``Reply.ended``).
        secrets: Texts that the stored form of the response must not contain.
    """
    made = [part for part in response.parts if isinstance(part, theirs.ToolCallPart)]
    calls = told_apart(
        [ToolCall(part.tool_call_id, part.tool_name, _arguments(part)) for part in made]
    )
    said = "".join(part.content for part in response.parts if isinstance(part, theirs.TextPart))
    text, thoughts = without_thoughts(said)
    usage = usage_of(response)
    thinking = [
        part.content
        for part in response.parts
        if isinstance(part, theirs.ThinkingPart) and part.content
    ]
    return Reply(
        text=text,
        calls=tuple(calls),
        usage=usage,
        money=_reported_cost(response) if usage is None else None,
        model=response.model_name or requested_model,
        ended=ended,
        refusal=refusal_in(response),
        fault=fault_in(response),
        thinking="\n\n".join([*thinking, thoughts] if thoughts else thinking),
        kept=kept_of(response, calls, secrets),
    )


def _arguments(part: theirs.ToolCallPart) -> str:
    if part.args is None:  # differs from an empty object: the reply may have been cut before them
        return ""
    return part.args if isinstance(part.args, str) else part.args_as_json_str()


def usage_of(response: theirs.ModelResponse) -> Usage | None:
    """Return the usage that a provider reported. None if it reported none, or an impossible one."""
    usage = response.usage
    is_nothing = not usage.input_tokens + usage.output_tokens
    # A reply with content has used tokens; a blocked prompt has not.
    if usage.unmeasured_requests or (
        is_nothing and (response.parts or response.state != "complete")
    ):
        return None
    if not all(0 <= count <= MOST_TOKENS for count in (usage.input_tokens, usage.output_tokens)):
        return None
    is_cached = usage.cache_read_tokens or usage.cache_write_tokens
    money = 0.0 if is_nothing else _price_of(response)
    reported_cost = _reported_cost(response)
    return Usage(
        usage.input_tokens,
        usage.output_tokens,
        money if reported_cost is None else reported_cost,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        _price_of(_uncached(response)) if is_cached else None,
    )


def _reported_cost(response: theirs.ModelResponse) -> float | None:
    """Return the charge in US dollars that OpenRouter and other gateways report.

    None if the response reports no charge.
    """
    cost = (response.provider_details or {}).get("cost")
    return float(cost) if isinstance(cost, int | float) else None


def _price_of(response: theirs.ModelResponse) -> float | None:
    """Return the cost of a reply in US dollars by the price list. None if no price is known."""
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError, AssertionError):
        return None


def _uncached(response: theirs.ModelResponse) -> theirs.ModelResponse:
    """Return a copy of a reply, with the usage that it would have without a cache."""
    usage = RequestUsage(
        input_tokens=response.usage.input_tokens, output_tokens=response.usage.output_tokens
    )
    return replace(response, usage=usage)
