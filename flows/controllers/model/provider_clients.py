"""Models of providers that the model library knows by a prefix, opened for one round.

- Amazon Bedrock: the client makes one request for each attempt, with the round's time limit. The
  model library builds this client without a setting for retries, and botocore makes up to five
  attempts by itself.
- Servers with OpenAI's protocol that are configured by URL: two things are read that the model
  library ignores. OpenRouter, LiteLLM and other gateways report a request's cost in
  ``usage.cost``, which the library reads only for the prefix ``openrouter:``. Moonshot reports
  the usage in a choice.
- Groq: reasoning is sent back in the field ``reasoning`` of an assistant's message. The model
  library can put reasoning only between tags into the content, which a model reads as its own
  words. This module therefore completes the library's message, by a private method of the library.
  Without that method, the reasoning is left out.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import math
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.request import getproxies
from weakref import WeakKeyDictionary

import httpx2
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelResponse, ThinkingPart, ToolCallPart
from pydantic_ai.models import Model as TheirModel
from pydantic_ai.models import infer_model
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIStreamedResponse
from pydantic_ai.profiles import ModelProfile, merge_profile
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers import Provider, infer_provider, infer_provider_class

from perdure.flows.controllers.model.stream_end import DoneMarker

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionChunk

#: Arguments of a client. The provider's class refuses all others.
NAMES = (
    "region_name",
    "profile_name",
    "aws_access_key_id",
    "aws_secret_access_key",
    "aws_session_token",
)


def client_of(arguments: Mapping[str, Any], timeout_seconds: float) -> Any:
    """Return a client for Amazon Bedrock that sends each request once and never retries.

    Args:
        arguments: As for ``pydantic_ai.providers.bedrock.BedrockProvider``: ``api_key``,
            ``base_url``, ``region_name``, ...
        timeout_seconds: Maximum seconds to wait for data of a response.

    Raises:
        UserError: No region is set, or an argument is unknown.
    """
    import boto3
    from botocore.config import Config
    from botocore.exceptions import NoRegionError
    from botocore.session import Session
    from botocore.tokens import FrozenAuthToken

    class BearerSession(Session):  # type: ignore[misc]
        def get_auth_token(self, **_: Any) -> Any:
            """Return Amazon Bedrock's API key as a bearer token."""
            return FrozenAuthToken(arguments["api_key"])

        def get_credentials(self) -> None:
            return None

    if unknown := sorted(set(arguments) - {*NAMES, "api_key", "base_url"}):
        raise UserError(
            f"provider bedrock takes {', '.join(('api_key', 'base_url', *NAMES))}; "
            f"not {', '.join(unknown)}"
        )
    settings: dict[str, Any] = {
        "read_timeout": timeout_seconds,
        "connect_timeout": 10,
        "retries": {"total_max_attempts": 1},
    }
    of_session = {name: arguments[name] for name in NAMES if arguments.get(name) is not None}
    if arguments.get("api_key"):
        of_session["botocore_session"] = BearerSession()
        settings["signature_version"] = "bearer"
    try:
        session = boto3.Session(**of_session)
        return session.client(
            "bedrock-runtime", config=Config(**settings), endpoint_url=arguments.get("base_url")
        )
    except NoRegionError as error:
        raise UserError(
            "no region is set: set AWS_DEFAULT_REGION, or region_name under provider"
        ) from error


class CompatibleChatModel(OpenAIChatModel):
    """A model with OpenAI's protocol. Its replies have the reported cost in ``provider_details``.

    The key is ``cost``. It is missing if the server reports no cost.
    """

    @property
    def _streamed_response_cls(self) -> type[OpenAIStreamedResponse]:
        return _CompatibleStream


class _CompatibleStream(OpenAIStreamedResponse):
    def _validate_response(self) -> AsyncIterable[ChatCompletionChunk]:
        return _with_usage(super()._validate_response())

    def _map_chunk_provider_details(self, chunk: ChatCompletionChunk) -> dict[str, Any] | None:
        details = super()._map_chunk_provider_details(chunk)
        cost = None if chunk.usage is None else (chunk.usage.model_extra or {}).get("cost")
        if (
            isinstance(cost, bool)
            or not isinstance(cost, int | float)
            or not math.isfinite(cost)
            or cost < 0
        ):
            return details
        return {**(details or {}), "cost": cost}


