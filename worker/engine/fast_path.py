"""The fast path: what a worker may do to spare work between two rounds.

The plain path claims each round by itself, and commits it by itself. `NoFastPath` is that path.
The runtime installs another one from ``engine/fast/`` if the setting ``fetch`` is on and the pool
and the broker allow it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from perdure.worker.domain.record import Record
from perdure.worker.domain.settlement import Settlement
from perdure.worker.messaging.builder import Sender
from perdure.worker.messaging.publisher import LazyMessage, RoundMessage
from perdure.worker.store import Claim, Prefetched

#: The attribute of a Celery task's request with the round's fast path, if it has one.
REQUEST_ATTRIBUTE = "perdure_fast_path"


class RoundCommit(NamedTuple):
    """What one commit writes.

    Attributes:
        record: The run as the claim read it.
        settlement: The round's result.
        fields: The fields of the run's hash to write.
        took: Duration of the round in ms.
        next_message: The message of the next round; None if the settlement has no next round.
    """

    record: Record
    claim: Claim
    settlement: Settlement
    fields: Mapping[str, str]
    took: int
    next_message: LazyMessage | None


class CommitResult(NamedTuple):
    """The store's reply to a commit.

    Attributes:
        word: ``ok``, ``fenced``, ``missing`` or ``damaged``.
        detail: With ``ok``, what the commit led to (``continued``, ``completed``, ...).
        message: What the publisher may have to publish; None if the next round needs no message.
        prefetched: The message that the same write popped for this worker.
    """

    word: str
    detail: str
    message: RoundMessage | None = None
    prefetched: Prefetched | None = None

    @property
    def outcome(self) -> str:
        """What the commit led to, or why it was refused."""
        return self.detail if self.word == "ok" else self.word


class FastPath(Protocol):
    """The fast path of one round."""

    def take_claim(self) -> Claim | None:
        """Return the round's claim if an earlier commit took it; None: it has to be claimed."""

    def is_wanted(self) -> bool:
        """Return whether the round may begin.

        False if a claim that was taken long ago may have been stopped or fenced since.
        """

    def sender(self) -> Sender | None:
        """Return the sender of the round's own message; None: it has to be looked up."""

    def commit(self, commit: RoundCommit) -> CommitResult | None:
        """Commit the round, and fetch what follows; None: it has to be committed plainly."""


class NoFastPath:
    """The plain path."""

    def take_claim(self) -> None:
        """Return None: the round has to be claimed."""

    def is_wanted(self) -> bool:
        """Return True: the round was claimed just now."""
        return True

    def sender(self) -> None:
        """Return None: the sender has to be looked up."""

    def commit(self, commit: RoundCommit) -> None:
        """Return None: the round has to be committed plainly."""


NO_FAST_PATH = NoFastPath()
