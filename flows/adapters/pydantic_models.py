"""Model requests of a Pydantic AI agent: usage, errors and live text."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai.messages import (
    AgentStreamEvent,
    ModelResponse,
    ModelResponsePart,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models import Model, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.tools import RunContext
from pydantic_ai.usage import RequestUsage

from perdure.flows.adapters.approvals import arguments
from perdure.flows.controllers.model.errors import failed
from perdure.flows.controllers.model.stream_repairs import count_last_usage
from perdure.flows.core.errors import BadReply, PerdureError, RetryableError
from perdure.flows.core.json_values import canonical
from perdure.flows.rounds.context import RoundContext

_response = TypeAdapter(ModelResponse)
#: The round in which a request is made.
_round: ContextVar[RoundContext | None] = ContextVar("perdure_round", default=None)

#: The library's own method, which adds up the usage of all chunks of a stream.
_sum_usage = getattr(StreamedResponse, "_add_usage", None)


def _add_usage(
    stream: StreamedResponse, usage: RequestUsage, *, reported: bool, cumulative: bool = False
) -> None:
    """Record the usage of one event of a stream. This replaces the library's method.

    In a step the last report of a server counts, because many servers report the usage so far with
    each chunk (see ``stream_repairs``). Outside of steps the library's method decides.
    """
    assert _sum_usage is not None
    if _round.get() is None or cumulative:
        _sum_usage(stream, usage, reported=reported, cumulative=cumulative)
        return
    count_last_usage(stream, partial(_sum_usage, stream))
    stream._add_usage(usage, reported=reported)


if _sum_usage is not None:
    # The steps of an agent do not see its streams, only their events and their sum.
    StreamedResponse._add_usage = _add_usage  # type: ignore[method-assign, assignment]


class ModelStep:
    """The function of a step that sends one model request. It charges the usage to the budgets.

    Args:
        body: sends the request, and returns the response as JSON data.
        is_stream: whether the request asks for a stream.
    """

    def __init__(self, body: Callable[[], Awaitable[object]], is_stream: bool) -> None:
        self._body, self._is_stream = body, is_stream

    async def __call__(self, context: RoundContext) -> object:
        before = _round.set(context)
        try:
            payload = await self._body()
        except PerdureError:
            raise
        except Exception as error:
            why = failed(error, "of the agent", ())
            raise error if isinstance(why.error, BadReply) else why.error from error
        finally:
            _round.reset(before)
        response = _response.validate_python(payload)
        usage = response.usage
        if self._is_stream and response.provider_name and usage.unmeasured_requests:
            # The library takes the end of a stream for the end of the response, wherever it comes.
            # The usage is the last that a provider sends.
            raise RetryableError(
                "the model's stream ended without its usage: it was cut, or the provider does not "
                "tell the usage of streams. For such a provider: PerdureDurability(stream=False)"
            )
        context.spend(
            tokens=usage.input_tokens + usage.output_tokens,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            requests=1,
            **_money(response),
        )
        if response.model_name:
            context.tell(model=response.model_name[:200])
        return payload


def said(payload: Any) -> str:
    """Return a response's texts and tool calls as one text. It is for people who watch the run."""
    parts = (_part_text(part) for part in _response.validate_python(payload).parts)
    return "; ".join(part for part in parts if part)


def _part_text(part: ModelResponsePart) -> str:
    if isinstance(part, ToolCallPart):
        return f"{part.tool_name} {canonical(arguments(part.args_as_dict()))}"
    return part.content if isinstance(part, TextPart) else ""


def _money(response: ModelResponse) -> dict[str, float]:
    """Return the cost of a response in US dollars, under ``money``. Empty if it is not known."""
    try:
        return {"money": float(response.cost().total_price)}
    except (LookupError, AssertionError, ValueError):
        return {}


def can_stream(model: object) -> bool:
    """Return whether a model can stream."""
    while isinstance(model, WrapperModel):
        model = model.wrapped
    if getattr(model, "stream_function", model) is None:
        return False  # a FunctionModel with a plain function
    return isinstance(model, Model) and type(model).request_stream is not Model.request_stream


async def show(run_context: RunContext[Any], events: AsyncIterable[AgentStreamEvent]) -> None:
    """Show the events of a model's response as live text. Outside of a step, do nothing."""
    context = _round.get()
    if context is None:
        return
    tools: dict[int, str] = {}
    async for event in events:
        match event:
            case PartStartEvent(index=index, part=ToolCallPart(tool_name=name, args=args)):
                tools[index] = name
                context.stream(_json(args), "arguments", name)
            case PartStartEvent(part=TextPart(content=text) | ThinkingPart(content=text) as part):
                context.stream(text, "text" if isinstance(part, TextPart) else "thinking")
            case PartDeltaEvent(index=index, delta=ToolCallPartDelta(args_delta=args)):
                context.stream(_json(args), "arguments", tools.get(index, ""))
            case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                context.stream(text)
            case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=thought)):
                context.stream(thought or "", "thinking")


def _json(args: Any) -> str:
    """Return a piece of a call's arguments as text. None gives an empty text.

    Some providers send all arguments in one piece, as an object.
    """
    return args if isinstance(args, str) else "" if args is None else json.dumps(args)
