"""Providers: a model of a provider that the library knows by its prefix, opened for one round."""

from __future__ import annotations

import inspect
import ssl
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

from flows.controllers.model.stream_end import DoneMarker

#: How long a connection may take to be made; the time of the whole request is the flow's to say.
TIMEOUT = httpx2.Timeout(None, connect=10.0)
#: Of OpenAI's protocol: a stream that ends without saying why was cut.
REASON_NEEDED = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)


@lru_cache(maxsize=1)
def trusted() -> ssl.SSLContext:
    """Return the certificates that are trusted: reading them takes longer than a request."""
    return httpx2.create_ssl_context()


async def http_client(stack: AsyncExitStack, done: DoneMarker) -> httpx2.AsyncClient:
    """Return an HTTP client that is closed with ``stack``, whose streams are watched for their end."""
    hooks = {"response": [done.watch]}
    return await stack.enter_async_context(httpx2.AsyncClient(verify=trusted(), timeout=TIMEOUT, event_hooks=hooks))


async def model_of(name: str, secret: str | None, stack: AsyncExitStack, done: DoneMarker) -> TheirModel:
    """Return the model ``PROVIDER:NAME``, whose connections are closed with ``stack``.

    Raises:
        UserError: the provider is unknown, or needs more than it was given.
    """
    given: dict[str, Any] = {} if secret is None else {"api_key": secret}

    def made(provider: str) -> Provider[Any]:
        found = infer_provider_class(provider)(**given)
        known = found.model_profile
        found.model_profile = lambda model_name: merge_profile(known(model_name), REASON_NEEDED)  # type: ignore[method-assign]
        return found

    try:
        if _speaks_openai(name.partition(":")[0]):
            given["http_client"] = await http_client(stack, done)
        return await stack.enter_async_context(infer_model(name, made if given else infer_provider))
    except (TypeError, ValueError) as error:
        raise UserError(f"{error}; is the provider's name right, and is an API key all that it needs?") from error


def _speaks_openai(provider: str) -> bool:
    """Return whether the provider's class makes a client of OpenAI's from an HTTP client that it is given."""
    if provider.startswith("gateway/"):  # the library chooses its own client for it
        return False
    try:
        takes = inspect.signature(infer_provider_class(provider).__init__).parameters
    except (ImportError, ValueError):
        return False
    return {"openai_client", "http_client"} <= set(takes) and "credential_source" not in takes
