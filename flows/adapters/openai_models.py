"""Model requests of the OpenAI Agents SDK as steps. The steps show live text."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from agents import Model, ModelProvider, ModelResponse, ModelSettings, Usage
from agents.items import TResponseOutputItem
from openai import APIConnectionError, APIStatusError
from openai.types.responses import Response
from pydantic import TypeAdapter

from perdure.flows.adapters.openai_prices import money_of, name_of
from perdure.flows.adapters.openai_results import failed, said
from perdure.flows.core.errors import FatalError, RetryableError
from perdure.flows.rounds.context import RoundContext
from perdure.flows.workflows.steps import AsyncSteps

#: Kinds of text by the event that carries a piece.
KINDS = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "text",
    "response.reasoning_summary_text.delta": "thinking",
    "response.reasoning_text.delta": "thinking",
}
#: Events with the whole response. As without a stream, an incomplete response counts too.
ENDS = ("response.completed", "response.incomplete")
HTTP_LIBRARIES = ("httpx", "httpx2", "httpcore", "httpcore2")
FAILURES = ("response.failed", "error")
_items = TypeAdapter(list[TResponseOutputItem])
_usage = TypeAdapter(Usage)
_parameters = inspect.signature(Model.get_response)


class SteppingProvider(ModelProvider):
    """A model provider that wraps each model in a ``SteppingModel``."""

    def __init__(self, steps: AsyncSteps, inner: ModelProvider, stream: bool) -> None:
        self._steps, self.perdure_inner, self._stream = steps, inner, stream

    def get_model(self, model_name: str | None) -> Model:
        """Return the model of this name in a ``SteppingModel``.

        The inner provider makes the model. None is its default model.
        """
        return SteppingModel(self._steps, self.perdure_inner.get_model(model_name), self._stream)


class SteppingModel(Model):
    """A model whose requests are steps of the workflow. Its usage is charged to the budgets."""

    def __init__(self, steps: AsyncSteps, inner: Model, stream: bool) -> None:
        self._steps, self.perdure_inner, self._stream = steps, inner, stream

    async def get_response(self, *args: Any, **named: Any) -> ModelResponse:
        """Return the model's response.

        If the workflow has made this request before, the response comes from the journal.
        """

        async def ask(context: RoundContext) -> dict[str, Any]:
            inner, told_model = self.perdure_inner, ""
            try:
                if self._stream:
                    response, told_model = await respond(inner, context, args, named)
                else:
                    response = await inner.get_response(*args, **named)
            except (APIConnectionError, APIStatusError) as error:
                raise failed(error) from error
            usage = response.usage
            context.spend(
                tokens=usage.input_tokens + usage.output_tokens,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                requests=1,
                **money_of(usage, inner, told_model),
            )
            if name := told_model or name_of(inner):
                context.tell(model=name[:200])
            return {
                "output": _items.dump_python(response.output, mode="json", exclude_unset=True),
                "usage": _usage.dump_python(usage, mode="json"),
                "id": response.response_id,
            }

        told = await self._steps.step(
            ask,
            name="model",
            role="controller",
            idempotent=True,
            shown={},
            compared={},
            summarize=said,
        )
        return ModelResponse(
            output=_items.validate_python(told["output"]),
            usage=_usage.validate_python(told["usage"]),
            response_id=told["id"],
        )

    def stream_response(self, *args: Any, **named: Any) -> AsyncIterator[Any]:
        """Raise FatalError: a step returns its response as a whole."""
        raise FatalError(
            "a workflow gets a response as a whole; use run_agent, not run_streamed. Those who "
            "watch the run see the response as it comes"
        )


async def respond(
    model: Model, context: RoundContext, args: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[ModelResponse, str]:
    """Return a model's response. Show it as live text while it arrives.

    If the model cannot stream, request the response without a stream and show no live text.

    Args:
        args, named: the arguments of ``get_response``.

    Returns:
        The response, and the name of the model in it. The name is empty if the response has none.

    Raises:
        RetryableError: the stream ended before the response and its usage were complete, or the
            provider reported a failure in the stream.
    """
    asked = _parameters.bind(model, *args, **named)
    settings = asked.arguments["model_settings"]
    if isinstance(settings, ModelSettings) and settings.include_usage is None:
        # Without it, some providers do not report the usage of a stream.
        asked.arguments["model_settings"] = replace(settings, include_usage=True)
    events = _Events(context)
    has_begun = False
    try:
        stream: AsyncIterator[Any] = model.stream_response(*asked.args[1:], **asked.kwargs)
        async with aclosing(stream) as opened:  # type: ignore[type-var]
            async for event in opened:
                has_begun = True
                events.take(event)
    except NotImplementedError:
        if has_begun:
            raise
        return await model.get_response(*args, **named), ""
    except Exception as error:
        # The SDK hands on errors of its HTTP library if they come in the middle of a stream.
        if type(error).__module__.partition(".")[0] in HTTP_LIBRARIES:
            raise RetryableError(f"the model's stream was cut: {error}", counts=False) from error
        raise
    return events.response()


class _Events:
    """The state of one streamed response: its events so far."""

    def __init__(self, context: RoundContext) -> None:
        self._context = context
        self._tools: dict[int, str] = {}
        self._items: list[Any] = []
        self._whole: Response | None = None

    def take(self, event: Any) -> None:
        """Process an event of the stream.

        A piece of text is shown as live text. A finished item or response is stored. All other
        events are ignored.

        Raises:
            RetryableError: the event reports a failure of the model.
        """
        kind = str(getattr(event, "type", ""))
        if kind in KINDS:
            self._context.stream(event.delta, KINDS[kind])
        elif kind == "response.output_item.added" and event.item.type == "function_call":
            self._tools[event.output_index] = event.item.name
        elif kind == "response.function_call_arguments.delta":
            tool = self._tools.get(event.output_index, "")
            self._context.stream(event.delta, "arguments", tool)
        elif kind == "response.output_item.done":
            self._items.append(event.item)
        elif kind in ENDS:
            self._whole = event.response
        elif kind in FAILURES:
            response = getattr(event, "response", None)
            why = getattr(response, "error", None) or getattr(event, "message", None)
            raise RetryableError(f"the model failed in its response: {why}")

    def response(self) -> tuple[ModelResponse, str]:
        """Return the complete response and its model's name. Call it after the stream has ended.

        Raises:
            RetryableError: the stream ended before the response or its usage arrived.
        """
        whole = self._whole
        if whole is None:
            raise RetryableError("the model's stream ended before its response was complete")
        used = whole.usage
        if used is None:
            # The SDK takes the end of a stream for the end of the response, wherever it comes. The
            # usage is the last that a provider sends.
            raise RetryableError(
                "the model's stream ended without its usage: it was cut, or the provider does not "
                "tell the usage of streams. For such a provider: run_agent(..., stream=False)"
            )
        usage = Usage(
            requests=1,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            total_tokens=used.total_tokens,
            input_tokens_details=used.input_tokens_details,
            output_tokens_details=used.output_tokens_details,
        )
        response = ModelResponse(
            output=list(whole.output) or self._items, usage=usage, response_id=whole.id
        )
        return response, str(whole.model or "")
