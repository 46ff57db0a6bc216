"""The worker's default address of models, and the permission to send requests to a provider.

If many runs wait for a provider that is busy or unreachable, one request at a time probes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Attempt(Protocol):
    """The attempt of a round that asks a provider: its ``RoundContext``."""

    @property
    def run_id(self) -> str:
        """The run's id."""

    @property
    def step(self) -> int:
        """The number of the round."""

    @property
    def attempt(self) -> int:
        """The number of the attempt, from 1."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The worker's default for models. A flow may override it.

    Attributes:
        model: ``provider:name`` as the model library knows it, or a plain name for a server with
            OpenAI's protocol.
        url: base URL of such a server.
        key: reference to its key, ``env:NAME``. Never the key itself.
    """

    model: str | None = None
    url: str | None = None
    key: str | None = None


class Providers:
    """The permission to send requests to model providers. This default lets every round send them.

    The runtime's subclass allows one probing request per provider in the whole fleet. The argument
    ``provider`` identifies the scope of a provider's limits: an endpoint, a model and a key.
    """

    def enter(self, provider: str, attempt: Attempt) -> None:
        """Raise RetryableError if the round may not ask the provider now.

        The round calls it before its request.

        Raises:
            RetryableError: another round probes the provider. This round waits without a request,
                and no attempt is counted.
        """

    def failed(self, provider: str, attempt: Attempt, error: Exception) -> Exception:
        """Return the round's error after a failed request to a provider.

        The error says when the round may send its request again.
        """
        return error

    def answered(self, provider: str, attempt: Attempt) -> None:
        """Record that a model provider answered the round's request."""

    def left(self, provider: str, attempt: Attempt) -> None:
        """Record that a request to a provider ended without an answer."""


#: For processes that share no state about providers.
ALL_MAY_ASK = Providers()
