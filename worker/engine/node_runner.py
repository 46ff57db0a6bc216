"""The node runner: runs a claimed round's node, and turns the outcome into a settlement.

Everything that prevents a node from running is decided here too: a damaged record, a node that the
flow no longer has, a used-up budget, a deadline, a stop, a worker that shuts down.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from perdure.flows.core.budgets import COMMANDS, sum_of
from perdure.flows.core.errors import (
    CodeDoesNotFit,
    FatalError,
    InvalidFlow,
    InvalidInput,
    RetryableError,
    RoundStopped,
    UnstorableValue,
    described,
    ends_process,
    text_of,
)
from perdure.flows.core.files import artifacts_of
from perdure.flows.core.names import Role
from perdure.flows.core.outcomes import with_artifacts
from perdure.flows.core.retry import tightening
from perdure.flows.core.summaries import ended
from perdure.flows.rounds.context import RoundContext, altered
from perdure.flows.rounds.flow import Flow
from perdure.flows.rounds.waits import TIMED_OUT, Mailbox, Parked
from perdure.worker.domain.budget import (
    BudgetAbove,
    budgets_above,
    fields_above,
    limits_of,
)
from perdure.worker.domain.failed_attempt import (
    failure,
    is_of_this_code,
    quarantine,
    wait_for_code,
)
from perdure.worker.domain.pauses import too_late
from perdure.worker.domain.record import ALL_HEARD, ARRIVED, BUILD, ENDING, Record
from perdure.worker.domain.settle import end_of, settle, with_accounts
from perdure.worker.domain.settled_waits import hold_up, park
from perdure.worker.domain.settlement import GIVE_BACK, Settlement, charging, taking, with_options
from perdure.worker.engine.drain import Drain
from perdure.worker.engine.heartbeat import Heartbeat, Lease
from perdure.worker.engine.kept import KeptStates, RunKept
from perdure.worker.engine.live_text import LiveTexts, RoundText
from perdure.worker.engine.mailbox import StoreMailbox
from perdure.worker.engine.provider_waits import ProviderWaits
from perdure.worker.engine.round_context import account_of, context_of
from perdure.worker.engine.round_stats import RoundStats
from perdure.worker.engine.traceback_text import traceback_of, without_secrets
from perdure.worker.errors import DamagedRun
from perdure.worker.settings import Settings
from perdure.worker.store import Claim, Store
from perdure.worker.store.notes import Fence
from perdure.worker.tracing import RoundSpan

logger = logging.getLogger("perdure.rounds")

#: The nodes of a flow that could not be built.
NO_NODES: Mapping[str, Role] = {}


class LoadedRound(NamedTuple):
    """A claimed round with its flow, ready to be run."""

    record: Record
    claim: Claim
    lease: Lease
    flow: Flow
    context: RoundContext
    above: tuple[BudgetAbove, ...] = ()


class NodeRunner:
    """Runs the nodes of one worker process."""

    def __init__(
        self,
        store: Store,
        heartbeat: Heartbeat,
        settings: Settings,
        flows: Mapping[str, Callable[[], Flow]],
        drain: Drain,
        stats: RoundStats,
        builds: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._store = store
        self._heartbeat = heartbeat
        self._settings = settings
        self._flows = flows
        self._drain = drain
        self._stats = stats
        self._builds = builds
        self._providers = ProviderWaits(store)
        self._kept = KeptStates()
        self._live_texts = LiveTexts(store)

    def run(
        self, record: Record, claim: Claim, lease: Lease, span: RoundSpan, begin: bool
    ) -> tuple[Settlement, Mapping[str, Role]]:
        """Run a claimed round's node, and return its settlement.

        A damaged run, a spent budget or a shutdown can prevent the node from running.

        Args:
            begin: Whether the node may run. If not, and in a drain, the round is released.

        Returns:
            The settlement for the round's commit, and the nodes of the flow.
        """
        try:
            loaded = self._load(record, claim, lease)
        except DamagedRun as error:
            return _with_error(quarantine(error), error), NO_NODES
        except InvalidInput as error:
            fatal = failure(record, FatalError(str(error)), self._settings, 0.0)
            return _with_error(fatal, error), NO_NODES
        flow, node, nodes = loaded.flow, loaded.context.node, loaded.flow.nodes
        if ENDING in record.fields:
            return end_of(record), nodes
        # Read once: a drain that begins during the round does not change whether it was run.
        begin = begin and not self._drain.is_on()
        if node not in nodes:
            return self._failure(loaded, gone(record, flow)) if begin else GIVE_BACK, NO_NODES
        try:
            estimate = dict(flow.estimate(node, loaded.context))
        except BaseException as error:
            if ends_process(error):
                raise
            return self._failure(loaded, error), nodes
        # In a flow without controllers, any node may spend the rest of the budgets.
        role = nodes[node] if "controller" in nodes.values() else "controller"
        return self._within_budgets(loaded, estimate, role, span, begin), nodes

    def _load(self, record: Record, claim: Claim, lease: Lease) -> LoadedRound:
        """Check the stored run, and build flow and context.

        Raises:
            DamagedRun: The stored run is not valid.
            InvalidInput: The flow does not accept the run's inputs.
        """
        if not claim.carried_over:  # this worker committed the record a moment ago
            record.check()
            stored = record.turns - record.forgotten
            if stored != claim.turns:
                raise DamagedRun(
                    f"run {record.id}: its history should have {stored} turns, "
                    f"it has {claim.turns}; it is quarantined"
                )
        flow = self._flows[record.fields["flow"]]()
        above = self._budgets_above(record) if record.payers else ()
        context = context_of(
            self._store,
            self._settings,
            record,
            claim,
            lease,
            flow,
            self._providers,
            above,
            RunKept(self._kept, record, claim.token),
            RoundText(
                self._live_texts,
                Fence(record.id, claim.token, claim.id or None),
                record.step,
                claim.attempt,
            ),
            self._builds.get(record.fields["flow"], ""),
        )
        return LoadedRound(record, claim, lease, flow, context, above)

    def _budgets_above(self, record: Record) -> tuple[BudgetAbove, ...]:
        """Return the budgets above a run, read in one exchange."""
        payers = {payer.run_id: fields_above(payer) for payer in record.payers if limits_of(payer)}
        return budgets_above(record, self._store.reads.fields_by_run(payers)) if payers else ()

    def _within_budgets(
        self,
        loaded: LoadedRound,
        estimate: Mapping[str, float],
        role: Role,
        span: RoundSpan,
        begin: bool,
    ) -> Settlement:
        """Run a node within the budgets, and charge them.

        Args:
            estimate: Expected use of each budget by the round.
            role: Role of the node, as ``BudgetAccount.exhausted`` expects it.
        """
        record, claim, context = loaded.record, loaded.claim, loaded.context
        account = account_of(record, claim, context.journal, loaded.above)
        shortage = None
        if record.budgets or loaded.above:
            context = altered(context, budgets=account.budgets(estimate))
            loaded = loaded._replace(context=context)
            # A round that a person has answered is under way already. Their answer must not be lost
            # to another question.
            shortage = None if context.answered else account.exhausted(estimate, role)
        used: dict[str, float] = {}
        if not begin:
            settlement = GIVE_BACK
        elif shortage is not None:
            settlement = hold_up(record, shortage)
        else:
            settlement = self._settlement(loaded, account.recorded)
            context.live_text.end()
            span.played(context)
            self._stats.spent(record.fields["flow"], _all_spent(account.recorded, context))
            used = _used(context, estimate)
        done = settlement.is_done
        accounts = account.fields(estimate, used, done)
        if not done:
            if context.journal.is_behind:
                accounts["intent"] = context.journal.text
            # A round that was not begun did nothing, so a stop leaves nothing of it in doubt,
            # unless an intent of an earlier attempt exists.
            unbegun = not begin or settlement.kind == "park"
            if context.journal.is_harmless or (unbegun and not context.journal.text):
                settlement = settlement._replace(options={**settlement.options, "harmless": 1})
        if not accounts:
            return settlement
        return charging(with_accounts(record, settlement, accounts), account.charge(accounts))

    def _settlement(self, loaded: LoadedRound, recorded: Mapping[str, float]) -> Settlement:
        """Run a node, and return the settlement of its outcome.

        Args:
            recorded: Spending of the round's lost attempts on the results that they recorded.
        """
        record, claim, lease, flow, context, _ = loaded
        try:
            if too_late(claim.now, record.deadline):
                raise FatalError("the deadline of the run passed before this round could start")
            own_limit = flow.time_limit(context.node, record.values)
            if own_limit is not None:
                self._heartbeat.limit(lease, own_limit)
            if flow.lifespan is not None:
                context = altered(context, deps=flow.lifespan.open())
            outcome = flow.play(context.node, context)
            if lease.broken is not None:
                raise lease.broken
            if context.mailbox.parked is not None:
                raise swallowed(record)
            told = {**context.told, **_all_spent(recorded, context)}
            before = record.fields.get(BUILD)
            if before is not None and before != self._builds.get(record.fields["flow"], before):
                told[BUILD] = self._builds[record.fields["flow"]]
            settlement = settle(
                record,
                flow,
                with_artifacts(outcome, _artifacts_of(context)),
                context.remembered,
                self._settings,
                told,
            )
            mailbox = context.mailbox
            if mailbox.used or mailbox.joined or "wait" in record.fields:
                settlement = taking(settlement, mailbox.used, mailbox.joined)
            return _with_mailbox(record, settlement, mailbox, self._settings)
        except Parked as parked:
            name = parked.wait.name
            over = context.journal.packed(f"~{name}", TIMED_OUT)
            return park(record, parked.wait, over)
        except DamagedRun as error:
            return _with_error(quarantine(error), error)
        # asyncio.CancelledError, GeneratorExit and sys.exit are failures of the round too.
        except BaseException as error:
            if ends_process(error):
                raise  # a loss, not a failure of the round
            if isinstance(lease.broken, DamagedRun):
                return _with_error(quarantine(lease.broken), lease.broken)
            return self._failure(loaded, error)

    def _waits_for_code(self, record: Record, flow: Flow, error: CodeDoesNotFit) -> bool:
        """Return whether the run waits for code that fits."""
        build = self._builds.get(record.fields["flow"], "")
        return flow.on_misfit == "wait" and not is_of_this_code(record, error, build)

    def _failure(self, loaded: LoadedRound, error: BaseException) -> Settlement:
        """Log a node's error, and return its settlement.

        It is a retry, the run's end, or a stop. The error, its cause and the retry policy are of
        the user's classes: whatever they raise, the round settles.
        """
        try:
            return self._failure_of(loaded, error)
        except Exception:
            record = loaded.record
            logger.exception(
                "run %s, step %d, node %s: what follows from %s cannot be decided, so the run ends",
                record.id, record.step, record.node, type(error).__name__,
            )  # fmt: skip
            plain = FatalError(
                f"{type(error).__name__} was raised, and what follows from it could not be "
                "decided: the worker's log has the reason"
            )
            return failure(record, plain, self._settings, 0.0)

    def _failure_of(self, loaded: LoadedRound, error: BaseException) -> Settlement:
        record, lease, flow = loaded.record, loaded.lease, loaded.flow
        where = f"run {record.id}, step {record.step}, node {record.node}"
        cause = error
        if lease.timed_out and not isinstance(error, FatalError | InvalidFlow):
            error = RetryableError(
                f"the round took longer than its limit ({lease.time_limit or 0.0:g} s)"
            )
            error.__cause__ = cause  # where the round was
        elif isinstance(error, RoundStopped):
            logger.info(
                "%s: the round was cancelled, its result is not wanted: %s", where, text_of(error)
            )
            if lease.lost or lease.signals.stop_requested:
                # The store turns it into the requested stop, or fences it.
                return GIVE_BACK
            error = RetryableError(
                f"RoundStopped was raised, but no stop was requested: {text_of(error)}"
            )
        elif isinstance(error, CodeDoesNotFit) and self._waits_for_code(record, flow, error):
            waiting = self._without_secrets(
                wait_for_code(record, error, self._settings, random.random())
            )
            logger.warning(
                "%s The run waits for a worker whose code fits",
                ended(str(waiting.options["error"])),
            )
            return _with_error(waiting, error)
        elif isinstance(error, RetryableError) and not error.counts:
            logger.info("%s: waits for its provider: %s", where, text_of(error))
        else:
            logger.warning("%s: the round failed: %s", where, described(error), exc_info=error)
        try:
            retry = flow.retry_of(record.node, record.values)
            bounds = tightening(record.json("retry", None))
        except Exception:
            logger.exception(
                "%s: its retry policy cannot be read, so the worker's settings apply", where
            )
            retry = bounds = None
        settlement = failure(record, error, self._settings, random.random(), retry, bounds)
        settlement = self._without_secrets(settlement)
        if "uncounted" not in settlement.options and (
            raised := traceback_of(cause, self._settings)
        ):
            settlement = with_options(settlement, {"traceback": raised})
        return _with_error(settlement, error)

    def _without_secrets(self, settlement: Settlement) -> Settlement:
        """Return a failed round's settlement without secrets."""
        texts = {
            name: without_secrets(str(text), self._settings)
            for name, text in settlement.options.items()
            if name in ("error", "spent")
        }
        return with_options(settlement, texts)