async def _with_usage(
    chunks: AsyncIterable[ChatCompletionChunk],
) -> AsyncIterator[ChatCompletionChunk]:
    """Yield the chunks of a stream, with the usage in the field ``usage`` of the chunk.

    Moonshot reports the usage in the first item of ``choices`` instead. For a chunk without
    ``usage``, it is copied from there. If that has none either, the chunk is unchanged.
    """
    from openai.types import CompletionUsage

    async for chunk in chunks:
        if chunk.usage is None and chunk.choices:
            usage = (chunk.choices[0].model_extra or {}).get("usage")
            if isinstance(usage, Mapping):
                chunk.usage = CompletionUsage.construct(**usage)
        yield chunk


#: The library's method that converts a reply to an assistant's message.
_METHOD = "_map_model_response"
#: The attribute that marks a model whose messages are completed.
_MARK = "perdure_sends_reasoning"


def send_reasoning(model: Any) -> None:
    """Make a Groq model send back the reasoning of each earlier reply with that reply.

    This replaces the library's method that converts a reply to a message. If the model has no such
    method, nothing is changed.
    """
    to_message = getattr(model, _METHOD, None)
    if to_message is None:
        return

    def to_whole_message(response: ModelResponse) -> Any:
        """Convert a Groq reply to a message that includes its reasoning."""
        thoughts = [
            part.content
            for part in response.parts
            if isinstance(part, ThinkingPart) and part.content
        ]
        message = to_message(
            replace(
                response,
                parts=[part for part in response.parts if not isinstance(part, ThinkingPart)],
            )
        )
        return {**message, "reasoning": "\n\n".join(thoughts)} if thoughts else message

    setattr(model, _METHOD, to_whole_message)
    setattr(model, _MARK, True)


def takes_reasoning(model: Any, response: ModelResponse) -> bool:
    """Return whether the reasoning of an earlier reply is sent back to Groq.

    It must be a reply of the same model, because Groq rejects a request with reasoning for a model
    that has none. It must have tool calls: Groq drops the reasoning of other replies, as the format
    of these models requires.
    """
    if not getattr(model, _MARK, False) or response.model_name != model.model_name:
        return False
    return any(isinstance(part, ToolCallPart) for part in response.parts)


#: Maximum seconds to connect. The flow sets the time limit of the whole request.
CONNECT_SECONDS = 10.0
#: Connections without a request that a process keeps, and for how many seconds. Servers on uvicorn,
#: such as vLLM, close theirs after five.
KEPT_CONNECTIONS, KEPT_SECONDS = 20, 4.0
#: The transports that clients share, by event loop and HTTP package.
_transports: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Any]] = WeakKeyDictionary()
#: For OpenAI's protocol: a stream that ends without a reason was cut.
REASON_NEEDED = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)


@lru_cache(maxsize=1)
def trusted() -> ssl.SSLContext:
    """Return the TLS settings with the trusted certificates.

    The result is cached, because reading the certificates takes longer than a request.
    """
    return httpx2.create_ssl_context()


async def http_client(stack: AsyncExitStack, done: DoneMarker, legacy: bool = False) -> Any:
    """Open an HTTP client for a model provider. The client is closed with ``stack``.

    Its connections stay open for the next rounds of the process, so that a round does not begin
    with a TLS handshake. If the environment configures a proxy, they are closed with the client.

    Args:
        done: Watches the client's responses for the end of the reply.
        legacy: Whether to use the package ``httpx``, which some providers' packages still require.
    """
    package: Any = importlib.import_module("httpx") if legacy else httpx2
    timeout = package.Timeout(None, connect=CONNECT_SECONDS)
    # A client with a transport of its own would not use the proxies of the environment.
    transport = None if getproxies() else _kept_connections(package)
    return await stack.enter_async_context(
        package.AsyncClient(
            verify=trusted(),
            timeout=timeout,
            event_hooks={"response": [done.watch]},
            transport=transport,
        )
    )


