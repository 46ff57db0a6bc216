"""What a round's node is to see of its run, put together from what the claim read."""

from __future__ import annotations

from functools import cache, partial

from flows.base import Flow
from flows.context import EMPTY_HISTORY, History, RoundContext, made
from flows.endpoint import Endpoint
from flows.outcomes import Turn
from flows.providers import ALL_MAY_ASK, Providers
from worker.errors import DamagedRun
from worker.heartbeat import Lease
from worker.journal import StoreJournal
from worker.ledger import Ledger
from worker.logs import round_logger
from worker.record import Record, unpack_turns
from worker.settings import Settings
from worker.store import Granted, Store, StoreUnavailable

_endpoint = cache(Endpoint)  # a worker has one


def context_of(
    store: Store, settings: Settings, record: Record, claim: Granted, lease: Lease, flow: Flow, providers: Providers = ALL_MAY_ASK
) -> RoundContext:
    """The context of the round that ``claim`` granted.

    Raises:
        DamagedRun: what is stored is not what it should be. InvalidInput: the flow does not take the inputs.
    """

    def load(start: int, stop: int) -> list[Turn]:
        try:
            return unpack_turns(record.id, store.memory(record.id, start, stop))
        except (DamagedRun, StoreUnavailable) as error:
            broken(error)
            raise

    def broken(error: Exception) -> None:
        # A node may take it for a failure of its own and go on: what it then hands back must not be committed.
        lease.broken = error

    answered = is_answered(record)
    return made(
        {
            "goal": record.fields.get("goal", ""),
            # Submitted by a client without the flow's code: checked and completed here.
            "inputs": record.inputs if record.fields.get("inputs_checked") == "1" else flow.check_inputs(record.inputs),
            "run_id": record.id,
            "node": record.node,
            "step": record.step,
            "attempt": claim.attempt,
            "history": History(claim.turns, unpack_turns(record.id, claim.newest), load) if claim.turns or claim.newest else EMPTY_HISTORY,
            "committed": record.values,
            "answer": record.json("i_answer", None) if answered else None,
            "answered": answered,
            "answered_by": record.fields.get("i_by") if answered else None,
            "asked": record.json("i_data", None) if answered else None,
            "signals": lease.signals,
            "workspace": settings.workspace,
            "endpoint": _endpoint(settings.model, settings.model_url, settings.model_key),
            "budgets": Ledger(record, claim.attempt, claim.now).budgets() if record.budgets else {},
            "journal": StoreJournal(store, claim, settings.max_addition_bytes, broken),
            "artifact": partial(_artifact, store, record.id),
            "logger": round_logger(),
            "providers": providers,
            "remembered": {},
            "spent": {},
            "told": {},
            "traced": {},
        }
    )


def is_answered(record: Record) -> bool:
    """Return whether a person's answer is there for the node of this round.

    A pause before a node asks nothing: a plain resume only lets the run go on, and the question that the node may put is still open.
    Only an answer that somebody did give there is the node's.
    """
    if "i_answer" not in record.fields:
        return False
    kind = record.fields.get("i_kind")
    return kind not in ("after", "budget") and (kind != "before" or record.fields["i_answer"] != "null")


def _artifact(store: Store, run_id: str, name: str) -> str:
    text = store.artifact(run_id, name)
    if text is None:
        raise KeyError(f"run {run_id} has no artifact {name!r}")
    return text
