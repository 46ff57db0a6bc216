"""The client part that raises budget limits of live runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perdure.worker.client.api import ClientApi
from perdure.worker.client.read import RunReads
from perdure.worker.domain.record import Record, millionths
from perdure.worker.domain.run import Run
from perdure.worker.errors import InvalidInput, InvalidTransition
from perdure.worker.operations import validation
from perdure.worker.operations.session import damaged, new_operation_id

#: The most that is added to a budget at once. Scripts add amounts of 18 digits of millionths.
MOST_ADDED = 1e11


def check_has_budgets(record: Record, add: Mapping[str, float]) -> None:
    """Raise InvalidInput if the run lacks a budget in ``add``."""
    for name in add:
        if name not in record.budgets:
            raise InvalidInput(
                f"run {record.id} has no budget {name!r} to raise; it has: "
                f"{', '.join(record.budgets) or 'no budgets'}"
            )


class RunLimits(RunReads, ClientApi):
    """Raises the limits of runs."""

    def add(self, /, run_id: str, *, by: str | None = None, **amounts: float) -> Run:
        validation.notes(by=by)
        more = validation.budgets(amounts, "add")
        if not more:
            raise InvalidInput("nothing to add; expected budgets, for example tokens=5000")
        check_has_budgets(self._record(run_id), more)
        self._raise_limits(run_id, more, by)
        return self.get(run_id)

    def _raise_limits(
        self, run_id: str, more: Mapping[str, float], by: str | None, child: str | None = None
    ) -> None:
        """Raise limits, once however often the request is sent.

        Args:
            child: the run below it that asked for more.
        """
        for name, amount in more.items():
            if not 0 < amount <= MOST_ADDED:
                raise InvalidInput(
                    f"run {run_id}: expected at most {MOST_ADDED:,.0f} to add to {name}, "
                    f"got {amount:,}"
                )
        reply = self._store.runs.raise_limit(
            run_id,
            op=new_operation_id(),
            add="\n".join(f"{name} {millionths(amount)}" for name, amount in more.items()),
            by=by,
            child=child,
        )
        match reply:
            case ["ok", _, *follow_ups]:
                self._look_after(follow_ups)
            case ["finished", _]:
                raise InvalidTransition(
                    f"run {run_id} has completed and spends no more; "
                    f"its answer: perdure show {run_id}"
                )
            case _:
                raise damaged(run_id, reply)

    def _look_after(self, follow_ups: Sequence[str]) -> None:
        """Stop or continue children, as a transition's reply asks.

        Args:
            follow_ups: Empty, or one text with the ids of these runs.
        """
        if not follow_ups:
            return
        from perdure.worker.messaging.follow_ups import FollowUps  # imports Celery, which is slow

        FollowUps(self._store, self._connection.publisher).do(follow_ups[0].split())