def _kept_connections(package: Any) -> Any:
    """Return the transport of an HTTP package that all clients in this event loop share.

    Closing a client does not close it.
    """
    of_loop = _transports.setdefault(asyncio.get_running_loop(), {})
    if package.__name__ not in of_loop:

        class Kept(package.AsyncHTTPTransport):  # type: ignore[misc]
            async def __aenter__(self) -> Any:
                return self

            async def __aexit__(self, *_: object) -> None:
                """Leave the connections open."""

            async def aclose(self) -> None:
                """Leave the connections open."""

        limits = package.Limits(
            max_connections=None,
            max_keepalive_connections=KEPT_CONNECTIONS,
            keepalive_expiry=KEPT_SECONDS,
        )
        of_loop[package.__name__] = Kept(verify=trusted(), limits=limits)
    return of_loop[package.__name__]


async def model_of(
    name: str,
    secret: str | None,
    arguments: Mapping[str, Any],
    timeout_seconds: float,
    stack: AsyncExitStack,
    done: DoneMarker,
) -> TheirModel:
    """Open the model ``PROVIDER:NAME`` with the model library. It is closed with ``stack``.

    Args:
        secret: The API key. None for the provider's own variable, or no key.
        arguments: Arguments of the provider's class.
        timeout_seconds: The time limit of a request. Only the client for Bedrock uses it.
        done: Watches the responses of the provider's HTTP client.

    Raises:
        UserError: The provider is unknown, or needs more arguments.
    """
    constructor_args: dict[str, Any] = dict(arguments)

    def made(provider: str) -> Provider[Any]:
        """Create the library's object for a model provider.

        A stream of its models that ends without a reason counts as cut (REASON_NEEDED).
        """
        instance = infer_provider_class(provider)(**constructor_args)
        own_profile = instance.model_profile

        def model_profile(model_name: str) -> ModelProfile | None:
            return merge_profile(own_profile(model_name), REASON_NEEDED)

        instance.model_profile = model_profile  # type: ignore[method-assign]
        return instance

    try:
        provider = name.partition(":")[0]
        if secret is not None:
            constructor_args[
                "token"
                if "token" in _parameters_of(provider) and "api_key" not in _parameters_of(provider)
                else "api_key"
            ] = secret
        if provider == "bedrock" and _parameters_of(provider):
            constructor_args = {"bedrock_client": client_of(constructor_args, timeout_seconds)}
        elif watched := _watched(provider, stack, done):
            constructor_args["http_client"] = await watched
        model = await stack.enter_async_context(
            infer_model(name, made if constructor_args else infer_provider)
        )
        if provider == "groq":
            send_reasoning(model)
        return model
    except (TypeError, ValueError) as error:
        raise UserError(
            f"{error}; is the provider's name right, and does it need more than a key "
            "(provider, under Controller)?"
        ) from error


def _watched(provider: str, stack: AsyncExitStack, done: DoneMarker) -> Awaitable[Any] | None:
    """Return an awaitable HTTP client for a provider's class. ``done`` watches its responses.

    Returns:
        None if the class does not accept such a client.
    """
    parameters = _parameters_of(provider)
    if "http_client" not in parameters or parameters & {"hf_client", "credential_source"}:
        return None
    kind = (
        inspect.signature(infer_provider_class(provider).__init__)
        .parameters["http_client"]
        .annotation
    )
    return http_client(stack, done, legacy=str(kind).startswith("httpx."))


def _parameters_of(provider: str) -> set[str]:
    """Return the parameter names of a model provider's class.

    Returns:
        An empty set if the provider is unknown or not installed, or if a gateway chooses the class.
    """
    if provider.startswith("gateway/"):
        return set()
    try:
        return set(inspect.signature(infer_provider_class(provider).__init__).parameters)
    except (ImportError, ValueError):
        return set()
