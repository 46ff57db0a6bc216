"""Admission: checks that a claimed round may run here, and builds its flow and its context."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from perdure.flows.core.errors import CodeDoesNotFit
from perdure.flows.rounds.flow import Flow
from perdure.worker.domain.budget import BudgetAbove, budgets_above, fields_above, limits_of
from perdure.worker.domain.record import Record
from perdure.worker.engine.kept import KeptStates, RunKept
from perdure.worker.engine.live_text import LiveTexts, RoundText
from perdure.worker.engine.provider_waits import ProviderWaits
from perdure.worker.engine.round import Round
from perdure.worker.engine.round_context import context_of
from perdure.worker.errors import DamagedRun
from perdure.worker.settings import Settings
from perdure.worker.store import Store
from perdure.worker.store.fence import Fence


class Admission:
    """Checks the claimed rounds of one worker process, and prepares them to run.

    Args:
        flows: functions that make the flows that this worker runs, by name.
        builds: the builds of the flows, by name.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        flows: Mapping[str, Callable[[], Flow]],
        builds: Mapping[str, str],
    ) -> None:
        self._store = store
        self._settings = settings
        self._flows = flows
        self._builds = builds
        self._providers = ProviderWaits(store)
        self._kept = KeptStates()
        self._live_texts = LiveTexts(store)

    def load(self, round_: Round) -> None:
        """Check the stored run of a round, and set the round's flow and context.

        Raises:
            DamagedRun: The stored run is not valid.
            InvalidInput: The flow does not accept the run's inputs.
        """
        record, claim = round_.record, round_.claim
        if not claim.carried_over:  # this worker committed the record a moment ago
            record.check()
            stored = record.turns - record.forgotten
            if stored != claim.turns:
                raise DamagedRun(
                    f"run {record.id}: its history should have {stored} turns, "
                    f"it has {claim.turns}; it is quarantined"
                )
        round_.flow = flow = self._flows[record.fields["flow"]]()
        round_.above = self._budgets_above(record) if record.payers else ()
        round_.context = context_of(
            self._store,
            self._settings,
            record,
            claim,
            round_.lease,
            flow,
            self._providers,
            round_.above,
            RunKept(self._kept, record, claim.token),
            RoundText(
                self._live_texts,
                Fence(record.id, claim.token, claim.id or None),
                record.step,
                claim.attempt,
            ),
            self._builds.get(record.fields["flow"], ""),
        )

    def _budgets_above(self, record: Record) -> tuple[BudgetAbove, ...]:
        """Return the budgets of runs above that limit this run.

        One exchange reads them. Empty if no run above has a limit.
        """
        payers = {payer.run_id: fields_above(payer) for payer in record.payers if limits_of(payer)}
        return budgets_above(record, self._store.reads.fields_by_run(payers)) if payers else ()


def gone(record: Record, flow: Flow) -> CodeDoesNotFit:
    """Return the error for a run whose next node its flow does not have in this worker."""
    here = ", ".join(flow.nodes)
    return CodeDoesNotFit(
        f"the next node is {record.node!r}, and flow {record.fields['flow']!r} "
        f"has no such node here; it has: {here}. Deploy a version that has it",
        is_of_other_code=True,
    )
