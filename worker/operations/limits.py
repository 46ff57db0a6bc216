"""The operation that raises the budget limits of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.worker.domain.record import Record
from perdure.worker.domain.run import Run
from perdure.worker.domain.token import Scope
from perdure.worker.domain.tree_amounts import millionths
from perdure.worker.errors import InvalidInput, InvalidTransition
from perdure.worker.operations.operation import Http, Owner, operation
from perdure.worker.operations.run_reads import get
from perdure.worker.operations.session import Session, damaged, new_operation_id

#: The most that is added to a budget at once. Lua scripts add millionths with up to 18 digits.
MOST_ADDED = 1e11


def _encode(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"run_id": arguments["run_id"], "add": arguments["amounts"]}


@operation(
    Http("POST", "/runs/{run_id}/limits"), scope=Scope.ANSWER, owner=Owner.RUN, encode=_encode
)
def add(session: Session, /, run_id: str, *, by: str | None = None, **amounts: float) -> Run:
    """Add amounts to the limits of a run's budgets.

    Runs that wait for the budget continue. A run's budgets also count the spending of the runs
    below it, so runs below it that wait for this budget continue too. For a round in progress,
    the new limit counts when the round ends.

    Args:
        by: The person who adds the amounts.
        amounts: The amounts by budget name, as in ``add(run_id, tokens=5000)``.

    Raises:
        RunNotFound: No run has this id.
        InvalidInput: No amount is given, the run has no such budget, or an amount is not above
            0.
        InvalidTransition: The run has completed.
    """
    if not amounts:
        raise InvalidInput("nothing to add; expected budgets, for example tokens=5000")
    check_has_budgets(session.record(run_id), amounts)
    raise_limits(session, run_id, amounts, by)
    return get(session, run_id)


def check_has_budgets(record: Record, add: Mapping[str, float]) -> None:
    """Raise InvalidInput if ``add`` names a budget that the run does not have."""
    for name in add:
        if name not in record.budgets:
            raise InvalidInput(
                f"run {record.id} has no budget {name!r} to raise; it has: "
                f"{', '.join(record.budgets) or 'no budgets'}"
            )


def raise_limits(
    session: Session,
    run_id: str,
    more: Mapping[str, float],
    by: str | None,
    child: str | None = None,
) -> None:
    """Raise budget limits of a run.

    If the request to the state server is sent again, the amounts are added only once.

    Args:
        more: The amounts to add, by budget name.
        by: The person who adds the amounts.
        child: Id of the run below this run that asked for more. None if no such run asked.

    Raises:
        InvalidInput: An amount is not above 0, or it is above ``MOST_ADDED``.
        InvalidTransition: The run has completed, and ``child`` is None.
        RunNotFound: No run has this id.
    """
    for name, amount in more.items():
        if not 0 < amount <= MOST_ADDED:
            raise InvalidInput(
                f"run {run_id}: expected at most {MOST_ADDED:,.0f} to add to {name}, got {amount:,}"
            )
    reply = session.store.runs.raise_limit(
        run_id,
        op=new_operation_id(),
        add="\n".join(f"{name} {millionths(amount)}" for name, amount in more.items()),
        by=by,
        child=child,
    )
    match reply:
        case ["ok", _, *follow_ups]:
            session.look_after(follow_ups)
        case ["finished", _]:
            raise InvalidTransition(
                f"run {run_id} has completed and spends no more; its answer: perdure show {run_id}"
            )
        case _:
            raise damaged(run_id, reply)
