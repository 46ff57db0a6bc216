"""The hash fields that a resume or a retry writes: limits of budgets and cycles, and a counter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.flows.core.budgets import check_budgets
from perdure.flows.core.json_values import canonical
from perdure.flows.core.names import BAD_REPLIES
from perdure.worker.domain.interrupt import PendingInterrupt
from perdure.worker.domain.record import (
    CHOSEN,
    EARLIER_CYCLES,
    UNFINISHED,
    VALUE,
    Record,
    digest_of,
)
from perdure.worker.errors import (
    DamagedRun,
    InvalidInput,
    InvalidTransition,
)
from perdure.worker.operations.limits import check_has_budgets


def raised(record: Record, add: Mapping[str, float]) -> dict[str, float]:
    """Return a run's budget limits, raised by ``add``.

    Amounts that the operation ``add`` has added before are not included: they are in other fields.

    Raises:
        InvalidInput: The run has no budget of a name in ``add``.
    """
    limits = record.budgets
    check_has_budgets(record, add)
    return check_budgets(
        {**limits, **{name: limits[name] + amount for name, amount in add.items()}}
    )


def check_enough(
    waiting: PendingInterrupt, limits: Mapping[str, float], add: Mapping[str, float]
) -> None:
    """Raise InvalidInput if the budget that interrupted a run would still be used up.

    Args:
        waiting: The interrupt that asks for more of the budget.
        limits: The limits after the raise, by budget name. A missing budget is not checked.
        add: The amounts by which the limits were raised, for the error text.
    """
    data = waiting.data or {}
    name, spent = data["budget"], data["spent"]
    limit = limits.get(name)
    if limit is not None and limit <= spent:
        raise InvalidInput(
            f"run {waiting.run_id} has spent {spent:,} of its {name}, "
            f"and would stop here again with a limit of {limit:,}; "
            f"add more than {round(spent - limit + add.get(name, 0), 6):,}: {waiting.how()[0]}"
        )


def raising(record: Record, limits: Mapping[str, float]) -> dict[str, str]:
    """Return the hash fields for a run's new budget limits.

    Args:
        limits: All new limits, by budget name.

    Raises:
        DamagedRun: The run's content is damaged already. A new digest would hide the damage.
    """
    record.check()
    changed = {"budgets": canonical(dict(limits))} | _chosen(record, limits)
    return {**changed, "digest": digest_of({**record.fields, **changed})}


def _chosen(record: Record, limits: Mapping[str, float], *names: str) -> dict[str, str]:
    """Return the hash field that marks limits as chosen for the run.

    Args:
        limits: The new limits of budgets. Those that differ from the run's limits are marked.
        names: Names of further limits to mark.

    Returns:
        The field. Empty if the run does not record which of its limits were chosen.
    """
    if record.chosen is None:
        return {}
    raised = (f"budgets.{each}" for each in limits if limits[each] != record.budgets.get(each))
    return {CHOSEN: canonical(list(dict.fromkeys((*record.chosen, *names, *raised))))}


def is_unfinished(record: Record) -> bool:
    """Return whether a run used up its cycles and has not been continued since.

    Such a run may get more cycles. It has completed, or it has an open interrupt before it
    completes.
    """
    return UNFINISHED in record.fields and "i_answer" not in record.fields


def more_cycles(record: Record, add: Mapping[str, float], answer: Any) -> int:
    """Return the number of cycles that a resume adds to the limit of an unfinished run.

    Returns:
        The number. 0 if the run is not unfinished or ``add`` has no cycles.

    Raises:
        InvalidTransition: The run has completed unfinished, and ``add`` has no cycles or ``answer``
            is not None.
        InvalidInput: The number of cycles is not whole.
    """
    if not is_unfinished(record):
        return 0
    cycles = add.get("cycles", 0)
    if cycles != int(cycles):
        raise InvalidInput(
            f"run {record.id}: expected a whole number of cycles to add, got {cycles!r}"
        )
    if record.fields.get("phase") == "completed" and (not cycles or answer is not None):
        used = record.count(UNFINISHED)
        asks = ", and asks nothing" if answer is not None else ""
        raise InvalidTransition(
            f"run {record.id} ended unfinished after {used} of {record.max_rounds} cycle"
            f"{'' if record.max_rounds == 1 else 's'}{asks}; "
            f"to continue it, raise the limit: perdure resume {record.id} --add cycles={used}"
        )
    return int(cycles)


def going_on(record: Record, limits: Mapping[str, float], cycles: int) -> dict[str, str]:
    """Return the hash fields that give an unfinished run more cycles.

    The new digest covers no answer and no output, because the resume removes both. A budget of
    cycles is raised too if it is lower than the new maximum.

    Args:
        limits: All new limits of budgets, by name.
        cycles: The number of cycles to add.

    Raises:
        DamagedRun: The run's content is damaged.
    """
    record.check()
    max_rounds = (record.max_rounds or 0) + cycles
    changed = {"max_rounds": str(max_rounds)}
    if "cycles" in limits:  # A lower budget would stop the run again.
        in_all = max_rounds + record.count(EARLIER_CYCLES)
        limits = {**limits, "cycles": max(limits["cycles"], in_all)}
    if limits:
        changed["budgets"] = canonical(dict(limits))
    changed |= _chosen(record, limits, "max_rounds")
    remaining = {
        name: text for name, text in record.fields.items() if name not in ("answer", "output")
    }
    return {**changed, "digest": digest_of({**remaining, **changed})}


def counting_anew(record: Record) -> dict[str, str]:
    """Return the hash fields that reset the bad-reply counter.

    A retry writes them. The counter is the number of invalid replies in a row from the controller's
    model.

    Returns:
        The fields. Empty if the counter is 0 already. Empty too if the run is damaged: the worker
            that retries the round reports the damage.
    """
    counter = f"{VALUE}{BAD_REPLIES}"
    if record.fields.get(counter, "0") == "0":
        return {}
    try:
        record.check()
    except DamagedRun:
        return {}
    changed = {counter: "0"}
    return {**changed, "digest": digest_of({**record.fields, **changed})}
