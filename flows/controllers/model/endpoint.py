"""The target of a request: the model, its server and the key."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perdure.flows.core.errors import FatalError
from perdure.flows.core.json_values import canonical
from perdure.flows.core.secrets import known_secrets, secret_of, secrets_in
from perdure.flows.rounds.providers import Endpoint

#: The variable used if a worker configures a server and no key, as every client of that protocol
#: does.
DEFAULT_KEY = "OPENAI_API_KEY"
UNNAMED = (
    "no model is configured: use `perdure worker --model PROVIDER:NAME`, "
    "or --model-url for a server that speaks OpenAI's protocol "
    "(settings model and model_url), or set model under subflows_config.Controller in the flow"
)


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a model request.

    Attributes:
        model: ``provider:name`` without ``url``, else the server's own name of the model. None: the
            first model of the server.
        url: Base URL of a server that speaks OpenAI's protocol. None: the provider's own servers.
        key: Reference to the key (``env:NAME``). None for the provider's own variable, or no key.
        by_default: Whether to use the variable ``DEFAULT_KEY`` if there is no ``key`` and this
            process has that variable.
        provider: Arguments of the provider's class. They have references to secrets instead of
            secrets. None: the library's defaults.
    """

    model: str | None
    url: str | None = None
    key: str | None = None
    by_default: bool = False
    provider: Mapping[str, Any] | None = None

    @property
    def limits(self) -> str:
        """An id for the rate limits of this target. Targets with the same id share rate limits.

        It is a hash of URL, model, key reference and provider, so it reveals none of them.
        """
        return hashlib.sha256(
            f"{self.url} {self.model} {self.key} {canonical(dict(self.provider or {}))}".encode()
        ).hexdigest()[:16]

    def secret(self) -> str | None:
        """Return the API key, read from the environment now.

        Returns:
            None if no key is configured.

        Raises:
            FatalError: A key is configured, but the environment of this process does not have it.
        """
        if self.key is not None:
            return secret_of(self.key, "the model's key")
        return (os.environ.get(DEFAULT_KEY) or None) if self.by_default else None

    def secrets(self) -> list[str]:
        """Return the secrets that no text may show, such as API keys and passwords."""
        named = os.environ.get(self.key.removeprefix("env:"), "") if self.key else ""
        urls = [
            self.url,
            *(
                value
                for value in (self.provider or {}).values()
                if isinstance(value, str) and "://" in value
            ),
        ]
        in_urls = [secret for url in urls for secret in secrets_in(url)]
        keys = [
            value
            for name, value in os.environ.items()
            if name.endswith(("_API_KEY", "_TOKEN", "_SECRET_ACCESS_KEY"))
        ]
        return [text for text in (named, named.strip(), *keys, *in_urls, *known_secrets()) if text]


def target_of(model: str | None, url: str | None, key: str | None, endpoint: Endpoint) -> Target:
    """Return the target (model, server and key) of a flow's requests.

    The flow's own ``model``, ``url`` and ``key`` have precedence over the worker's ``endpoint``.
    But a server that the flow configures gets only a key that the flow configures: the worker's key
    is for the worker's own server.

    Raises:
        FatalError: No model is configured.
    """
    if url is not None:
        return Target(model, url, key)
    name, worker_url = model or endpoint.model, endpoint.url
    if name is None and worker_url is None:
        raise FatalError(UNNAMED)
    if model is not None and worker_url is not None and is_of_a_provider(model):
        return Target(model, None, key)
    if worker_url is not None:
        return Target(
            name, worker_url, key or endpoint.key, by_default=key is None and endpoint.key is None
        )
    own = model is not None and model != endpoint.model
    return Target(name, None, key or (None if own else endpoint.key))


def is_of_a_provider(model: str) -> bool:
    """Return whether a model's name begins with a provider that the model library knows.

    A colon is not enough: the own model names of many servers contain one, too (``llama3:8b``).
    """
    provider, colon, _ = model.partition(":")
    if not colon:
        return False
    from pydantic_ai.providers import infer_provider_class

    try:
        infer_provider_class(provider)
    except ValueError:
        return False
    except ImportError:  # the provider is known, but its package is not installed
        return True
    return True
