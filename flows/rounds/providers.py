"""The worker's default model, and the admission of requests to model providers.

While a provider is busy or unreachable, the runs that need it wait, and one request at a time
probes the provider.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Attempt(Protocol):
    """The attributes that a request to a provider needs of its attempt.

    A ``RoundContext`` has them, and can be passed as one."""

    @property
    def run_id(self) -> str:
        """The run's id."""

    @property
    def step(self) -> int:
        """The step of the round."""

    @property
    def attempt(self) -> int:
        """The number of the attempt within its step, from 1."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The default model of a worker, with its server and key. A flow may name others.

    Attributes:
        model: ``provider:name`` as the model library knows it, or a plain name for a server with
            OpenAI's protocol.
        url: base URL of a server with OpenAI's protocol.
        key: reference to the server's key, ``env:NAME``. Never the key itself.
    """

    model: str | None = None
    url: str | None = None
    key: str | None = None


class Providers:
    """The admission of requests to model providers. This default admits every request.

    The runtime's subclass holds requests back while a provider is busy or unreachable. Then one
    request in the whole fleet probes the provider. The argument ``provider`` identifies the scope
    of a provider's limits: an endpoint, a model and a key.
    """

    def enter(self, provider: str, attempt: Attempt) -> None:
        """Raise RetryableError if the round must not send its request now.

        The round calls this before each request. This default never raises.

        Raises:
            RetryableError: another round probes the provider. This round is tried again later, and
                the attempt is not counted.
        """

    def failed(self, provider: str, attempt: Attempt, error: Exception) -> Exception:
        """Return the error that the round raises after a failed request.

        This default returns ``error`` unchanged. If the provider is busy, the runtime's subclass
        sets the time after which the round may send its request again.
        """
        return error

    def answered(self, provider: str, attempt: Attempt) -> None:
        """Record that a provider answered the round's request. This default does nothing."""

    def left(self, provider: str, attempt: Attempt) -> None:
        """Record that a request ended without an answer. This default does nothing."""


#: For processes that share no state about providers.
ALL_MAY_ASK = Providers()
