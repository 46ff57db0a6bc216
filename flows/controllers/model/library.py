"""The adapter on pydantic-ai: one streamed request a round, and nothing that goes on by itself. Imported where a request is made."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import groupby
from typing import Any, cast

import openai
from pydantic_ai import messages as theirs
from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import ModelAPIError, ModelConnectionError, ModelHTTPError
from pydantic_ai.models import Model as TheirModel
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from flows.controllers.model.chat import (
    AnswerMessage,
    AssistantMessage,
    ChatMessage,
    ModelFailed,
    Reply,
    RequestSettings,
    SystemMessage,
    ToolCall,
    Usage,
)
from flows.controllers.model.compatible import CompatibleChatModel
from flows.controllers.model.failures import failed, no_reply
from flows.controllers.model.library_settings import resolved
from flows.controllers.model.providers import REASON_NEEDED, http_client, model_of
from flows.controllers.model.reading import told_apart
from flows.controllers.model.responses import kept_of, response_of
from flows.controllers.model.stream_end import DoneMarker, fault_in, lacks_reason_only, reason_of, refusal_in
from flows.controllers.model.target import Target
from flows.errors import FatalError

#: At INFO these log the address of every request, and a URL may hold a key; at DEBUG whole requests.
for _name in ("httpx", "httpx2", "httpcore", "httpcore2", "openai", "anthropic"):
    logging.getLogger(_name).setLevel(logging.WARNING)

#: How errors and prices know a server that is named by its URL alone.
SERVER = "openai-compatible"
#: Seconds that a server may take to say which models it has.
NAMING_SECONDS = 30.0

#: The first model of each server, asked once a process.
_first_models: dict[str, str] = {}


class LibraryModel:
    """A model of the library, opened for one round."""

    def __init__(self, model: TheirModel, target: Target, reply_format: str, done: DoneMarker) -> None:
        self._model = model
        self._target = target
        self._format = reply_format
        self._done = done
        self._has_answered = False

    @property
    def name(self) -> str:
        """The name that it is asked by."""
        return self._model.model_name

    @property
    def provider(self) -> str:
        """Who answers; ``openai-compatible`` for a server that is named by its URL alone."""
        return self._model.system

    @property
    def has_tools(self) -> bool:
        """Whether it can call tools, as far as the library knows."""
        return bool(self._model.profile.get("supports_tools", True))

    async def request(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[Mapping[str, Any]],
        settings: RequestSettings,
        heard: Callable[[str], None],
    ) -> Reply:
        """See ``chat.Model``."""
        try:
            async with asyncio.timeout(settings.timeout_seconds):
                return await self._request(messages, tools, settings, heard)
        except (ModelFailed, FatalError):
            raise
        except Exception as error:
            name = f"{self._model.model_name!r}"
            if self._done.is_no_reply:
                raise no_reply(self._done.body, error, name, self._target.secrets()) from None
            if self._target.model is None and self._target.url is not None:
                _first_models.pop(self._target.url, None)  # it may have another by now
            if isinstance(error, TimeoutError) and not str(error):
                error = TimeoutError(f"no whole reply within {settings.timeout_seconds:g} s (timeout_seconds)")
            raise failed(error, name, self._target.secrets(), self._format, self._has_answered) from None  # the cause may show the key

    async def _request(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[Mapping[str, Any]],
        settings: RequestSettings,
        heard: Callable[[str], None],
    ) -> Reply:
        parameters = ModelRequestParameters(function_tools=[_tool(each) for each in tools])
        wanted = cast(ModelSettings, resolved(settings.more, "settings"))
        if not tools:
            wanted.pop("tool_choice", None)
        if "max_retries" not in self._model.unsupported_settings:
            wanted["max_retries"] = 0  # the due set does the retries
        if self._target.url is None and "timeout" not in self._model.unsupported_settings:
            wanted["timeout"] = settings.timeout_seconds  # a provider's own client would give up earlier
        if settings.temperature is not None:
            wanted["temperature"] = settings.temperature
        if settings.max_tokens is not None:
            wanted["max_tokens"] = settings.max_tokens
        text = ""
        stream = model_request_stream(
            self._model, _messages(messages, self._model), model_settings=wanted, model_request_parameters=parameters, instrument=False
        )
        async with stream as events:
            self._has_answered = True
            try:
                async for event in events:
                    added = _said(event)
                    if added:
                        text += added
                        heard(text)
            except ModelAPIError as error:
                if self._done.refused_call is None and not (self._done.is_seen and lacks_reason_only(error)):
                    raise
            if self._done.refused_call is not None:  # the library may have made a reply of it, which has no end
                raise ModelHTTPError(400, self._model.model_name, {"error": self._done.refused_call})
            response = events.get()
            ended = reason_of(response, self._model.model_name, self._done.is_seen)
            return _reply(response, self._model.model_name, ended, self._target.secrets())


@asynccontextmanager
async def opened(target: Target, reply_format: str, timeout_seconds: float) -> AsyncIterator[LibraryModel]:
    """The model of a target, with connections of its own, closed afterwards: a round has an event loop of its own.

    Raises:
        ModelFailed: it cannot be asked. FatalError: its key is not there.
    """
    secret = target.secret()
    done = DoneMarker()
    async with AsyncExitStack() as stack:
        try:
            if target.url is None:
                model = await model_of(
                    target.model or "", secret, resolved(target.provider or {}, "provider"), timeout_seconds, stack, done
                )
            else:
                client = await http_client(stack, done)
                provider = OpenAICompatibleProvider(SERVER, base_url=target.url, api_key=secret, http_client=client, profile=REASON_NEEDED)
                model = CompatibleChatModel(target.model or await _first_model(provider, target.url), provider=provider)
        except FatalError:
            raise
        except Exception as error:
            name = repr(target.model) if target.model else "of the server"
            raise failed(error, name, target.secrets(), reply_format, has_answered=False) from None
        yield LibraryModel(model, target, reply_format, done)


async def _first_model(provider: OpenAICompatibleProvider, url: str) -> str:
    if url not in _first_models:
        try:
            async with asyncio.timeout(NAMING_SECONDS):
                listed = await provider.client.with_options(max_retries=0).models.list()
        except openai.APIStatusError as error:
            raise ModelHTTPError(error.status_code, SERVER, error.body, headers=dict(error.response.headers)) from error
        except openai.APIConnectionError as error:
            raise ModelConnectionError(SERVER, error.message, phase="connect") from error
        names = [each.id for each in listed.data]
        if not names:
            raise FatalError("the server of model_url has no model (GET /models is empty); load one, or name it (model)")
        _first_models[url] = names[0]
    return _first_models[url]


def _tool(schema: Mapping[str, Any]) -> ToolDefinition:
    # strict=False: strict schemas are OpenAI's own, and other servers of its protocol do not know them.
    return ToolDefinition(
        name=schema["name"],
        description=schema.get("description") or None,
        parameters_json_schema=dict(schema["parameters"]),
        strict=False,
    )


def _messages(messages: Sequence[ChatMessage], model: TheirModel) -> list[theirs.ModelMessage]:
    """Ours as theirs: what stands between two replies of the model is one request."""
    found: list[theirs.ModelMessage] = []
    for is_reply, several in groupby(messages, lambda message: isinstance(message, AssistantMessage)):
        if is_reply:
            found += [
                response_of(message, model) or theirs.ModelResponse(parts=_parts(message))
                for message in several
                if isinstance(message, AssistantMessage)
            ]
        else:
            found.append(theirs.ModelRequest(parts=[_request_part(message) for message in several]))
    return found


def _parts(message: AssistantMessage) -> list[theirs.ModelResponsePart]:
    said: list[theirs.ModelResponsePart] = [theirs.TextPart(message.text)] if message.text else []
    return [*said, *(theirs.ToolCallPart(call.name, call.arguments, call.id) for call in message.calls)]


def _request_part(message: ChatMessage) -> theirs.ModelRequestPart:
    if isinstance(message, SystemMessage):
        return theirs.SystemPromptPart(message.text)
    if isinstance(message, AnswerMessage):
        return theirs.ToolReturnPart(tool_name=message.name, content=message.text, tool_call_id=message.call)
    return theirs.UserPromptPart(message.text)


def _said(event: theirs.ModelResponseStreamEvent) -> str:
    """What this event adds to the model's text or thoughts."""
    if isinstance(event, theirs.PartStartEvent) and isinstance(event.part, theirs.TextPart | theirs.ThinkingPart):
        return event.part.content
    if isinstance(event, theirs.PartDeltaEvent) and isinstance(event.delta, theirs.TextPartDelta | theirs.ThinkingPartDelta):
        return event.delta.content_delta or ""
    return ""