def _with_error(settlement: Settlement, error: BaseException) -> Settlement:
    """Return a failed round's settlement with its exception for the log."""
    return settlement._replace(raised=error)


def _with_mailbox(
    record: Record, settlement: Settlement, mailbox: Mailbox, settings: Settings
) -> Settlement:
    """Return the settlement with replies and read messages.

    The commit writes the replies to signals, and the mark that the round has read all messages.

    Raises:
        UnstorableValue: The replies are too long.
    """
    if not settlement.is_done:
        return settlement
    if mailbox.replies:
        lines = [f"{name} {number} {text}" for (name, number), text in mailbox.replies.items()]
        size = sum(len(line.encode()) for line in lines)
        if size > settings.max_addition_bytes:
            raise UnstorableValue(
                f"step {record.step}: the replies to signals take {size} bytes; the limit is "
                f"{settings.max_addition_bytes} (max_addition_bytes). Reply with a reference"
            )
        settlement = with_options(settlement, {"replies": "\n".join(lines)})
    if isinstance(mailbox, StoreMailbox) and mailbox.has_heard:
        return with_options(settlement, {}, {ALL_HEARD: record.fields[ARRIVED]})
    return settlement


def _artifacts_of(context: RoundContext) -> Mapping[str, str]:
    """Return the artifacts that a round keeps besides its outcome's."""
    artifacts = {**context.earlier.artifacts, **context.note_access.artifacts}
    for name, file in context.attached.items():
        artifacts |= artifacts_of(name, file)
    return artifacts


