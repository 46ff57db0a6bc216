"""The adapter to pydantic-ai: one streamed request in each round, without retries of the library.

This module is imported only when a request is sent.
"""

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
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from perdure.flows.controllers.model.chat import (
    AnswerMessage,
    AssistantMessage,
    ChatMessage,
    ModelFailed,
    Piece,
    Reply,
    RequestSettings,
    SystemMessage,
    Usage,
    UserMessage,
)
from perdure.flows.controllers.model.endpoint import Target
from perdure.flows.controllers.model.errors import error_of_event, failed, no_reply, refusal_of
from perdure.flows.controllers.model.prompt_cache import content_of, is_asked_for, with_caching
from perdure.flows.controllers.model.provider_clients import (
    REASON_NEEDED,
    CompatibleChatModel,
    http_client,
    model_of,
)
from perdure.flows.controllers.model.provider_files import (
    is_refused_here,
    shown_in,
    with_files_named,
)
from perdure.flows.controllers.model.provider_replies import piece_of, reply_of
from perdure.flows.controllers.model.provider_settings import resolved
from perdure.flows.controllers.model.responses import response_of
from perdure.flows.controllers.model.stream_end import (
    DoneMarker,
    lacks_reason_only,
    reason_of,
)
from perdure.flows.controllers.model.stream_repairs import repair, with_input_of
from perdure.flows.core.errors import FatalError

#: At INFO these loggers write the address of every request, and a URL may contain a key. At DEBUG
#: they write whole requests.
for _name in ("httpx", "httpx2", "httpcore", "httpcore2", "openai", "anthropic"):
    logging.getLogger(_name).setLevel(logging.WARNING)

#: The provider's name in errors and prices for a server that is configured only by its URL.
SERVER = "openai-compatible"
#: Maximum seconds for a server to list its models.
NAMING_SECONDS = 30.0

#: The first model of each server by URL, requested once a process.
_first_models: dict[str, str] = {}


class LibraryModel:
    """A pydantic-ai model, opened for one round.

    Args:
        reply_format: The flow's setting ``reply``.
        done: Watches the responses of the model's HTTP client.
    """

    def __init__(
        self, model: TheirModel, target: Target, reply_format: str, done: DoneMarker
    ) -> None:
        self._model = model
        self._target = target
        self._format = reply_format
        self._done = done
        self._has_answered = self._has_content = False

    @property
    def name(self) -> str:
        """The model's name in requests to its provider."""
        return self._model.model_name

    @property
    def provider(self) -> str:
        """The name of the model's provider in the model library.

        It is ``openai-compatible`` for a server that is configured only by its URL.
        """
        return self._model.system

    @property
    def has_tools(self) -> bool:
        """Whether the model can call tools, as the model library says."""
        return bool(self._model.profile.get("supports_tools", True))

    async def request(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[Mapping[str, Any]],
        settings: RequestSettings,
        on_piece: Callable[[Piece], None],
    ) -> Reply:
        """Send one request to the model, and return its reply (see ``chat.Model``).

        Raises:
            ModelFailed: There is no reply.
            FatalError: A secret to which the settings refer is missing.
        """
        try:
            async with asyncio.timeout(settings.timeout_seconds):
                return await self._request(messages, tools, settings, on_piece)
        except (ModelFailed, FatalError):
            raise
        except Exception as error:
            name = f"{self._model.model_name!r}"
            # The library may have read the event itself, and knows the error's class better.
            has_read = isinstance(error, ModelHTTPError) or (
                isinstance(error, ModelAPIError)
                and error.in_stream
                and not lacks_reason_only(error)
            )
            if self._done.error is not None and not has_read:
                error = error_of_event(self._done.error, self._model.model_name)
            if words := refusal_of(error, self._target.secrets()):
                usage = None if self._has_content else Usage(0, 0, 0.0)
                return Reply("", (), usage, self._model.model_name, "content_filter", refusal=words)
            if self._done.is_no_reply:
                raise no_reply(self._done.body, error, name, self._target.secrets()) from None
            if self._target.model is None and self._target.url is not None:
                # The server may have another model by now.
                _first_models.pop(self._target.url, None)
            if isinstance(error, TimeoutError) and not str(error):
                error = TimeoutError(
                    f"no complete reply within {settings.timeout_seconds:g} s (timeout_seconds)"
                )
            files = shown_in(messages)
            if files and not self._has_answered and is_refused_here(error):
                # As any other request that cannot be sent.
                error = ValueError(f"{type(error).__name__}: {error}")
            failure = failed(
                error,
                name,
                self._target.secrets(),
                self._format,
                self._has_answered,
                self._has_content,
            )
            # The cause is suppressed, because it may show the key.
            raise with_files_named(failure, files) from None

    async def _request(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[Mapping[str, Any]],
        settings: RequestSettings,
        on_piece: Callable[[Piece], None],
    ) -> Reply:
        parameters = ModelRequestParameters(function_tools=[_tool(each) for each in tools])
        own = resolved(settings.more, "settings")
        options = cast(ModelSettings, with_caching(own, self._model, settings.run_id))
        if not tools:
            options.pop("tool_choice", None)
        if "max_retries" not in self._model.unsupported_settings:
            options["max_retries"] = 0  # retries go through the due set
        if self._target.url is None and "timeout" not in self._model.unsupported_settings:
            # A provider's own client would give up earlier.
            options["timeout"] = settings.timeout_seconds
        if settings.temperature is not None:
            options["temperature"] = settings.temperature
        if settings.max_tokens is not None:
            options["max_tokens"] = settings.max_tokens
        tools_of: dict[int, str] = {}
        stream = model_request_stream(
            self._model,
            _messages(messages, self._model, is_asked_for(options)),
            model_settings=options,
            model_request_parameters=parameters,
            instrument=False,
        )
        async with stream as events:
            self._has_answered = True
            parts = repair(events)
            first_usage: RequestUsage | None = None
            try:
                async for event in events:
                    first_usage = first_usage or events.usage
                    piece = piece_of(event, tools_of)
                    if piece is not None and (piece.text or piece.tool):
                        self._has_content = True
                    if piece is not None and piece.text:
                        on_piece(piece)
            except ModelAPIError as error:
                if self._done.refused_call is None and not (
                    self._done.is_seen and lacks_reason_only(error)
                ):
                    raise
            for event in parts.flush() if parts is not None else ():
                piece = piece_of(event, tools_of)
                if piece is not None:
                    on_piece(piece)
            if self._done.refused_call is not None:
                # The library may have made an incomplete reply of it.
                raise ModelHTTPError(
                    400, self._model.model_name, {"error": self._done.refused_call}
                )
            if self._done.error is not None:
                raise error_of_event(self._done.error, self._model.model_name)
            response = with_input_of(first_usage, events.get())
            knows_all = isinstance(self._model, OpenAIResponsesModel)
            ended = reason_of(response, self._model.model_name, self._done.is_seen, knows_all)
            return reply_of(response, self._model.model_name, ended, self._target.secrets())


