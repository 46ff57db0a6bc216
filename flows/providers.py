"""Providers: whether a round may ask one that is busy or away. Where many runs wait for one, a single request at a time probes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flows.context import RoundContext


class Providers:
    """Lets every round ask. The engine's sees to one probing request a provider for the whole fleet.

    A provider is named by what its limits are for: an endpoint, a model and a key.
    """

    def enter(self, provider: str, context: RoundContext) -> None:
        """Call before a request.

        Raises:
            RetryableError: not counted; another round probes the provider, and this one waits without a request.
        """

    def failed(self, provider: str, context: RoundContext, error: Exception) -> Exception:
        """Return the error to raise after a request that failed; it says when this round asks again."""
        return error

    def answered(self, provider: str, context: RoundContext) -> None:
        """Call after a request that was answered."""

    def left(self, provider: str, context: RoundContext) -> None:
        """Call after a request that was given up."""


#: Where nothing is shared.
ALL_MAY_ASK = Providers()
