"""The operation that finds runs that wait for a person."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from perdure.worker.domain.interrupt import Inbox, PendingInterrupt
from perdure.worker.domain.record import Record
from perdure.worker.domain.run import Run
from perdure.worker.domain.token import Scope
from perdure.worker.errors import DamagedRun
from perdure.worker.operations import validation
from perdure.worker.operations.arguments import by_value
from perdure.worker.operations.operation import Http, Owner, operation
from perdure.worker.operations.session import Session
from perdure.worker.operations.waiting_runs import Entry, WaitingRuns
from perdure.worker.presentation.text import plain

#: The cursor position before all waiting runs.
BEFORE_ALL = "0:0"
#: Characters of a question that an error shows.
QUESTION_SHOWN = 200


@operation(
    Http("GET", "/inbox"),
    scope=Scope.READ,
    owner=Owner.SUBMITTER,
    checks={"cursor": by_value(validation.inbox_cursor)},
)
def inbox(
    session: Session,
    limit: int = 50,
    cursor: str | None = None,
    submitted_by: str | None = None,
    below: str | None = None,
) -> Inbox:
    """Return runs that wait for a person, longest wait first.

    A page without ``below`` looks at 5,000 waiting runs at most, first submitted first. If more
    are waiting, it may hold fewer runs than ``limit`` and still have a cursor.

    Args:
        limit: Maximum number of runs on the page.
        cursor: Cursor of the previous page. None means the first page.
        submitted_by: Only runs of this submitter.
        below: Only runs below the run with this id: its children, their children, and so on.

    Raises:
        RunNotFound: No run has the id ``below``.
    """
    place, start, end = validation.inbox_cursor(cursor) or ((-1, ""), "", "")
    record = None if below is None else session.record(below)
    runs = WaitingRuns(session.store, submitted_by, record, start, end)
    later = (entry for entry in runs.entries() if entry > place)
    waits: list[PendingInterrupt] = []
    damaged: list[str] = []
    while batch := list(islice(later, limit)):
        for entry, fields in zip(
            batch, session.store.reads.records([run_id for _, run_id in batch]), strict=True
        ):
            # answered or deleted since the index was read
            if fields is None or fields.get("phase") != "interrupted":
                continue
            try:
                waiting = PendingInterrupt.of(Run.of(Record(fields)))
            except DamagedRun:
                damaged.append(entry[1])
                continue
            waits += [waiting] if waiting is not None else []
            if len(waits) == limit:
                ends = entry == batch[-1] and next(later, None) is None
                more = _behind(runs) if ends else _cursor(entry, runs)
                return Inbox(_with_root_flows(session, waits), more, tuple(damaged))
    return Inbox(_with_root_flows(session, waits), _behind(runs), tuple(damaged))


def _with_root_flows(session: Session, waits: list[PendingInterrupt]) -> list[PendingInterrupt]:
    roots = sorted({waiting.root for waiting in waits if waiting.root is not None})
    if not roots:
        return waits
    read = session.store.reads.some_fields(roots, ["flow"])
    flow_of = {run_id: fields.get("flow") for run_id, fields in zip(roots, read, strict=True)}
    return [
        waiting
        if waiting.root is None
        else replace(waiting, root_flow=flow_of[waiting.root] or None)
        for waiting in waits
    ]


def _cursor(entry: Entry, runs: WaitingRuns) -> str:
    """Return the cursor of the next page in the window of ``runs``, after ``entry``."""
    place = f"{entry[0]}:{entry[1]}"
    return f"{place}|{runs.start}|{runs.end}" if runs.start or runs.end else place


def _behind(runs: WaitingRuns) -> str | None:
    """Return the cursor of the first page after the window of ``runs``, or None after the last."""
    return None if runs.is_last else f"{BEFORE_ALL}|{runs.end}|"


def asked_below(session: Session, run: Run) -> str:
    """Return the end of an error text about a run that waits for its child runs.

    The text names the question that has been open longest among the runs below the run, with the
    command that answers it.

    Returns:
        The text. It is empty if the run does not wait for child runs. If none of the runs below it
            asks a person, the text says only that the run waits.
    """
    if not run.details.get("waits_for_children"):
        return ""
    asked = inbox(session, 1, below=run.id).waiting
    if not asked:
        return ". It waits for its child runs"
    waiting = asked[0]
    return (
        f". It waits for its child runs, and run {waiting.run_id} ({waiting.flow}) below it asks a "
        f"person: {plain(waiting.question, QUESTION_SHOWN)} To answer: {waiting.how_in_one_line()}"
    )
