"""What a round tells its span, and where it asks for one. Loads nothing of OpenTelemetry: most processes trace nothing."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from flows.context import RoundContext
from worker.store import Granted, Store
from worker.telemetry.switch import is_on
from worker.transitions import Settlement

#: Where the run's hash keeps which span told of its last committed round: ``STEP:SPAN ID``.
SPAN = "span"


class RoundSpan:
    """The span of one attempt of a round; this one tells nobody."""

    def played(self, context: RoundContext) -> None:
        """The node was played; what it said of itself is in its context."""

    def fields(self, settlement: Settlement) -> Mapping[str, str]:
        """What its commit is to write beside."""
        return {}

    def outcome(self, word: str) -> None:
        """What the commit came to."""


UNTRACED = nullcontext(RoundSpan())


def round_span(store: Store, claim: Granted, owner: str) -> AbstractContextManager[RoundSpan]:
    """The span of the attempt that ``owner`` was granted, begun and ended with the block; one that tells nobody where nobody traces."""
    if not is_on():
        return UNTRACED
    from worker.telemetry.attempts import traced

    return traced(store, claim, owner)
