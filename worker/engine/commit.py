"""The commit of a round: one write for its result and the message of the next round."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from perdure.worker.domain.record import Record
from perdure.worker.domain.settle import completed
from perdure.worker.domain.settlement import Settlement
from perdure.worker.engine.drain import Drain
from perdure.worker.engine.fast_path import NO_FAST_PATH, CommitResult, FastPath, RoundCommit
from perdure.worker.engine.round import Round
from perdure.worker.logs import log_safely
from perdure.worker.messaging.callbacks import ENDS, ON_END, Callbacks
from perdure.worker.messaging.follow_ups import FollowUps
from perdure.worker.messaging.publisher import LazyMessage, Publisher, RoundMessage
from perdure.worker.store import PrefetchRequest, Store, StoreUnavailable
from perdure.worker.store.keys import role_of

T = TypeVar("T")
logger = logging.getLogger("perdure.rounds")

#: Seconds for which a commit is retried while the server is away, longer than a restart or a
#: failover takes.
COMMIT_PATIENCE = 300.0
COMMIT_PAUSE = 0.5
#: The same limit once a shutdown has begun: the caller of the shutdown waits, usually for 30
#: seconds.
DRAIN_PATIENCE = 10.0


class Committer:
    """Commits the rounds of one worker process.

    Args:
        drain: Whether the worker shuts down.
        callbacks: Publishes the callbacks of ended runs. None: the sweeps publish them.
    """

    def __init__(
        self, store: Store, publisher: Publisher, drain: Drain, callbacks: Callbacks | None = None
    ) -> None:
        self._store = store
        self._publisher = publisher
        self._drain = drain
        self._callbacks = callbacks
        self._follow_ups = FollowUps(store, publisher)

    def commit(
        self,
        round_: Round,
        settlement: Settlement,
        took: int,
        fast: FastPath = NO_FAST_PATH,
    ) -> str:
        """Commit a round, and publish the message that follows.

        It is the message of the run's next round, or the callback of a run that has ended. Without
        an outbox, the commit script itself pushes the message of the next round.

        Args:
            settlement: The result of the round, without the other writes (``round_.beside``).
            took: Duration of the round in ms.
            fast: The round's fast path. It commits the round if it can.

        Returns:
            The result of the commit: ``continued``, ``completed``, ... If the script did not commit
            the round: ``fenced``, ``missing``, ``damaged`` or ``unread``. With ``unread``, the run
            cannot end yet, because it has unread messages.

        Raises:
            StoreUnavailable: The server was away for too long.
        """
        record = round_.record
        settlement = completed(record, settlement, round_.beside)
        message = self._next_message(round_, settlement, fast)
        fields = settlement.fields
        if message is not None:
            fields = {**fields, "task": message.task, "queue": message.queue}
        if settlement.kind == "next" and not settlement.renews:
            # Unchanged fields are left out. With other kinds they may have to be written again,
            # after something removed them.
            fields = {
                name: text for name, text in fields.items() if record.fields.get(name) != text
            }
        commit = RoundCommit(record, round_.claim, settlement, fields, took, message)
        result = fast.commit(commit) or self.write(commit)
        self._follow_up(commit, result, round_.beside.raised)
        return result.outcome

    def write(self, commit: RoundCommit, fetch: PrefetchRequest | None = None) -> CommitResult:
        """Write a round's commit with commit_round.lua. Retry while the server is away.

        Args:
            fetch: The prefetch in the same script. None: no prefetch.

        Raises:
            StoreUnavailable: The server was away for too long.
        """
        record, settlement = commit.record, commit.settlement
        options = dict(settlement.options)
        if commit.next_message is not None:
            message = commit.next_message.message
            options["message"] = message.text
        if commit.next_message is None or settlement.kind == "short":
            message = _own_message(record)
            # The run kept its worker, so its message was never written. Now another worker has to
            # push it: at once, or when the retry is due. That worker may be an older version, which
            # cannot build it.
            if settlement.kind in ("give_back", "park", "short", "failed") and not message.text:
                message = self._publisher.message(
                    role_of(message.queue), record.id, record.epoch, record.step
                )
                options["own"] = message.text
        reply = self.retry_while_away(
            record,
            lambda: self._store.rounds.commit_and_fetch(
                record.id,
                epoch=record.epoch,
                step=record.step,
                token=commit.claim.token,
                claim=commit.claim.id,
                kind=settlement.kind,
                fields=commit.fields,
                additions=settlement.additions,
                artifacts=settlement.artifacts,
                idempotency_key=record.fields.get("idem"),
                took=commit.took,
                fetch=fetch,
                **options,
            ),
            is_result=settlement.kind != "give_back",
        )
        return CommitResult(reply.word, reply.detail, message, reply.prefetched, reply.follow_ups)

    def retry_while_away(self, record: Record, ask: Callable[[], T], is_result: bool = True) -> T:
        """Call ``ask`` until the server replies. Return the reply.

        Args:
            record: The run, for the log.
            ask: Sends the request, and returns the reply.
            is_result: Whether the result of a round would be lost without a reply. If not, a worker
                that shuts down does not retry, because the lease then ends by itself.

        Raises:
            StoreUnavailable: The server was away for too long.
        """
        began = time.monotonic()
        what = ""
        while True:
            try:
                reply = ask()
            except StoreUnavailable as error:
                if time.monotonic() > self._patience_ends(began, is_result):
                    self._store.outage.dropped(what)
                    raise
                waits = "the result waits to be committed" if is_result else "the release waits"
                what = f"run {record.id}, step {record.step}: {waits}"
                self._store.outage.failed(what, error)
                time.sleep(COMMIT_PAUSE)
            else:
                if what:
                    self._store.outage.passed(what)
                return reply

    def _next_message(
        self, round_: Round, settlement: Settlement, fast: FastPath
    ) -> LazyMessage | None:
        next_round = settlement.message
        if next_round is None:
            return None
        return self._publisher.draft(
            round_.nodes[next_round.node],
            round_.record.id,
            next_round.epoch,
            next_round.step,
            fast.sender(),
        )

    def _follow_up(
        self, commit: RoundCommit, result: CommitResult, raised: BaseException | None
    ) -> None:
        """Do what follows from a commit, or log why the script did not commit.

        Start or stop children, publish the callback of an ended run, or publish the message of the
        next round. An errored run is logged, with the exception ``raised`` of its last round.
        """
        record = commit.record
        if result.follow_ups:
            self._follow_ups.do(result.follow_ups)
        if result.word == "ok":
            if result.detail == "errored":
                _log_errored(record, commit.settlement, raised)
            if result.detail in ENDS and ON_END in record.fields and self._callbacks is not None:
                self._callbacks.make(record.id, record.epoch)
            elif result.message is not None and result.detail in ("continued", "queued"):
                self._publisher.publish([(result.message.queue, result.message.text)])
        elif result.word == "unread":
            logger.info(
                "run %s, step %d: the run does not end yet: it has not heard %s",
                record.id,
                record.step,
                result.detail,
            )
        elif result.word == "fenced":
            logger.warning(
                "run %s, step %d: the result came too late and was refused (%s); "
                "the round belongs to another worker, or was stopped",
                record.id,
                record.step,
                commit.settlement.kind,
            )
        else:
            logger.error(
                "run %s, step %d: the commit was refused: %s %s",
                record.id,
                record.step,
                result.word,
                result.detail,
            )

    def _patience_ends(self, began: float, is_result: bool) -> float:
        leaves = self._drain.since
        if not leaves:
            return began + COMMIT_PATIENCE
        # A claim that is not released lapses by itself.
        return max(began, leaves) + DRAIN_PATIENCE if is_result else began


def _log_errored(record: Record, settlement: Settlement, raised: BaseException | None) -> None:
    """Log the end of an errored run, with the exception that its last round failed with.

    Error trackers read this line.
    """
    flow = record.fields.get("flow", "?")
    log_safely(
        logger,
        logging.ERROR,
        "run %s of flow %s ended errored: %s",
        record.id,
        flow,
        settlement.options.get("error", ""),
        error=raised,
        extra={
            "run_id": record.id,
            "flow": flow,
            "step": record.step,
            "node": record.fields.get("current_node"),
        },
    )


def _own_message(record: Record) -> RoundMessage:
    """Return the Celery message of the round that is being committed, not of the next one.

    The text of the message is empty if no worker has built it, because the run kept its worker.
    """
    fields = record.fields
    return RoundMessage(fields["message"], fields.get("task", ""), fields["queue"])
