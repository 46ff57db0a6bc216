"""The node runner: runs the node of a claimed round, and makes the settlement for the commit.

It also decides whether the node may run. A damaged record, a node that the flow no longer has, a
used-up budget, a deadline, a stop or a shutdown of the worker can prevent it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from perdure.flows.core.budgets import COMMANDS, sum_of
from perdure.flows.core.errors import FatalError, InvalidInput, UnstorableValue, ends_process
from perdure.flows.core.files import artifacts_of
from perdure.flows.core.json_values import canonical
from perdure.flows.core.names import Role
from perdure.flows.core.outcomes import with_artifacts
from perdure.flows.rounds.context import RoundContext, altered
from perdure.flows.rounds.flow import Flow
from perdure.flows.rounds.waits import Parked
from perdure.worker.domain.failed_attempt import failure, quarantine
from perdure.worker.domain.pauses import too_late
from perdure.worker.domain.record import ALL_HEARD, ARRIVED, BUILD, ENDING, Record
from perdure.worker.domain.settle import end_of, settle
from perdure.worker.domain.settled_waits import hold_up, park
from perdure.worker.domain.settlement import GIVE_BACK, Settlement
from perdure.worker.engine.admission import Admission, gone
from perdure.worker.engine.drain import Drain
from perdure.worker.engine.heartbeat import Heartbeat
from perdure.worker.engine.mailbox import StoreMailbox
from perdure.worker.engine.round import Round
from perdure.worker.engine.round_context import account_of
from perdure.worker.engine.round_failures import RoundFailures
from perdure.worker.engine.round_stats import RoundStats
from perdure.worker.errors import DamagedRun
from perdure.worker.settings import Settings
from perdure.worker.store import Store
from perdure.worker.tracing import RoundSpan


class NodeRunner:
    """Runs the nodes of one worker process.

    Args:
        flows: Functions that make the flows that this worker runs, by name.
        drain: Whether the worker shuts down.
        stats: Counts the spending of rounds.
        builds: The builds of the flows, by name.
    """

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
        self._heartbeat = heartbeat
        self._settings = settings
        self._drain = drain
        self._stats = stats
        self._builds = builds
        self._admission = Admission(store, settings, flows, builds)
        self._failures = RoundFailures(settings, builds)

    def run(self, round_: Round, span: RoundSpan, begin: bool) -> Settlement:
        """Run a claimed round's node, and return the round's settlement.

        An error of the node becomes a settlement, too. Only an error that ends the process is
        raised. Without running the node, a damaged run is quarantined, and a run with a used-up
        budget is interrupted.

        Args:
            span: The tracing span of the round.
            begin: Whether the node may run. If not, or if the worker shuts down, the round is
                released.
        """
        try:
            self._admission.load(round_)
        except DamagedRun as error:
            return _quarantined(round_, error)
        except InvalidInput as error:
            round_.beside.raised = error
            return failure(round_.record, FatalError(str(error)), self._settings, 0.0)
        flow, node, nodes = round_.flow, round_.context.node, round_.flow.nodes
        if ENDING in round_.record.fields:
            round_.nodes = nodes
            return end_of(round_.record)
        # Read once: a drain that begins during the round does not change whether it was run.
        begin = begin and not self._drain.is_on()
        if node not in nodes:
            return (
                self._failures.settlement(round_, gone(round_.record, flow)) if begin else GIVE_BACK
            )
        round_.nodes = nodes
        try:
            estimate = dict(flow.estimate(node, round_.context))
        except BaseException as error:
            if ends_process(error):
                raise
            return self._failures.settlement(round_, error)
        # In a flow without controllers, any node may spend the rest of the budgets.
        role = nodes[node] if "controller" in nodes.values() else "controller"
        return self._within_budgets(round_, estimate, role, span, begin)

    def _within_budgets(
        self,
        round_: Round,
        estimate: Mapping[str, float],
        role: Role,
        span: RoundSpan,
        begin: bool,
    ) -> Settlement:
        """Run a node if the budgets permit it, and charge them.

        If a budget is used up, the node does not run, and the settlement interrupts the run.

        Args:
            estimate: The expected use of each budget by the round.
            role: The role of the node, as ``BudgetAccount.exhausted`` expects it.
            begin: Whether the node may run. If not, the round is released.
        """
        record, claim, beside, context = round_.record, round_.claim, round_.beside, round_.context
        account = account_of(record, claim, context.journal, round_.above)
        shortage = None
        if record.budgets or round_.above:
            round_.context = context = altered(context, budgets=account.budgets(estimate))
            # A round that a person has answered is under way already. Their answer must not be lost
            # to another question.
            shortage = None if context.answered else account.exhausted(estimate, role)
        used: dict[str, float] = {}
        if not begin:
            settlement = GIVE_BACK
        elif shortage is not None:
            settlement = hold_up(record, shortage)
        else:
            settlement = self._play(round_, account.recorded)
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
                beside.options["harmless"] = 1
        if settlement.kind != "damaged":
            beside.accounts |= accounts
            if charge := account.charge(accounts):
                beside.options["charge"] = charge
        return settlement

    def _play(self, round_: Round, recorded: Mapping[str, float]) -> Settlement:
        """Run a node, and return the settlement of its outcome.

        Args:
            recorded: The spending of the round's lost attempts on the results that they recorded.
        """
        record, lease, flow, context = round_.record, round_.lease, round_.flow, round_.context
        is_playing = False
        try:
            if too_late(round_.claim.now, record.deadline):
                raise FatalError("the deadline of the run passed before this round could start")
            own_limit = flow.time_limit(context.node, record.values)
            if own_limit is not None:
                self._heartbeat.limit(lease, own_limit)
            is_playing = True
            if flow.lifespan is not None:
                context = altered(context, deps=flow.lifespan.open())
            outcome = flow.play(context.node, context)
            is_playing = False
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
            if settlement.is_done:
                _use_mailbox(round_, self._settings)
            return settlement
        except Parked as parked:
            name = parked.wait.name
            over = context.journal.packed(f"~{name}", canonical(parked.wait.about))
            return park(record, parked.wait, over)
        # asyncio.CancelledError, GeneratorExit and sys.exit are failures of the round too.
        except BaseException as error:
            if ends_process(error):
                raise  # a loss, not a failure of the round
            if isinstance(lease.broken, DamagedRun):
                return _quarantined(round_, lease.broken)
            if isinstance(error, DamagedRun) and not is_playing:
                return _quarantined(round_, error)
            # The node may have read another run, which is damaged. That is a failure like others.
            return self._failures.settlement(round_, error)


def _quarantined(round_: Round, damage: DamagedRun) -> Settlement:
    round_.beside.raised = damage
    return quarantine(damage)


def _use_mailbox(round_: Round, settings: Settings) -> None:
    """Add the round's use of its mailbox to its commit: read signals, and replies.

    If the round has read all messages, the commit records that, too.

    Raises:
        UnstorableValue: The replies are too long.
    """
    record, mailbox, beside = round_.record, round_.context.mailbox, round_.beside
    if mailbox.replies:
        lines = [f"{name} {number} {text}" for (name, number), text in mailbox.replies.items()]
        size = sum(len(line.encode()) for line in lines)
        if size > settings.max_addition_bytes:
            raise UnstorableValue(
                f"step {record.step}: the replies to signals take {size} bytes; the limit is "
                f"{settings.max_addition_bytes} (max_addition_bytes). Reply with a reference"
            )
        beside.options["replies"] = "\n".join(lines)
    if mailbox.used or mailbox.joined or "wait" in record.fields:
        beside.take(mailbox.used, mailbox.joined)
    if isinstance(mailbox, StoreMailbox) and mailbox.has_heard:
        beside.fields[ALL_HEARD] = record.fields[ARRIVED]


def _artifacts_of(context: RoundContext) -> Mapping[str, str]:
    """Return the artifacts that a round stores in addition to the artifacts of its outcome."""
    artifacts = {**context.earlier.artifacts, **context.note_access.artifacts}
    for name, file in context.attached.items():
        artifacts |= artifacts_of(name, file)
    return artifacts


def _all_spent(recorded: Mapping[str, float], context: RoundContext) -> Mapping[str, float]:
    """Return a round's spending, including its lost attempts."""
    return sum_of([recorded, context.spent]) if recorded else context.spent


def _used(context: RoundContext, estimate: Mapping[str, float]) -> dict[str, float]:
    """Return how much of each budget a round used.

    It is the usage that the node reported, and the estimate for the command that the round
    executed.
    """
    if not context.spent and not estimate:
        return {}
    carried_out = f"{COMMANDS}{context.journal.carried_out}"
    return sum_of(
        [context.spent, {name: each for name, each in estimate.items() if name == carried_out}]
    )


def swallowed(record: Record) -> FatalError:
    """Return the error for a node that caught the exception of its own wait.

    A node waits by raising ``Parked``, which must end the round. This node caught it and continued.
    """
    return FatalError(
        f"run {record.id}, step {record.step}: node {record.node!r} caught its own wait "
        "(Parked, a BaseException) and went on. Catch Exception instead of everything, "
        "or raise it again"
    )
