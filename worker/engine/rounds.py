"""The round runner: claims a round, runs its node, and commits the result."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from perdure.flows.rounds import registry
from perdure.flows.rounds.flow import Flow
from perdure.worker.domain.failed_attempt import CODE
from perdure.worker.domain.record import BUILD, SCHEMA, Record
from perdure.worker.domain.settlement import Settlement
from perdure.worker.engine.commit import Committer
from perdure.worker.engine.drain import Drain
from perdure.worker.engine.fast_path import NO_FAST_PATH, FastPath
from perdure.worker.engine.heartbeat import Heartbeat, Lease
from perdure.worker.engine.node_runner import NodeRunner
from perdure.worker.engine.redirect import Redirector
from perdure.worker.engine.round import Round
from perdure.worker.engine.round_stats import RoundStats
from perdure.worker.ids import new_digits, process_name
from perdure.worker.logs import about
from perdure.worker.messaging.callbacks import Callbacks
from perdure.worker.messaging.publisher import Publisher
from perdure.worker.settings import Settings
from perdure.worker.store import Claim, ClaimRefused, Store, StoreUnavailable
from perdure.worker.store.keys import role_of
from perdure.worker.tracing import RoundSpan, round_span

logger = logging.getLogger("perdure.rounds")


#: Kinds of settlements after which the run has more rounds, for the code of its flow.
KEEPS_BUILD = frozenset(("next", "pause_next", "pause_here", "park"))


class RoundAttempt(NamedTuple):
    """The outcome of one attempt of a round.

    Attributes:
        word: The result of the commit, or the reason for which the round was not claimed or
            committed (``RoundRunner.run``).
        failure: The error text of a failed attempt. None if it did not fail.
    """

    word: str
    failure: str | None = None


class RoundRunner:
    """Runs rounds in one worker process.

    Args:
        flows: Functions that make the flows that this worker runs, by name. Each round gets a new
            flow object.
        owner: The worker's name, shown as the owner of its leases.
        drain: Whether the worker shuts down. A round that is claimed then is released. None: the
            worker never shuts down.
        stats: Counts outcomes and durations of rounds. None: the counts are not written anywhere.
        callbacks: Publishes the callbacks of ended runs. None: the sweeps publish them.
        builds: The builds of the flows, by name. A flow without one has no build.
    """

    def __init__(
        self,
        store: Store,
        publisher: Publisher,
        heartbeat: Heartbeat,
        settings: Settings,
        flows: Mapping[str, Callable[[], Flow]],
        owner: str,
        drain: Drain | None = None,
        stats: RoundStats | None = None,
        callbacks: Callbacks | None = None,
        builds: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._store = store
        self._heartbeat = heartbeat
        self._settings = settings
        self._flows = flows
        self._owner = owner
        self._drain = drain or Drain()
        self._stats = stats or RoundStats()
        self._builds = builds
        self._nodes = NodeRunner(
            store, heartbeat, settings, flows, self._drain, self._stats, builds
        )
        self._redirector = Redirector(store, publisher, owner, settings.heartbeat_seconds)
        self.committer = Committer(store, publisher, self._drain, callbacks)

    def run(
        self, run_id: str, epoch: int, step: int, fast: FastPath = NO_FAST_PATH
    ) -> RoundAttempt:
        """Claim, run and commit the round of a message.

        If the server does not grant the claim, nothing runs.

        Args:
            run_id, epoch, step: Those of the message.
            fast: A shortcut between this round and the rounds before and after it.

        Returns:
            A word, and the error of a failed attempt. The word is the result of the commit
            (``continued``, ``completed``, ...), or ``fenced`` and the like if the commit came too
            late. If the round was not claimed, it is the reason. ``handed_on``: the message was
            moved to workers that can run the round.

        Raises:
            StoreUnavailable: The server was away for too long. The sweep of any worker requeues the
                round.
        """
        facts = {"run_id": run_id, "epoch": epoch, "step": step, "worker": self._owner}
        claim = fast.take_claim()
        if claim is None:
            with about(facts):
                reply = self._claim(run_id, epoch, step)
                if isinstance(reply, ClaimRefused):
                    return RoundAttempt(self._refuse(run_id, epoch, step, reply))
            claim = reply
        with about({**facts, "attempt": claim.attempt, "node": claim.fields.get("current_node")}):
            return self._run(run_id, claim, fast)

    def _run(self, run_id: str, claim: Claim, fast: FastPath) -> RoundAttempt:
        """Run a claimed round's node, and commit the result."""
        record = Record(claim.fields)
        lease = self._heartbeat.hold(run_id, claim.token, claim.id, _time_limit(record, claim))
        round_ = Round(record, claim, lease)
        try:
            started = time.monotonic()
            with round_span(self._store, claim, self._owner) as span:
                settlement = self._nodes.run(round_, span, fast.is_wanted())
                took = _ms(time.monotonic() - started)
                word, settlement = self._commit(round_, settlement, span, took, fast)
                span.outcome(word)
            self._count(round_, word, took)
            if word == "waiting" and settlement.options.get("reason") == CODE:
                word = self._hand_on(record) or word
            return RoundAttempt(word, None if settlement.is_done else _failure_of(settlement, word))
        finally:
            self._heartbeat.release(lease)

    def _commit(
        self, round_: Round, settlement: Settlement, span: RoundSpan, took: int, fast: FastPath
    ) -> tuple[str, Settlement]:
        """Commit a settlement.

        If the run goes on after the commit, it keeps this worker's build of its flow.

        Returns:
            The result of the commit, and the committed settlement: ``otherwise`` if the run has
            unread messages.
        """
        fields, beside = round_.record.fields, round_.beside
        beside.fields |= span.fields(settlement)
        build = self._builds.get(fields["flow"])
        if build and fields.get(BUILD) != build and settlement.kind in KEEPS_BUILD:
            beside.fields[BUILD] = build
        word = self.committer.commit(round_, settlement, took, fast)
        if word == "unread" and settlement.otherwise is not None:
            return self._commit(round_, settlement.otherwise, span, took, fast)
        return word, settlement

    def _hand_on(self, record: Record) -> str | None:
        """Move a run's message to workers with fitting code.

        This worker's code does not fit. The code of such a worker made the run's last commit.

        Returns:
            The word ``handed_on``. None if there is no such worker: the run waits.
        """
        build = record.fields.get(BUILD)
        to = build and self._redirector.redirect(record.id, record.fields["flow"], build)
        if not to:
            return None
        logger.info(
            "run %s: its message was handed on to %s, whose code made its last commit",
            record.id,
            to,
        )
        return "handed_on"

    def release(self, claim: Claim) -> None:
        """Release a claim whose round has not begun, so that another worker can claim the round.

        No attempt is counted. If the state server does not answer, the claim's lease ends by
        itself.
        """
        record = Record(claim.fields)
        if self._drain.is_on() and self._store.outage.is_on:
            logger.warning(
                "run %s: its claim is not released and will lapse: the state server is away",
                record.id,
            )
            return
        round_ = Round(record, claim, Lease(record.id, claim.token, claim.id))
        try:
            settlement = self._nodes.run(round_, RoundSpan(), begin=False)
            self.committer.commit(round_, settlement, 0)
        except StoreUnavailable as error:
            logger.warning(
                "run %s: its claim could not be released and will lapse: %s", record.id, error
            )

    def _claim(self, run_id: str, epoch: int, step: int) -> Claim | ClaimRefused:
        return self._store.rounds.claim(
            run_id,
            epoch=epoch,
            step=step,
            claim=new_claim(),
            owner=self._owner,
            lease=_ms(self._settings.lease_seconds),
            known=self._flows,
            schema=SCHEMA,
        )

    def _refuse(self, run_id: str, epoch: int, step: int, refused: ClaimRefused) -> str:
        """Log why a round was not claimed, and return the reason for ``run``.

        If this worker lacks the run's flow, move the message to workers that have the flow.
        """
        match refused.word:
            case "unknown":
                to = self._redirector.redirect(run_id, refused.detail)
                if to is not None:
                    logger.info(
                        "run %s: this worker does not run flow %r; its message was handed on to %s",
                        run_id,
                        refused.detail,
                        to,
                    )
                    return "handed_on"
                logger.warning(
                    "run %s waits: flow %r %s; it is offered to other workers",
                    run_id,
                    refused.detail,
                    _why_not_here(refused.detail, self._settings.enabled_flows),
                )
            case "damaged":
                logger.error(
                    "run %s, step %d: what the server holds of it is damaged (%s); not run",
                    run_id,
                    step,
                    refused.detail,
                )
            case word:
                logger.debug(
                    "run %s, epoch %d, step %d: not claimed: %s %s",
                    run_id,
                    epoch,
                    step,
                    word,
                    refused.detail,
                )
        return refused.word

    def _count(self, round_: Round, word: str, took: int) -> None:
        """Count a round's outcome, duration and time in queue.

        Outcome and duration are not counted if the flow lacks the round's node.
        """
        fields, waited = round_.record.fields, round_.claim.waited
        if fields["current_node"] in round_.nodes:
            self._stats.round(fields["flow"], fields["current_node"], word, took)
        if waited is not None and fields["queue"] in self._store.keys.queue_names:
            self._stats.waited(role_of(fields["queue"]), waited)


