"""The use of providers' prompt caches. Some providers use their cache only on request.

A provider with a cache reads the beginning of a recently sent prompt for a tenth of the price.
Anthropic, Bedrock and OpenRouter (for models of Anthropic and Google) do so only if the request
says so. A flow changes this with ``settings: {cache: ...}``, or with the provider's own settings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pydantic_ai.messages import CachePoint, UserContent
from pydantic_ai.models import Model

from perdure.flows.controllers.model.chat import UserMessage
from perdure.flows.controllers.model.provider_files import content_with_files

#: Providers that have to be asked, by the library's name of the system.
_MUST_BE_ASKED = frozenset({"anthropic", "bedrock", "openrouter"})
#: Those among them that can end the cached part within the last message.
_TAKES_POINTS = frozenset({"anthropic", "bedrock"})
#: OpenAI's host. Other servers of its protocol may refuse a setting that they do not know.
_OPENAI_HOST = "api.openai.com"
#: The library's settings that ask Anthropic for a cache with marks in the request's parts. A server
#: of another owner may not know the newer way, which is one mark for the whole request.
_MARKS = ("anthropic_cache_instructions", "anthropic_cache_tool_definitions")
_MARK_OF_MESSAGES = "anthropic_cache_messages"
_ANTHROPIC_HOST = "api.anthropic.com"


def with_caching(options: Mapping[str, Any], model: Model, run_id: str) -> dict[str, Any]:
    """Return a request's settings, completed by settings that make the provider use its cache.

    Args:
        options: The settings of the flow. They have precedence: if any of them is about a cache,
            nothing is added.
        run_id: The id of the run. All requests of a run share a cache.
    """
    if any(_is_about_a_cache(name) for name in options):
        return dict(options)
    host = urlsplit(str(getattr(model, "base_url", "") or "")).hostname or ""
    if model.system == "openai" and host == _OPENAI_HOST:
        # It sends requests with the same key to the same machine, which has the run's prompt.
        key = hashlib.sha256(run_id.encode()).hexdigest()[:32]
        return {**options, "openai_prompt_cache_key": key}
    if model.system not in _MUST_BE_ASKED:
        return dict(options)
    if model.system == "anthropic" and host and host != _ANTHROPIC_HOST:
        return {**options, **dict.fromkeys((*_MARKS, _MARK_OF_MESSAGES), True)}
    return {**options, "cache": True}


def _is_about_a_cache(name: str) -> bool:
    return "cache" in name and not name.endswith("_diagnostics")


def is_asked_for(options: Mapping[str, Any]) -> bool:
    """Return whether a request's settings ask the provider to use its cache."""
    return any(_is_about_a_cache(name) and value for name, value in options.items())


def content_of(message: UserMessage, model: Model, caches: bool) -> str | list[UserContent]:
    """Return a user message's content, with a cache mark after the part that later requests repeat.

    Without the mark, the provider would cache the message as a whole, and the next request would
    not match it. There is no mark if the whole message is repeated, or if the provider does not
    accept marks.

    Args:
        caches: Whether the request asks the provider to use its cache.
    """
    repeated = message.repeated
    if repeated is None or not caches or model.system not in _TAKES_POINTS:
        return content_with_files(message.text, message.files)
    before, after = message.text[:repeated], message.text[repeated:].strip()
    shown = content_with_files(before, message.files)
    pieces = shown if isinstance(shown, list) else [shown] if shown else []
    return [*pieces, CachePoint(), after]
