"""The waits for model providers, which all workers share.

If a provider is busy or unreachable, rounds of all workers wait for it. One round at a time sends a
request to find out whether it answers again (a probe).
"""

from __future__ import annotations

import logging
import random
import time

from perdure.flows.core.errors import RetryableError
from perdure.flows.rounds.providers import Attempt, Providers
from perdure.worker.store import Store, StoreUnavailable

logger = logging.getLogger("perdure.rounds")

#: Milliseconds between probes of a provider that names no time: the first wait, and the longest.
FIRST, LONGEST = 1_000, 60_000
#: Milliseconds that other rounds wait for a probe. If its worker dies, another probe follows then.
PROBE_LEASE = 30_000
#: Milliseconds after which other rounds check again while a probe is under way.
LOOK = 5_000
#: Seconds after a refusal or a wait in which this process asks the state server before each
#: request. Other rounds do not pay for it.
REMEMBERED = 120.0
#: The share of a wait, and the maximum in seconds, by which the rounds that continue are spread.
SPREAD, MOST_SPREAD = 0.25, 5.0


class ProviderWaits(Providers):
    """The permission of rounds in one worker process to send requests to model providers.

    If the state server does not answer, every round may send its request.

    Args:
        chance: Makes the random numbers by which waits are spread. None: a new generator.
    """

    def __init__(self, store: Store, chance: random.Random | None = None) -> None:
        self._store = store
        self._chance = chance or random.Random()
        #: Providers that may be busy, with the time until which this is remembered (monotonic).
        self._closed: dict[str, float] = {}

    def enter(self, provider: str, attempt: Attempt) -> None:
        """Raise RetryableError if a provider may not be asked.

        A round calls this before its request to a model provider. The state server is asked only in
        a retry of a round, or if the provider was busy recently. Otherwise the round may send its
        request.

        Args:
            attempt: The attempt of the round.

        Raises:
            RetryableError: The provider is busy, and another round probes it.
        """
        if attempt.attempt == 1 and self._closed.get(provider, 0.0) < time.monotonic():
            return
        word, wait = self._ask("enter", provider, attempt, lease=PROBE_LEASE, longest=LOOK)
        if word == "go":
            self._closed.pop(provider, None)
        elif word == "wait":
            self._remember(provider)
            raise RetryableError(
                "the provider is busy or away, and another run probes it",
                self._spread(wait),
                counts=False,
            )

    def failed(self, provider: str, attempt: Attempt, error: Exception) -> Exception:
        """Report a failed request, and return the error that the round has to raise.

        If the provider is busy, the error gets the seconds after which the round may ask again. Any
        other error is returned unchanged.

        Args:
            error: The error of the request.
        """
        if not isinstance(error, RetryableError) or error.counts:
            self.left(provider, attempt)
            return error
        self._remember(provider)
        own = None if error.retry_after is None else round(error.retry_after * 1000)
        word, wait = self._ask("refused", provider, attempt, wait=own, first=FIRST, longest=LONGEST)
        if word == "wait":
            error.retry_after = self._spread(wait)
        return error

    def answered(self, provider: str, attempt: Attempt) -> None:
        """Report that a provider answered a round's request.

        If the provider was not busy recently, nothing is sent.
        """
        self._end("answered", provider, attempt)

    def left(self, provider: str, attempt: Attempt) -> None:
        """Report that a round's request ended without an answer.

        If the provider was not busy recently, nothing is sent.
        """
        self._end("left", provider, attempt)

    def _end(self, what: str, provider: str, attempt: Attempt) -> None:
        if provider in self._closed or attempt.attempt > 1:
            self._ask(what, provider, attempt)

    def _ask(
        self, what: str, provider: str, attempt: Attempt, **arguments: int | None
    ) -> tuple[str, int]:
        holder = f"{attempt.run_id}:{attempt.step}:{attempt.attempt}"
        try:
            return self._store.rounds.ask_provider(what, provider, holder, **arguments)
        # The check is optional: without it at worst one more request is sent.
        except StoreUnavailable as error:
            logger.warning(
                "run %s, step %d: sends its request without checking the provider's state: %s",
                attempt.run_id,
                attempt.step,
                error,
            )
            return "unknown", 0

    def _remember(self, provider: str) -> None:
        self._closed[provider] = time.monotonic() + REMEMBERED

    def _spread(self, wait: int) -> float:
        seconds = wait / 1000
        return seconds + self._chance.random() * min(MOST_SPREAD, SPREAD * seconds)