def _all_spent(recorded: Mapping[str, float], context: RoundContext) -> Mapping[str, float]:
    """Return a round's spending, with that of lost attempts."""
    return sum_of([recorded, context.spent]) if recorded else context.spent


def _used(context: RoundContext, estimate: Mapping[str, float]) -> dict[str, float]:
    """Return a round's use of the run's budgets.

    It is the usage that its node reported, and the estimate for the command that it executed.
    """
    if not context.spent and not estimate:
        return {}
    carried_out = f"{COMMANDS}{context.journal.carried_out}"
    return sum_of(
        [context.spent, {name: each for name, each in estimate.items() if name == carried_out}]
    )


def swallowed(record: Record) -> FatalError:
    """Return the error for a node that swallowed its wait.

    A node waits by raising ``Parked``, which has to end the round. This node caught it and went on.
    """
    return FatalError(
        f"run {record.id}, step {record.step}: node {record.node!r} caught its own wait "
        "(Parked, a BaseException) and went on. Catch Exception instead of everything, "
        "or raise it again"
    )


def gone(record: Record, flow: Flow) -> CodeDoesNotFit:
    """Return the error for a flow without the next node."""
    here = ", ".join(flow.nodes)
    return CodeDoesNotFit(
        f"the next node is {record.node!r}, and flow {record.fields['flow']!r} "
        f"has no such node here; it has: {here}. Deploy a version that has it",
        is_of_other_code=True,
    )
