"""Operations that list and count runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from perdure.worker.domain.run import Page, RunStatus
from perdure.worker.domain.run_query import BY_END, RunQuery
from perdure.worker.domain.token import Scope
from perdure.worker.errors import InvalidInput
from perdure.worker.operations import run_counts, validation
from perdure.worker.operations.arguments import anything
from perdure.worker.operations.child_pages import read_children
from perdure.worker.operations.merged_runs import MergedRuns
from perdure.worker.operations.operation import Http, Owner, operation
from perdure.worker.operations.run_list import RunFilter, list_runs
from perdure.worker.operations.session import Session
from perdure.worker.store.keys import CHILD_INDEXES, INDEXES
from perdure.worker.store.queries import ALWAYS

if TYPE_CHECKING:
    from perdure.worker.domain.error_groups import ErrorGroups

#: Number of ids that are searched for an abbreviated id, per index on average: several indexes are
#: searched as one list.
MOST_IDS = 10_000


@operation(
    Http("GET", "/runs"), scope=Scope.READ, owner=Owner.SUBMITTER, checks={"cursor": anything}
)
def runs(
    session: Session,
    status: RunStatus | str | None = None,
    flow: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    submitted_by: str | None = None,
    look: int | None = None,
    children: bool = False,
    parent: str | None = None,
    thread_id: str | None = None,
    query: str | None = None,
) -> Page:
    """Return a page of runs, newest first.

    Completed and errored runs are ordered by the time of their end, all others by the time of
    their submission.

    Args:
        limit: Maximum number of runs on the page.
        cursor: Cursor of the previous page, from a call with the same filters.
        labels: Only runs with all these labels.
        submitted_by: Only runs of this submitter. They are ordered by their submission,
            whatever their status.
        look: Maximum number of runs to read. A page may then hold fewer than ``limit`` runs, or
            none, and still have a cursor. None means no maximum.
        children: Whether to list child runs too.
        parent: Only the children of the run with this id, in the order of their start.
        thread_id: Only runs of this thread.
        query: A query line, such as ``status:errored label:team=a submitted:<1d "some words"``.
            Its keys are described in docs/guides/find-runs.md. With ``sort:duration`` or
            ``sort:cost`` the page has the largest of the next ``look`` runs (2,000 if not
            given). No page has the rest of these runs, so choose ``limit`` accordingly.

    Raises:
        RunNotFound: No run has the id ``parent``.
        InvalidInput: The query cannot be read, or the cursor belongs to another list.
    """
    status_filter = validation.status(status)
    asked = RunQuery.of(query) if query else RunQuery()
    now = session.store.time() if asked.terms or asked.sort != "newest" else 0
    wanted = RunFilter(
        status_filter, flow, labels or {}, submitted_by, children, thread_id, asked, now
    )
    if parent is not None:
        if asked.sort != "newest":
            raise InvalidInput("query: sort: is not for the children of one run; leave it out")
        return read_children(session, parent, wanted, limit, look, cursor)
    place = validation.cursor(cursor)
    return list_runs(
        session.store,
        wanted,
        limit,
        look,
        place,
        cursor,
    )


@operation(Http("GET", "/runs"), scope=Scope.READ, owner=Owner.ALL)
def ids_beginning(session: Session, text: str) -> list[str]:
    """Return the run ids that begin with ``text``.

    Only the newest runs are searched: 40,000 runs that have completed or errored, and 60,000
    others. Child runs are among them.
    """
    # Live runs first, since a run that ends while they are read is then found among the ended.
    pairs = list(zip(INDEXES, CHILD_INDEXES, strict=True))
    ids: dict[str, None] = {}
    for has_ended in (False, True):
        names = [name for pair in pairs if (pair[0] in BY_END) is has_ended for name in pair]
        merged = MergedRuns(session.store, dict.fromkeys(names, ALWAYS))
        entries = merged.take(MOST_IDS * len(names))
        ids |= dict.fromkeys(run_id for run_id, _ in entries if run_id.startswith(text))
    return list(ids)


@operation(Http("GET", "/runs"), scope=Scope.READ, owner=Owner.SUBMITTER)
def status_counts(session: Session, submitted_by: str | None = None) -> dict[str, int]:
    """Return the number of runs per status.

    Child runs are not counted. With ``submitted_by``, only the newest 1,000 runs of this
    submitter are counted.
    """
    return run_counts.status_counts(session.store, submitted_by)


@operation(Http("GET", "/errors"), scope=Scope.READ, owner=Owner.SUBMITTER)
def error_groups(
    session: Session,
    flow: str | None = None,
    *,
    query: str | None = None,
    look: int | None = None,
    submitted_by: str | None = None,
) -> ErrorGroups:
    """Return the errored runs in groups, largest group first.

    The runs of a group share flow, node and kind of error. Child runs are left out, because
    they are retried with their parents. A group's ``query`` selects its runs, for example in
    ``retry_many``.

    Args:
        query: Only runs that match this query line, as in ``runs``. ``sort:`` has no effect.
        look: Maximum number of errored runs to look at, newest first. None means 2,000. If older
            runs are left, ``looked_back`` of the result is the time of the last run that was
            looked at.

    Raises:
        InvalidInput: The query cannot be read.
    """
    from perdure.worker.operations.error_groups import group_errors

    return group_errors(session.store, flow, query, look, submitted_by)
