"""The fast path: a shortcut between two rounds.

On the plain path (`NoFastPath`), a round is claimed in one request and committed in another. The
runtime installs another path from ``engine/fast/`` if the setting ``fetch`` is on, and the pool and
the broker allow it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from perdure.worker.domain.record import Record
from perdure.worker.domain.settlement import Settlement
from perdure.worker.messaging.message_builder import Sender
from perdure.worker.messaging.publisher import LazyMessage, RoundMessage
from perdure.worker.store import Claim, Prefetched

#: The attribute of a Celery task's request with the round's fast path, if it has one.
REQUEST_ATTRIBUTE = "perdure_fast_path"


class RoundCommit(NamedTuple):
    """The data of one round's commit.

    Attributes:
        record: The run, as the claim read it.
        claim: The claim of the round.
        settlement: The result of the round.
        fields: The fields of the run's hash to write.
        took: Duration of the round in ms.
        next_message: The message of the next round. None if no round follows.
    """

    record: Record
    claim: Claim
    settlement: Settlement
    fields: Mapping[str, str]
    took: int
    next_message: LazyMessage | None


class CommitResult(NamedTuple):
    """The store's reply to a commit, and the message to publish.

    Attributes:
        word: ``ok``, ``fenced``, ``missing``, ``damaged`` or ``unread`` (``Committer.commit``).
        detail: With ``ok``, the result of the commit (``continued``, ``completed``, ...). Otherwise
            a text for the log.
        message: The message to publish if the run continues or is queued again. None: nothing is to
            be published.
        prefetched: The message that the same write prefetched. None if it prefetched none.
        follow_ups: Ids of runs whose children need a follow-up. This process may do it at once.
    """

    word: str
    detail: str
    message: RoundMessage | None = None
    prefetched: Prefetched | None = None
    follow_ups: Sequence[str] = ()

    @property
    def outcome(self) -> str:
        """The result of the commit, or the reason for which the script did not commit.

        For example ``continued`` or ``completed``, or ``fenced``.
        """
        return self.detail if self.word == "ok" else self.word


class FastPath(Protocol):
    """The fast path of one round. ``RoundRunner`` and ``Committer`` call it."""

    def take_claim(self) -> Claim | None:
        """Return the round's claim, if an earlier commit of this worker claimed the round.

        Returns:
            None if the round is not claimed yet.
        """

    def is_wanted(self) -> bool:
        """Return whether the claimed round may still begin.

        It may not if its claim no longer holds the lease, or if a stop is requested.
        """

    def sender(self) -> Sender | None:
        """Return the Celery ids of this round's task.

        The next message names them as its sender.

        Returns:
            None if the caller has to read them from Celery's current task.
        """

    def commit(self, commit: RoundCommit) -> CommitResult | None:
        """Commit the round, and prefetch in the same write.

        Returns:
            None if nothing was written. The caller must commit the round without a prefetch.
        """


class NoFastPath:
    """The plain path: a round is claimed in one request and committed in another."""

    def take_claim(self) -> None:
        """Return None: the round is not claimed yet."""

    def is_wanted(self) -> bool:
        """Return True: the round has just been claimed."""
        return True

    def sender(self) -> None:
        """Return None: the caller reads the id and the root id from Celery's current task."""

    def commit(self, commit: RoundCommit) -> None:
        """Return None: the caller commits the round without a prefetch."""


NO_FAST_PATH = NoFastPath()
