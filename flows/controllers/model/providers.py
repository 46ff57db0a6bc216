"""Providers: a model of a provider that the library knows by its prefix, opened for one round."""

from __future__ import annotations

import importlib
import inspect
import ssl
from collections.abc import Awaitable, Mapping
from contextlib import AsyncExitStack
from functools import lru_cache
from typing import Any

import httpx2
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model as TheirModel
from pydantic_ai.models import infer_model
from pydantic_ai.profiles import merge_profile
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers import Provider, infer_provider, infer_provider_class

from flows.controllers.model.bedrock import client_of
from flows.controllers.model.groq import send_reasoning
from flows.controllers.model.stream_end import DoneMarker

#: Seconds that a connection may take to be made; the time of the whole request is the flow's to say.
CONNECT_SECONDS = 10.0
#: Of OpenAI's protocol: a stream that ends without saying why was cut.
REASON_NEEDED = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)


@lru_cache(maxsize=1)
def trusted() -> ssl.SSLContext:
    """Return the certificates that are trusted: reading them takes longer than a request."""
    return httpx2.create_ssl_context()


async def http_client(stack: AsyncExitStack, done: DoneMarker, legacy: bool = False) -> Any:
    """Return an HTTP client that is closed with ``stack``, whose streams are watched for their end.

    Args:
        legacy: of the package ``httpx``, which some providers' own packages still take.
    """
    package: Any = importlib.import_module("httpx") if legacy else httpx2
    timeout = package.Timeout(None, connect=CONNECT_SECONDS)
    return await stack.enter_async_context(package.AsyncClient(verify=trusted(), timeout=timeout, event_hooks={"response": [done.watch]}))


async def model_of(
    name: str, secret: str | None, arguments: Mapping[str, Any], timeout_seconds: float, stack: AsyncExitStack, done: DoneMarker
) -> TheirModel:
    """Return the model ``PROVIDER:NAME``, whose connections are closed with ``stack``.

    Args:
        secret: its key; None for the provider's own variable, or none at all.
        arguments: of the provider's class.

    Raises:
        UserError: the provider is unknown, or needs more than it was given.
    """
    given: dict[str, Any] = dict(arguments)

    def made(provider: str) -> Provider[Any]:
        found = infer_provider_class(provider)(**given)
        known = found.model_profile
        found.model_profile = lambda model_name: merge_profile(known(model_name), REASON_NEEDED)  # type: ignore[method-assign]
        return found

    try:
        provider = name.partition(":")[0]
        if secret is not None:
            given["token" if "token" in _taken(provider) and "api_key" not in _taken(provider) else "api_key"] = secret
        if provider == "bedrock" and _taken(provider):
            given = {"bedrock_client": client_of(given, timeout_seconds)}
        elif watched := _watched(provider, stack, done):
            given["http_client"] = await watched
        model = await stack.enter_async_context(infer_model(name, made if given else infer_provider))
        if provider == "groq":
            send_reasoning(model)
        return model
    except (TypeError, ValueError) as error:
        raise UserError(f"{error}; is the provider's name right, and does it need more than a key (provider, under Controller)?") from error


def _watched(provider: str, stack: AsyncExitStack, done: DoneMarker) -> Awaitable[Any] | None:
    """Return an HTTP client for the provider's class to use, to be awaited; None if the class makes its own in a way of its own."""
    taken = _taken(provider)
    if "http_client" not in taken or taken & {"hf_client", "credential_source"}:
        return None
    kind = inspect.signature(infer_provider_class(provider).__init__).parameters["http_client"].annotation
    return http_client(stack, done, legacy=str(kind).startswith("httpx."))


def _taken(provider: str) -> set[str]:
    """Return what the provider's class takes; nothing where it is unknown, not installed, or the gateway chooses it."""
    if provider.startswith("gateway/"):
        return set()
    try:
        return set(inspect.signature(infer_provider_class(provider).__init__).parameters)
    except (ImportError, ValueError):
        return set()