def _reply(response: theirs.ModelResponse, asked: str, ended: str, secrets: Sequence[str]) -> Reply:
    made = [part for part in response.parts if isinstance(part, theirs.ToolCallPart)]
    calls = told_apart([ToolCall(part.tool_call_id, part.tool_name, _arguments(part)) for part in made])
    return Reply(
        text="".join(part.content for part in response.parts if isinstance(part, theirs.TextPart)),
        calls=tuple(calls),
        usage=_usage(response),
        model=response.model_name or asked,
        ended=ended,
        refusal=refusal_in(response),
        fault=fault_in(response),
        thinking="\n\n".join(part.content for part in response.parts if isinstance(part, theirs.ThinkingPart) and part.content),
        kept=kept_of(response, calls, secrets),
    )


def _arguments(part: theirs.ToolCallPart) -> str:
    if part.args is None:  # not the same as an empty object: they may have been still to come
        return ""
    return part.args if isinstance(part.args, str) else part.args_as_json_str()


def _usage(response: theirs.ModelResponse) -> Usage | None:
    usage = response.usage
    is_nothing = not usage.input_tokens + usage.output_tokens
    # What says something has used tokens; a prompt that was blocked has not.
    if usage.unmeasured_requests or (is_nothing and (response.parts or response.state != "complete")):
        return None
    try:
        money: float | None = 0.0 if is_nothing else float(response.cost().total_price)
    except (LookupError, ValueError, AssertionError):  # no price is known
        money = None
    told = (response.provider_details or {}).get("cost")  # OpenRouter and other gateways say what they ask for
    if isinstance(told, int | float):
        money = float(told)
    return Usage(usage.input_tokens, usage.output_tokens, money, usage.cache_read_tokens)
