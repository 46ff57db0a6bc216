"""Actions on several runs, which are chosen in the table or match a query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from perdure.worker.client.bulk import LIVE
from perdure.worker.domain.query_line import with_term
from perdure.worker.domain.run import Run, RunStatus
from perdure.worker.domain.run_query import RunQuery
from perdure.worker.errors import (
    DamagedRun,
    InvalidInput,
    InvalidTransition,
    RunNotFound,
    Stale,
)
from perdure.worker.presentation.text import count
from perdure.worker.web.auth import Scope
from perdure.worker.web.auth.permissions import AuthorizedClient, Runs
from perdure.worker.web.dashboard.actions import mode_of
from perdure.worker.web.dashboard.page import PageRoute, back, page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

#: Maximum number of runs on which one form acts.
MOST = 1000
#: Number of runs that the page names before it acts.
SHOWN = 100
#: Number of refused runs whose reason the report names, and the characters of one reason.
NAMED, REASON = 2, 140
#: Errors that concern one run, so that the action goes on with the others.
OF_ONE_RUN = (InvalidTransition, Stale, RunNotFound, DamagedRun)

Form = Mapping[str, str]


@dataclass(frozen=True)
class BulkAction:
    """An action on several runs.

    Attributes:
        verb: Label of the action's button.
        scope: Permission that a caller needs.
        statuses: Statuses of the runs to which the action applies.
        act: A function that carries the action out on one run, and returns the outcome as a text,
            such as ``stopped``.
        warning: Text on the page that asks for a confirmation.
    """

    verb: str
    scope: Scope
    statuses: tuple[RunStatus, ...]
    act: Callable[[AuthorizedClient, str, Form], str]
    warning: str = ""


def _stop(runs: AuthorizedClient, run_id: str, form: Form) -> str:
    receipt = runs.request_stop(run_id, mode_of(form), form.get("reason", "").strip() or None)
    if receipt.stopped:
        return "stopped"
    return "will stop after the current round" if receipt.running else "had already ended"


def _retry(runs: AuthorizedClient, run_id: str, _: Form) -> str:
    runs.retry(run_id)
    return "will be retried from the failed step"


def _delete(runs: AuthorizedClient, run_id: str, _: Form) -> str:
    runs.delete(run_id)
    return "deleted"


#: The actions by name. The table of runs has a button for each.
ACTIONS: Mapping[str, BulkAction] = {
    "stop": BulkAction("Stop", Scope.STOP, LIVE, _stop),
    "retry": BulkAction(
        "Retry",
        Scope.SUBMIT,
        (RunStatus.ERRORED,),
        _retry,
        "Each run goes on from the step that failed.",
    ),
    "delete": BulkAction(
        "Delete",
        Scope.ADMIN,
        tuple(status for status in RunStatus if status.ended),
        _delete,
        "Their histories and results are deleted too. This cannot be undone.",
    ),
}


@router.get("/chosen")
def confirm(
    request: Request,
    runs: Runs,
    action: Annotated[str, Query()] = "",
    run: Annotated[list[str] | None, Query()] = None,
    everything: Annotated[str, Query(alias="all")] = "",
    q: Annotated[str, Query()] = "",
) -> Response:
    """Show the runs on which an action would act, and ask for a confirmation.

    Args:
        run: The ids of the chosen runs. Ignored if ``everything`` is not empty.
        everything: If not empty, the runs are all those that match the query line ``q``.
    """
    chosen_action = _action(action)
    found = (
        runs.all_runs(_without_order(q), chosen_action.statuses, MOST)
        if everything
        else runs.several(dict.fromkeys(run or ()))
    )
    fitting = [each for each in found if each.status in chosen_action.statuses][:MOST]
    return page(
        request,
        "chosen.html",
        styles=["runs.css"],
        name=action,
        action=chosen_action,
        chosen=fitting,
        shown=SHOWN,
        others=_others(found, fitting),
        is_full=len(fitting) == MOST,
        everything=bool(everything),
        narrows=bool(everything and RunQuery.of(q).terms),
        q=q,
    )


async def _form_of(request: Request) -> tuple[Form, list[str]]:
    form = await request.form()
    ids = [value for value in form.getlist("run") if isinstance(value, str)]
    return {name: value for name, value in form.items() if isinstance(value, str)}, ids


@router.post("/chosen")
def act(
    request: Request, runs: Runs, sent: Annotated[tuple[Form, list[str]], Depends(_form_of)]
) -> Response:
    """Stop, retry or delete the chosen runs.

    The next page shows how many runs had which outcome. An error that concerns one run leaves that
    run unchanged. The others are still processed.
    """
    form, ids = sent
    chosen_action = _action(form.get("action", ""))
    if len(ids) > MOST:
        raise InvalidInput(f"expected at most {MOST:,} runs, got {len(ids):,}")
    results: Counter[str] = Counter()
    refused: list[str] = []
    for run_id in dict.fromkeys(ids):
        try:
            results[chosen_action.act(runs, run_id, form)] += 1
        except OF_ONE_RUN as error:
            refused.append(f"{run_id}: {error}"[:REASON])
    notice = " ".join(f"{count(number, 'run')} {what}." for what, number in results.items())
    if refused:
        more = f" and {len(refused) - NAMED:,} more" if len(refused) > NAMED else ""
        notice += (
            f" {count(len(refused), 'run')} left unchanged: {'; '.join(refused[:NAMED])}{more}"
        )
    return back(request, "runs", notice=notice or "No run was chosen.", q=form.get("q", ""))


def _action(name: str) -> BulkAction:
    if name not in ACTIONS:
        raise InvalidInput(f"expected one of {', '.join(ACTIONS)}, got {name[:60]!r}")
    return ACTIONS[name]


def _without_order(line: str) -> str:
    return with_term(line, "sort", None)


def _others(found: list[Run], fitting: list[Run]) -> dict[str, int]:
    """Count the chosen runs that the action skips, by status."""
    left = {run.id for run in found} - {run.id for run in fitting}
    return dict(Counter(run.status.value for run in found if run.id in left))
