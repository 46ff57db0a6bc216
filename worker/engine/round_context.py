"""Builds the RoundContext of a round's node from the round's claim."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

from perdure.flows.core.genai_attributes import CONVERSATION
from perdure.flows.core.history import History
from perdure.flows.core.live_text import NOT_WATCHED, LiveText
from perdure.flows.core.names import DEADLINE, ONLY
from perdure.flows.core.outcomes import Turn
from perdure.flows.core.process_cache import NOTHING_KEPT, Kept
from perdure.flows.core.round_journal import Journal, spent_by_lost
from perdure.flows.rounds.context import RoundContext, made
from perdure.flows.rounds.flow import Flow
from perdure.flows.rounds.providers import ALL_MAY_ASK, Endpoint, Providers
from perdure.worker.domain.budget import NOTHING_SPENT, BudgetAbove, BudgetAccount
from perdure.worker.domain.failed_attempt import may_retry
from perdure.worker.domain.fork import origins_of
from perdure.worker.domain.record import FILES, FORKED, KEY_SALT, RETRIED, VALUE, Record
from perdure.worker.domain.turn_texts import unpack_turns
from perdure.worker.engine.earlier import StoredEarlier
from perdure.worker.engine.heartbeat import Lease
from perdure.worker.engine.journal import StoreJournal
from perdure.worker.engine.mailbox import StoreMailbox
from perdure.worker.errors import DamagedRun
from perdure.worker.features import offering
from perdure.worker.logs import round_logger
from perdure.worker.settings import Settings
from perdure.worker.store import Claim, Store, StoreUnavailable
from perdure.worker.store.fence import Fence
from perdure.worker.store.lookups import is_below
from perdure.worker.store.thread_messages import is_in_thread

_endpoint = cache(Endpoint)  # a worker has one endpoint


def context_of(
    store: Store,
    settings: Settings,
    record: Record,
    claim: Claim,
    lease: Lease,
    flow: Flow,
    providers: Providers = ALL_MAY_ASK,
    above: tuple[BudgetAbove, ...] = (),
    kept: Kept = NOTHING_KEPT,
    live_text: LiveText = NOT_WATCHED,
    build: str = "",
) -> RoundContext:
    """Build the context of a round: goal, inputs, history, mailbox, ...

    Args:
        providers: permits or delays requests to model providers.
        above: budgets of the runs above this run that limit it, too.
        kept: the object that the flow keeps in this process between two rounds.
        live_text: receives the text that the round shows before its commit.
        build: the build of the flow in this worker.

    Raises:
        DamagedRun: The stored run is not valid.
        InvalidInput: The flow does not accept the run's inputs.
    """

    def broken(error: Exception) -> None:
        # A node may catch the error as a failure of its own and continue. Its result must not be
        # committed.
        lease.broken = error

    stored = record.fields
    journal = StoreJournal(store, claim, settings.max_addition_bytes, broken)
    fields: dict[str, Any] = {
        "goal": stored.get("goal", ""),
        # A client without the flow's code submitted the run: check and complete the inputs here.
        "inputs": record.inputs
        if stored.get("inputs_checked") == "1"
        else flow.check_inputs(record.inputs),
        "run_id": record.id,
        "node": record.node,
        "step": record.step,
        "attempt": claim.attempt,
        "committed": record.values,
        "signals": lease.signals,
        "workspace": settings.workspace,
        "sandbox": settings.sandbox,
        "endpoint": _endpoint(settings.model, settings.model_url, settings.model_key),
        "budgets": {},
        "journal": journal,
        "mailbox": StoreMailbox(store, settings, record, claim, journal, broken),
        "artifact": partial(_artifact, store, record),
        "logger": round_logger(),
        "providers": providers,
        "may_retry": partial(may_retry, record, settings, flow),
        "kept": kept,
        "live_text": live_text,
        "build": build,
        "traces_content": settings.trace_content,
        "attached": {},
        "attaching": [],
        "remembered": {},
        "spent": {},
        "told": {},
        "traced": {},
        "parts": [],
    }
    fence = Fence(record.id, claim.token, claim.id or None)
    for feature in offering("context"):
        fields |= feature.context(store, settings, record, flow, fence, broken)
    _add_optional_fields(fields, store, settings, record, claim, journal, above, broken)
    return made(fields)


def _add_optional_fields(
    fields: dict[str, Any],
    store: Store,
    settings: Settings,
    record: Record,
    claim: Claim,
    journal: Journal,
    above: tuple[BudgetAbove, ...],
    broken: Callable[[Exception], None],
) -> None:
    """Add the fields that few rounds need: history, answer, budgets, thread, files, ...

    A field that is not added has the default of RoundContext.
    """
    stored = record.fields
    if record.turns or claim.newest:
        fields["history"] = _history_of(store, record, claim, broken)
    if is_answered(record):
        fields["answer"] = record.json("i_answer", None)
        fields["answered"] = True
        fields["answered_by"] = stored.get("i_by") or _silence(stored)
        fields["asked"] = record.json("i_data", None)
    if record.budgets or above:
        fields["budgets"] = account_of(record, claim, journal, above).budgets()
    if RETRIED in stored:
        fields["retried"] = stored[RETRIED]
    if is_in_thread(record):
        fields["earlier"] = StoredEarlier(store, record, broken)
    if "model" in stored:
        fields["model"] = stored["model"]
    if FILES in stored:
        fields["files"] = record.files
    if KEY_SALT in stored:
        fields["key_salt"] = stored[KEY_SALT]
    if FORKED in stored:
        fields["origins"] = origins_of(record)
    if settings.trace_content and "thread_id" in stored:
        fields["traced"] = {CONVERSATION: stored["thread_id"]}


def _silence(stored: Mapping[str, str]) -> str | None:
    """Return ``deadline`` if the deadline of the question has passed without an answer.

    The answer of the run is then the default of the question. None in any other case.
    """
    return DEADLINE if stored.get("resumed_by") == DEADLINE else None


def _history_of(
    store: Store, record: Record, claim: Claim, broken: Callable[[Exception], None]
) -> History:
    """Return the history of a run. It reads older turns from the store only when they are used.

    Args:
        broken: is called with the error if such a read fails. The read then raises the error.
    """

    def load(start: int, stop: int) -> list[Turn]:
        try:
            gone = record.forgotten
            return unpack_turns(record.id, store.reads.memory(record.id, start - gone, stop - gone))
        except (DamagedRun, StoreUnavailable) as error:
            broken(error)
            raise

    # This worker checked them with the claim that it carries over, or made them itself.
    newest = unpack_turns(record.id, claim.newest, are_checked=claim.carried_over)
    return History(record.turns, newest, load, record.forgotten)


def account_of(
    record: Record, claim: Claim, journal: Journal, above: tuple[BudgetAbove, ...]
) -> BudgetAccount:
    """Return the account of the run's budgets for one attempt of a round.

    Args:
        above: The budgets of runs above this run that limit it, too.
    """
    recorded = (
        spent_by_lost(journal.recorded.values(), record.count("settled"))
        if journal.recorded
        else NOTHING_SPENT
    )
    return BudgetAccount(record, claim.attempt, claim.now, above, recorded)


def is_answered(record: Record) -> bool:
    """Return whether a person or a deadline has answered a question of this round's node.

    An answer to the question of a used-up budget does not count, nor the end of a pause after a
    node. For a pause before a node, an answer counts only if it has a value. A plain resume has
    none.
    """
    if "i_answer" not in record.fields:
        return False
    kind = record.fields.get("i_kind")
    return kind not in ("after", "budget") and (
        kind != "before" or record.fields["i_answer"] != "null"
    )


def _artifact(store: Store, record: Record, name: str) -> str:
    """Return the text of an artifact that the run may read.

    A run that executes one command for its parent may also read what its parent may read.

    Args:
        name: The name of the artifact. ``RUN/NAME`` is an artifact of a run below this run.

    Raises:
        KeyError: There is no such artifact, or the run may not read it.
    """
    is_call = VALUE + ONLY in record.fields
    readers = [record.id, record.fields["parent"]] if is_call else [record.id]
    for reader in readers:
        text = store.reads.artifact(reader, name)
        if text is not None:
            return text
    owner, _, own_name = name.partition("/")
    if own_name and is_below(store, owner, readers[-1]):
        text = store.reads.artifact(owner, own_name)
        if text is not None:
            return text
    raise KeyError(f"run {record.id} has no artifact {name!r}")
