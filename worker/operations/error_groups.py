"""Groups of errored runs.

The search for the groups reads a bounded number of runs: of each run the fields ``READ``, and the
fields that the filter needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

from perdure.worker.domain.error_groups import LOOKED_AT, ErrorGroup, ErrorGroups, kind_of
from perdure.worker.domain.query_line import QueryTerm, line_of, terms_of
from perdure.worker.domain.remedy import REMEDY, remedy_in
from perdure.worker.domain.run import RunStatus
from perdure.worker.domain.run_query import RunQuery
from perdure.worker.operations import validation
from perdure.worker.operations.run_list import RunFilter, RunScan
from perdure.worker.presentation.text import shortened
from perdure.worker.store import Store

#: Fields that determine a run's group.
READ = ("phase", "flow", "current_node", "error", "ended_at", "epoch", REMEDY)
#: Latest time (ms) of an error, in the year 2096: a damaged score may be outside the calendar.
LATEST = 4e12
#: Characters of a group's error.
ERROR_CHARACTERS = 500
#: Keys of a query line that a group's own query sets, or that choose no runs.
OF_GROUP = ("status", "flow", "node", "kind", "sort")


def group_errors(
    store: Store,
    flow: str | None,
    query: str | None,
    look: int | None,
    submitted_by: str | None,
) -> ErrorGroups:
    """Return the errored runs in groups, as ``Client.error_groups`` describes them."""
    validation.optional_texts(flow=flow, query=query)
    validation.submitter(submitted_by)
    validation.look(look)
    terms = [term for term in terms_of(query or "") if term.key != "sort"]
    asked = RunQuery.of(line_of(terms))
    wanted = RunFilter(
        RunStatus.ERRORED, flow, {}, submitted_by, query=asked, now=float(store.time())
    )
    scan = RunScan(store, wanted, None, READ)
    of_group = OF_GROUP if submitted_by is None else (*OF_GROUP, "by")
    others = [term for term in terms if term.key not in of_group or term.is_not]
    if submitted_by is not None:
        others.append(QueryTerm("by", submitted_by))
    counts: Counter[tuple[str, str, str]] = Counter()
    newest: dict[tuple[str, str, str], ErrorGroup] = {}
    most = LOOKED_AT if look is None else look
    while not scan.is_over and scan.looked < most:
        for candidate in scan.take(min(wanted.batch_size, most - scan.looked)):
            fields = candidate.fields
            if fields.get("phase") != RunStatus.ERRORED.value:
                continue
            error = fields.get("error", "")
            at = moment(fields.get("ended_at", "0"))
            name = fields.get("flow", ""), fields.get("current_node", ""), kind_of(error)
            counts[name] += 1
            if name not in newest or at > newest[name].newest_at:
                newest[name] = ErrorGroup(
                    *name,
                    count=0,
                    newest=candidate.run_id,
                    newest_at=at,
                    error=shortened(error, ERROR_CHARACTERS),
                    query=_query_of(*name, others),
                    remedy=remedy_in(fields),
                )
    groups = [replace(group, count=counts[name]) for name, group in newest.items()]
    groups.sort(key=lambda group: (group.count, group.newest_at), reverse=True)
    looked_back = None if scan.is_over else moment(scan.position.partition(":")[0])
    return ErrorGroups(groups, sum(counts.values()), looked_back)


def _query_of(flow: str, node: str, kind: str, others: Iterable[QueryTerm]) -> str:
    """Return the query line that chooses the runs of a group.

    Args:
        others: The other terms of the search. The line has them after the terms of the group.

    Returns:
        The line. It is empty if the group has no flow or no node: without this term, a line would
        also choose the runs of other groups.
    """
    if not (flow and node):
        return ""
    named = (("status", "errored"), ("flow", flow), ("node", node), ("kind", kind))
    return line_of((*(QueryTerm(key, text) for key, text in named), *others))


def moment(text: str) -> datetime:
    """Return a stored time or an index score as a datetime.

    Args:
        text: The time in ms since 1970. A text that is no such number gives the beginning of 1970.
    """
    try:
        return datetime.fromtimestamp(min(float(text), LATEST) / 1000, UTC)
    except (ValueError, OverflowError):  # of a run that was changed by hand
        return datetime.fromtimestamp(0, UTC)
