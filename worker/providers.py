"""Providers, as the engine knows them: rounds of the whole fleet wait for one that is busy or away, and one request at a time probes it."""

from __future__ import annotations

import logging
import random
import time

from flows.context import RoundContext
from flows.errors import RetryableError
from flows.providers import Providers
from worker.store import Store, StoreUnavailable

logger = logging.getLogger("holdfast.rounds")

#: Between probes of a provider that says nothing of when: the first wait, and the longest (ms).
FIRST, LONGEST = 1_000, 60_000
#: A probe keeps the others waiting for so long (ms); one whose worker died is followed by another then.
PROBE_LEASE = 30_000
#: While a probe is under way the others look again after at most so long (ms).
LOOK = 5_000
#: For so long after a refusal or a wait this process asks the server before each request (s). No other round pays for it.
REMEMBERED = 120.0
#: The share of a wait, and the most (s), by which rounds that go on are spread.
SPREAD, MOST_SPREAD = 0.25, 5.0


class StoreProviders(Providers):
    """One for each worker process.

    Args:
        chance: gives numbers in [0, 1).
    """

    def __init__(self, store: Store, chance: random.Random | None = None) -> None:
        self._store = store
        self._chance = chance or random.Random()
        #: Providers that may be closed, until when this is remembered (monotonic time).
        self._closed: dict[str, float] = {}

    def enter(self, provider: str, context: RoundContext) -> None:
        """See Providers. Asks the server only in an attempt that is not the first, or where the provider was closed just now."""
        if context.attempt == 1 and self._closed.get(provider, 0.0) < time.monotonic():
            return
        word, wait = self._ask("enter", provider, context, lease=PROBE_LEASE, longest=LOOK)
        if word == "go":
            self._closed.pop(provider, None)
        elif word == "wait":
            self._remember(provider)
            raise RetryableError("the provider is busy or away, and another run probes it", self._spread(wait), counts=False)

    def failed(self, provider: str, context: RoundContext, error: Exception) -> Exception:
        """See Providers."""
        if not isinstance(error, RetryableError) or error.counts:
            self.left(provider, context)
            return error
        self._remember(provider)
        own = None if error.retry_after is None else round(error.retry_after * 1000)
        word, wait = self._ask("refused", provider, context, wait=own, first=FIRST, longest=LONGEST)
        if word == "wait":
            error.retry_after = self._spread(wait)
        return error

    def answered(self, provider: str, context: RoundContext) -> None:
        """See Providers."""
        self._end("answered", provider, context)

    def left(self, provider: str, context: RoundContext) -> None:
        """See Providers."""
        self._end("left", provider, context)

    def _end(self, what: str, provider: str, context: RoundContext) -> None:
        if provider in self._closed or context.attempt > 1:
            self._ask(what, provider, context)

    def _ask(self, what: str, provider: str, context: RoundContext, **named: int | None) -> tuple[str, int]:
        holder = f"{context.run_id}:{context.step}:{context.attempt}"
        try:
            return self._store.ask_provider(what, provider, holder, **named)
        except StoreUnavailable as error:  # nothing of a run depends on it: at worst there is a request more
            logger.warning("run %s, step %d: asks its provider without looking at others: %s", context.run_id, context.step, error)
            return "unknown", 0

    def _remember(self, provider: str) -> None:
        self._closed[provider] = time.monotonic() + REMEMBERED

    def _spread(self, wait: int) -> float:
        seconds = wait / 1000
        return seconds + self._chance.random() * min(MOST_SPREAD, SPREAD * seconds)