def _failure_of(settlement: Settlement, word: str) -> str | None:
    """Return the error text of a committed failure.

    None if the round did not fail, if the failure was not committed, or if the run only waits
    without a counted failure, as for a busy model provider.
    """
    failed = settlement.kind in ("failed", "damaged") and word in ("waiting", "errored")
    if not failed or (word == "waiting" and "uncounted" in settlement.options):
        return None
    return str(settlement.options.get("error", ""))


def _time_limit(record: Record, claim: Claim) -> float | None:
    """Return the seconds that a round may take. None if it has no limit.

    It is the round's own limit or the time until the run's deadline, whichever is shorter.
    """
    timeout = record.fields.get("round_timeout")
    limits = [int(timeout) / 1000] if timeout else []
    if record.deadline is not None:
        limits.append(max(0.0, (record.deadline - claim.now) / 1000))
    return min(limits) if limits else None


def new_claim() -> str:
    """Return a new claim id: the name of this process, and random digits.

    release_dead_lease.lua finds the process by the beginning of the id.
    """
    return f"{process_name()}.{new_digits(32)}"


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _why_not_here(name: str, enabled: Sequence[str]) -> str:
    """Return why this process does not run a flow, as the end of a sentence."""
    try:
        flow = registry.make(name)
    except registry.FlowNotFound:
        return "is not known here"
    reasons = [
        *(["is not enabled here (--enable)"] if flow.runs_shell and name not in enabled else []),
        *([f"cannot run here: {flow.missing}"] if flow.missing else []),
    ]
    return ", and ".join(reasons) or "is not run by this worker"
