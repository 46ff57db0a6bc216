"""The operation that finds stuck runs, from a bounded number of runs."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.worker.domain.token import Scope
from perdure.worker.domain.verdict import MOVING, Verdict, VerdictCode
from perdure.worker.operations.operation import Http, Owner, operation
from perdure.worker.operations.session import Session

#: Number of runs read in one exchange: each may have large inputs.
AT_ONCE = 25
#: Runs of each index that are searched for runs of one submitter: about 4 ms of the state server.
LOOKED_AT = 2_000


@operation(Http("GET", "/stuck"), scope=Scope.READ, owner=Owner.SUBMITTER)
def stuck(session: Session, limit: int = 50, submitted_by: str | None = None) -> list[Verdict]:
    """Return a verdict for each run that is stuck.

    A stuck run has no worker, is damaged or errored, belongs to a paused flow, or is lost again
    and again. A run that waits on purpose is not stuck. ``details["run"]`` of a verdict is the
    id of its run.

    The call checks at most ``limit`` runs of each of these: the most overdue, the oldest live,
    the oldest live child runs, and the latest errored. So the cost does not depend on the
    number of runs.

    Args:
        limit: See above. The result may have more verdicts.
        submitted_by: Only runs of this submitter.
    """
    from perdure.worker.diagnostics.why import verdict_of
    from perdure.worker.store.lookups import due_first, look_at_all, oldest

    store = session.store
    # The runs of other submitters must not hide this submitter's runs.
    count = limit if submitted_by is None else max(limit, LOOKED_AT)
    sources = [
        due_first(store, count),
        oldest(store, "live", count),
        oldest(store, "live:children", count),
        [run_id for run_id, _ in store.lists.listed("errored", count)],
    ]
    chosen: dict[str, None] = {}
    for source in sources:
        own = source if submitted_by is None else _submitted(session, submitted_by, source)
        chosen |= dict.fromkeys(own[:limit])
    ids = list(chosen)
    lengths = session.connection.publisher.lengths() if store.outbox else None
    verdicts = (
        verdict_of(snapshot, session.settings)
        for begin in range(0, len(ids), AT_ONCE)
        for snapshot in look_at_all(store, ids[begin : begin + AT_ONCE], lengths).values()
    )
    return [verdict for verdict in verdicts if _stands_still(verdict)]


def _submitted(session: Session, submitter: str, run_ids: Sequence[str]) -> list[str]:
    """Return the ids of the runs that belong to a submitter, in the given order."""
    read = session.store.reads.many_fields(run_ids, ["submitted_by"])
    pairs = zip(run_ids, read, strict=True)
    return [run_id for run_id, fields in pairs if fields.get("submitted_by") == submitter]


def _stands_still(verdict: Verdict) -> bool:
    if verdict.code is VerdictCode.ENDED:
        return verdict.details.get("status") == "errored"
    return verdict.code not in MOVING