@asynccontextmanager
async def opened(
    target: Target, reply_format: str, timeout_seconds: float
) -> AsyncIterator[LibraryModel]:
    """Open a model, and close its client after the ``with`` block.

    The connections to a provider stay open for the next rounds, if the provider's class accepts an
    HTTP client of ours.

    Args:
        reply_format: The flow's setting ``reply``, for errors.
        timeout_seconds: The time limit of a request, for clients that need it at their creation.

    Raises:
        ModelFailed: The model cannot be used, or its key is missing.
    """
    done = DoneMarker()
    async with AsyncExitStack() as stack:
        try:
            secret = target.secret()
            if target.url is None:
                model = await model_of(
                    target.model or "",
                    secret,
                    resolved(target.provider or {}, "provider"),
                    timeout_seconds,
                    stack,
                    done,
                )
            else:
                client = await http_client(stack, done)
                provider = OpenAICompatibleProvider(
                    SERVER,
                    base_url=target.url,
                    api_key=secret,
                    http_client=client,
                    profile=REASON_NEEDED,
                )
                model = CompatibleChatModel(
                    target.model or await _first_model(provider, target.url), provider=provider
                )
        except FatalError as error:
            raise ModelFailed(error, billed=False) from None
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
            raise ModelHTTPError(
                error.status_code, SERVER, error.body, headers=dict(error.response.headers)
            ) from error
        except openai.APIConnectionError as error:
            raise ModelConnectionError(SERVER, error.message, phase="connect") from error
        names = [each.id for each in listed.data]
        if not names:
            raise FatalError(
                "the server of model_url lists no model (GET /models is empty); load one, "
                "or set model"
            )
        _first_models[url] = names[0]
    return _first_models[url]


def _tool(schema: Mapping[str, Any]) -> ToolDefinition:
    # Strict schemas are specific to OpenAI. Other servers of its protocol do not know them.
    return ToolDefinition(
        name=schema["name"],
        description=schema.get("description") or None,
        parameters_json_schema=dict(schema["parameters"]),
        strict=False,
    )


def _messages(
    messages: Sequence[ChatMessage], model: TheirModel, caches: bool = False
) -> list[theirs.ModelMessage]:
    """Convert chat messages to the model library's messages.

    All messages between two replies of the model become one request.

    Args:
        caches: Whether the request asks the provider to use its cache.
    """
    converted: list[theirs.ModelMessage] = []
    for is_reply, batch in groupby(messages, lambda message: isinstance(message, AssistantMessage)):
        if is_reply:
            converted += [
                response_of(message, model) or theirs.ModelResponse(parts=_parts(message))
                for message in batch
                if isinstance(message, AssistantMessage)
            ]
        else:
            converted.append(
                theirs.ModelRequest(
                    parts=[_request_part(message, model, caches) for message in batch]
                )
            )
    return converted


def _parts(message: AssistantMessage) -> list[theirs.ModelResponsePart]:
    text_parts: list[theirs.ModelResponsePart] = (
        [theirs.TextPart(message.text)] if message.text else []
    )
    return [
        *text_parts,
        *(theirs.ToolCallPart(call.name, call.arguments, call.id) for call in message.calls),
    ]


def _request_part(message: ChatMessage, model: TheirModel, caches: bool) -> theirs.ModelRequestPart:
    if isinstance(message, SystemMessage):
        return theirs.SystemPromptPart(message.text)
    if isinstance(message, AnswerMessage):
        return theirs.ToolReturnPart(
            tool_name=message.name, content=message.text, tool_call_id=message.call
        )
    assert isinstance(message, UserMessage)
    return theirs.UserPromptPart(content_of(message, model, caches))
