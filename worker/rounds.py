"""A round, in order: claim → gate → step → transition → commit."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from flows.base import Flow, Role
from flows.budgets import COMMANDS, sum_of
from flows.context import RoundContext, altered
from flows.errors import FatalError, InvalidInput, RetryableError, RoundStopped
from flows.process_end import ends_process
from flows.retries import tightening
from worker.calls import Calls
from worker.committing import Committing, new_claim
from worker.contexts import context_of, is_answered
from worker.dispatch import Dispatcher
from worker.draining import Draining
from worker.errors import DamagedRun
from worker.fetching import Delivery, Fetching
from worker.figures import RoundFigures
from worker.gate import too_late
from worker.handing import Handing
from worker.heartbeat import Heartbeat, Lease
from worker.lanes import PATIENCE, Lanes
from worker.ledger import Ledger
from worker.logs import about
from worker.providers import StoreProviders
from worker.record import ENDING, SCHEMA, Record
from worker.settings import Settings
from worker.store import Granted, Refused, Store, StoreUnavailable
from worker.store.keys import role_of
from worker.telemetry.rounds import RoundSpan, round_span
from worker.tracebacks import traceback_of, without_secrets
from worker.transitions import GIVE_BACK, Settlement, end_of, failure, hold_up, quarantine, settle, with_accounts

logger = logging.getLogger("holdfast.rounds")

#: Seconds after which a leased round that has not begun reads its run's stop and lease again. A round whose claim came with a commit
#: begins within a fraction of a millisecond, unless it waits for a lane or for the interpreter.
LOOK_AFTER = 0.005


class Attempt(NamedTuple):
    """What one attempt of a round came to: a word, and the error where it failed."""

    word: str
    failure: str | None = None


class Rounds:
    """Plays rounds for one worker process.

    Args:
        flows: the flows this worker plays, by name; each call makes a fresh one, since a flow object holds no run's state.
        owner: the worker's name, shown as the owner of its leases.
        draining: whether the worker leaves; a round claimed then is given back. None: it never does.
        fetching: what of its commits fetch; None: nothing.
        figures: is told what rounds come to; None: nobody is.
        lanes: in which brief rounds of runs that stay are played; None: its own.
    """

    def __init__(
        self,
        store: Store,
        dispatcher: Dispatcher,
        heartbeat: Heartbeat,
        settings: Settings,
        flows: Mapping[str, Callable[[], Flow]],
        owner: str,
        draining: Draining | None = None,
        fetching: Fetching | None = None,
        figures: RoundFigures | None = None,
        lanes: Lanes | None = None,
        calls: Calls | None = None,
    ) -> None:
        self._store = store
        self._heartbeat = heartbeat
        self._settings = settings
        self._flows = flows
        self._owner = owner
        self._draining = draining or Draining()
        self._figures = figures or RoundFigures()
        self._lanes = lanes or Lanes()
        self._providers = StoreProviders(store)
        self._handing = Handing(store, dispatcher, owner, settings.heartbeat_seconds)
        lease = _ms(settings.lease_seconds)
        self._committing = Committing(store, dispatcher, flows, owner, lease, self._draining, lambda: len(heartbeat), fetching, calls)

    def play(self, run_id: str, epoch: int, step: int, delivery: Delivery | None = None) -> str:
        """Play a round as ``attempt`` does, and return the word alone."""
        return self.attempt(run_id, epoch, step, delivery).word

    def attempt(self, run_id: str, epoch: int, step: int, delivery: Delivery | None = None) -> Attempt:
        """Play round ``step`` of ``run_id`` in ``epoch``, if this delivery wins the claim.

        Args:
            delivery: the message's, where this process receives messages itself; it may bring the claim, and takes what the commit fetches.

        Returns:
            A word: why the claim was refused (``handed_on``: workers that play the flow have the message), ``fenced``,
            or what the commit came to (``continued``, ``completed``, ...); and the error of an attempt that failed.

        Raises:
            StoreUnavailable: the server was away for too long; the sweep of any worker takes the run up again.
        """
        facts = {"run_id": run_id, "epoch": epoch, "step": step, "worker": self._owner}
        claim = delivery.claim if delivery is not None else None
        if claim is None:
            with about(facts):
                answer = self._claim(run_id, epoch, step)
                if isinstance(answer, Refused):
                    to = self._handing.hand_on(run_id, answer.detail) if answer.word == "unknown" else None
                    self._tell_refusal(run_id, epoch, step, answer, to)
                    return Attempt("handed_on" if to else answer.word)
            claim = answer
        begin = True
        if delivery is not None:
            self._into_lane(claim, delivery)
            if delivery.claim is not None and time.monotonic() - delivery.since > LOOK_AFTER:
                begin = self._is_wanted(run_id, claim)
        with about({**facts, "attempt": claim.attempt, "node": claim.fields.get("current_node")}):
            return self._play(run_id, claim, delivery, begin)

    def _into_lane(self, claim: Granted, delivery: Delivery) -> None:
        """A run that goes on with a brief round does so in a lane; who begins another run, or may take longer, makes room."""
        if claim.kept and self._lanes.is_brief(claim.fields["flow"], claim.fields["current_node"]):
            # Nobody beats for the lease meanwhile. Nor is what a run waits here for others taken off the time for which it stays.
            delivery.until += self._lanes.enter(min(PATIENCE, self._settings.lease_seconds / 4))
        else:
            self._lanes.leave()

    def _is_wanted(self, run_id: str, claim: Granted) -> bool:
        """Return whether the run still stands under this claim and no stop was requested; a server that is away cannot say so."""
        try:
            return self._store.holds(run_id, claim.token, claim.claim)
        except StoreUnavailable as error:
            logger.warning("run %s: its round waited, and whether it is still wanted cannot be read; not begun: %s", run_id, error)
            return False

    def give_back(self, claim: Granted) -> None:
        """Return a claim that was fetched and whose round is not begun here; nobody is charged for it."""
        record = Record(claim.fields)
        if self._draining.is_on() and self._store.outage.is_on:
            logger.warning("run %s: its claim is not given back and will lapse: the state server is away", record.id)
            return
        unheld = Lease(record.id, claim.token, claim.claim)
        try:
            settlement, nodes = self._settlement(record, claim, unheld, RoundSpan(), begin=False)
            self._committing.commit(record, claim, settlement, nodes, 0, None)
        except StoreUnavailable as error:
            logger.warning("run %s: its claim could not be given back and will lapse: %s", record.id, error)

    def _claim(self, run_id: str, epoch: int, step: int) -> Granted | Refused:
        return self._store.claim(
            run_id,
            epoch=epoch,
            step=step,
            claim=new_claim(),
            owner=self._owner,
            lease=_ms(self._settings.lease_seconds),
            known=self._flows,
            schema=SCHEMA,
        )

    def _play(self, run_id: str, claim: Granted, delivery: Delivery | None, begin: bool) -> Attempt:
        record = Record(claim.fields)
        lease = self._heartbeat.hold(run_id, claim.token, claim.claim, self._time_limit(record, claim))
        try:
            started = time.monotonic()
            with round_span(self._store, claim, self._owner) as span:
                settlement, nodes = self._settlement(record, claim, lease, span, begin)
                took = _ms(time.monotonic() - started)
                word = self._committing.commit(record, claim, settlement, nodes, took, delivery, span.fields(settlement))
                span.outcome(word)
            self._count(record, claim, nodes, word, took)
            return Attempt(word) if settlement.is_done else Attempt(word, _failure_of(settlement, word))
        finally:
            self._heartbeat.release(lease)

    def _settlement(
        self, record: Record, claim: Granted, lease: Lease, span: RoundSpan, begin: bool = True
    ) -> tuple[Settlement, Mapping[str, Role]]:
        """What the round comes to, and the nodes of its flow; where it is not to begin, it is given back."""
        try:
            if not claim.kept:
                record.check()
            if record.turns != claim.turns:
                raise DamagedRun(f"run {record.id}: its history should have {record.turns} turns, it has {claim.turns}; it is quarantined")
            flow = self._flows[record.fields["flow"]]()
            context = context_of(self._store, self._settings, record, claim, lease, flow, self._providers)
        except DamagedRun as error:
            return quarantine(error), {}
        except InvalidInput as error:
            return failure(record, FatalError(str(error)), self._settings, 0.0), {}
        nodes = flow.nodes
        if ENDING in record.fields:
            return end_of(record), nodes
        if context.node not in nodes:
            return GIVE_BACK if self._draining.is_on() or not begin else failure(record, gone(record, flow), self._settings, 0.0), {}
        try:
            estimate = dict(flow.estimate(context.node, context))
        except BaseException as error:
            if ends_process(error):
                raise
            return self._failure(record, lease, error, flow), {}
        ledger = Ledger(record, claim.attempt, claim.now)
        if record.budgets:
            context = altered(context, budgets=ledger.budgets(estimate))
        # A round that a person has answered is under way already, and their answer must not be lost to another question.
        limit = None if is_answered(record) else ledger.exhausted(estimate, nodes[context.node])
        used: dict[str, float] = {}
        if self._draining.is_on() or not begin:
            settlement = GIVE_BACK
        elif limit is not None:
            settlement = hold_up(record, limit)
        else:
            settlement = self._played(record, claim, lease, flow, context)
            span.played(context)
            self._figures.spent(record.fields["flow"], context.spent)
            if context.spent or estimate:
                carried_out = f"{COMMANDS}{context.journal.carried_out}"
                used = sum_of([context.spent, {name: amount for name, amount in estimate.items() if name == carried_out}])
        accounts = ledger.fields(estimate, used, settlement.is_done)
        if not settlement.is_done and context.journal.is_behind:
            accounts["intent"] = context.journal.text
        if not settlement.is_done and context.journal.is_harmless:
            settlement = replace(settlement, options={**settlement.options, "harmless": 1})
        return with_accounts(record, settlement, accounts), nodes

    def _played(self, record: Record, claim: Granted, lease: Lease, flow: Flow, context: RoundContext) -> Settlement:
        try:
            if too_late(claim.now, record.deadline):
                raise FatalError("the deadline of the run passed before this round could start")
            own_limit = flow.time_limit(context.node, record.values)
            if own_limit is not None:
                self._heartbeat.limit(lease, own_limit)
            outcome = flow.play(context.node, context)
            if lease.broken is not None:
                raise lease.broken
            return settle(record, flow, outcome, context.remembered, self._settings, {**context.told, **context.spent})
        except DamagedRun as error:
            return quarantine(error)
        except BaseException as error:  # asyncio.CancelledError, GeneratorExit and sys.exit too: the round failed
            if ends_process(error):
                raise  # a loss, not a failure of the round
            return quarantine(lease.broken) if isinstance(lease.broken, DamagedRun) else self._failure(record, lease, error, flow)

    def _failure(self, record: Record, lease: Lease, error: BaseException, flow: Flow) -> Settlement:
        where = f"run {record.id}, step {record.step}, node {record.node}"
        cause = error
        if lease.timed_out and not isinstance(error, FatalError):
            error = RetryableError(f"the round took longer than its limit ({lease.time_limit or 0.0:g} s)")
        elif isinstance(error, RoundStopped):
            logger.info("%s: left its round, nobody wants the result: %s", where, error)
            if lease.lost or lease.signals.stop_requested:
                return GIVE_BACK  # the store turns it into the stop that was asked for, or fences it
            error = RetryableError(f"RoundStopped was raised, but no stop was requested: {error}")
        elif isinstance(error, RetryableError) and not error.counts:
            logger.info("%s: waits for its provider: %s", where, error)
        else:
            logger.warning("%s: the round failed: %s: %s", where, type(error).__name__, error, exc_info=error)
        try:
            retry = flow.retry_of(record.node, record.values)
            bounds = tightening(record.json("retry", None))
        except Exception:
            logger.exception("%s: its retry policy cannot be told, so the worker's settings hold", where)
            retry = bounds = None
        settlement = failure(record, error, self._settings, random.random(), retry, bounds)
        texts = {name: str(text) for name, text in settlement.options.items() if name in ("error", "spent")}
        told = {name: without_secrets(text, self._settings) for name, text in texts.items()}
        if "uncounted" not in settlement.options and (raised := traceback_of(cause, self._settings)):
            told["traceback"] = raised
        return replace(settlement, options={**settlement.options, **told})

    def _count(self, record: Record, claim: Granted, nodes: Mapping[str, Role], word: str, took: int) -> None:
        """For whoever watches, and for the next round of this node; one that the flow does not have is no node."""
        fields = record.fields
        if fields["current_node"] in nodes:
            self._figures.round(fields["flow"], fields["current_node"], word, took)
            self._lanes.took(fields["flow"], fields["current_node"], took)
        if not claim.kept and fields["queue"] in self._store.keys.queue_names and "queued_at" in fields:
            self._figures.waited(role_of(fields["queue"]), claim.now - int(fields["queued_at"]))

    def _time_limit(self, record: Record, claim: Granted) -> float | None:
        """Seconds this round may take: its own limit, and what is left until the run's deadline."""
        timeout = record.fields.get("round_timeout")
        limits = [int(timeout) / 1000] if timeout else []
        if record.deadline is not None:
            limits.append(max(0.0, (record.deadline - claim.now) / 1000))
        return min(limits) if limits else None

    @staticmethod
    def _tell_refusal(run_id: str, epoch: int, step: int, refused: Refused, to: str | None) -> None:
        if to is not None:
            logger.info("run %s: flow %r is not played here; its message was handed on to %s", run_id, refused.detail, to)
        elif refused.word == "unknown":
            logger.warning(
                "run %s waits: flow %r is not known here, or not enabled (enabled_flows); it is offered to other workers",
                run_id,
                refused.detail,
            )
        elif refused.word == "damaged":
            logger.error("run %s, step %d: what the server holds of it is damaged (%s); not played", run_id, step, refused.detail)
        else:
            logger.debug("run %s, epoch %d, step %d: not claimed: %s %s", run_id, epoch, step, refused.word, refused.detail)


def _failure_of(settlement: Settlement, word: str) -> str | None:
    """Return the error of an attempt that failed and whose failure was committed. Waiting for a busy provider is no failure."""
    failed = settlement.kind in ("failed", "damaged") and word in ("waiting", "errored")
    return str(settlement.options.get("error", "")) if failed and not (word == "waiting" and "uncounted" in settlement.options) else None


def gone(record: Record, flow: Flow) -> FatalError:
    """Return the error of a run whose next node the flow does not have (any more): no attempt of this version can succeed."""
    here = ", ".join(flow.nodes)
    return FatalError(
        f"the next node is {record.node!r}, and flow {record.fields['flow']!r} has no such node here; it has: {here}. "
        f"Deploy a version that has it, then `holdfast retry {record.id}`"
    )


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
