"""Target: which model a request goes to, where that is, and by which key."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flows.endpoint import Endpoint
from flows.errors import FatalError
from flows.secrets import known_secrets, secret_of, secrets_in
from flows.values import canonical

#: Looked at where a worker names a server and no key, as every client of that protocol does.
DEFAULT_KEY = "OPENAI_API_KEY"
UNNAMED = (
    "no model is named: say `holdfast worker --model PROVIDER:NAME`, or --model-url for a server that speaks OpenAI's protocol "
    "(settings model and model_url), or give the flow a model under subflows_config.Controller"
)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes.

    Attributes:
        model: ``provider:name`` where there is no ``url``, else the server's own name for it; None: the first that the server has.
        url: base URL of a server that speaks OpenAI's protocol.
        key: reference to the key (``env:NAME``); None for the provider's own variable, or none at all.
        by_default: use ``DEFAULT_KEY`` if this process has it.
        provider: arguments of the provider's class, with references to secrets in place of secrets.
    """

    model: str | None
    url: str | None = None
    key: str | None = None
    by_default: bool = False
    provider: Mapping[str, Any] | None = None

    @property
    def limits(self) -> str:
        """A name for what a provider's limits are for: endpoint, model and key. It tells none of them."""
        return hashlib.sha256(f"{self.url} {self.model} {self.key} {canonical(dict(self.provider or {}))}".encode()).hexdigest()[:16]

    def secret(self) -> str | None:
        """The key, looked up now; raises FatalError if it is named and not there."""
        if self.key is not None:
            return secret_of(self.key, "the model's key")
        return (os.environ.get(DEFAULT_KEY) or None) if self.by_default else None

    def secrets(self) -> list[str]:
        """Whatever must not be told of this target, as far as this process has it."""
        named = os.environ.get(self.key.removeprefix("env:"), "") if self.key else ""
        urls = [self.url, *(value for value in (self.provider or {}).values() if isinstance(value, str) and "://" in value)]
        in_urls = [secret for url in urls for secret in secrets_in(url)]
        keys = [value for name, value in os.environ.items() if name.endswith(("_API_KEY", "_TOKEN", "_SECRET_ACCESS_KEY"))]
        return [text for text in (named, named.strip(), *keys, *in_urls, *known_secrets()) if text]


def target_of(model: str | None, url: str | None, key: str | None, endpoint: Endpoint) -> Target:
    """Where a flow's requests go: its own ``model``, ``url`` and ``key`` win over what its worker says.

    A flow's own server gets no key that the flow has not named: a worker's key is for the worker's endpoint.

    Raises:
        FatalError: nobody names a model.
    """
    if url is not None:
        return Target(model, url, key)
    name, place = model or endpoint.model, endpoint.url
    if name is None and place is None:
        raise FatalError(UNNAMED)
    if model is not None and place is not None and _is_of_a_provider(model):
        return Target(model, None, key)
    if place is not None:
        return Target(name, place, key or endpoint.key, by_default=key is None and endpoint.key is None)
    own = model is not None and model != endpoint.model
    return Target(name, None, key or (None if own else endpoint.key))


def _is_of_a_provider(model: str) -> bool:
    """Whether the model library knows what stands before the colon; many a server's own names have one too (``llama3:8b``)."""
    provider, colon, _ = model.partition(":")
    if not colon:
        return False
    from pydantic_ai.providers import infer_provider_class

    try:
        infer_provider_class(provider)
    except ValueError:
        return False
    except ImportError:  # it knows the provider, whose own package is not installed
        return True
    return True
