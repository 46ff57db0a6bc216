"""The fast path: a shortcut between two rounds of a worker.

The plain path claims each round by itself, and commits it by itself. `NoFastPath` is that path.
The runtime installs another one from ``engine/fast/`` if the setting ``fetch`` is on and the pool
and the broker allow it.
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
    """One commit of a round.

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
        word: ``ok``, ``fenced``, ``missing``, ``damaged`` or ``unread`` (``Committer.commit``).
        detail: With ``ok``, the result of the commit (``continued``, ``completed``, ...).
        message: Message that may have to be published. None if the next round needs no message.
        prefetched: The message that the same write popped for this worker.
        follow_ups: Ids of runs with follow-ups for their children, which this process may do at
            once.
    """

    word: str
    detail: str
    message: RoundMessage | None = None
    prefetched: Prefetched | None = None
    follow_ups: Sequence[str] = ()

    @property
    def outcome(self) -> str:
        """The result of a round's commit, or the refusal.

        For example ``continued`` or ``completed``, or ``fenced``.
        """
        return self.detail if self.word == "ok" else self.word


class FastPath(Protocol):
    """The fast path of one round."""

    def take_claim(self) -> Claim | None:
        """Return the round's claim if an earlier commit of this worker took it.

        Returns:
            None if the round still has to be claimed.
        """

    def is_wanted(self) -> bool:
        """Return whether a claimed round may still begin.

        It may not if its run may have been stopped, or its claim fenced, since the claim was taken.
        """

    def sender(self) -> Sender | None:
        """Return the sender's Celery ids for the next message.

        Returns:
            None if the ids have to be looked up in Celery's current task.
        """

    def commit(self, commit: RoundCommit) -> CommitResult | None:
        """Commit the round, and prefetch in the same write.

        Returns:
            None if the round has to be committed without a prefetch.
        """


class NoFastPath:
    """The plain path: each round is claimed and committed by itself."""

    def take_claim(self) -> None:
        """Return None: no earlier commit has taken the claim."""

    def is_wanted(self) -> bool:
        """Return True: the round was claimed just now."""
        return True

    def sender(self) -> None:
        """Return None: Celery's current task has the sender's ids."""

    def commit(self, commit: RoundCommit) -> None:
        """Return None: the round is committed without a prefetch."""


NO_FAST_PATH = NoFastPath()
