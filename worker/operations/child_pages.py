"""Pages of a run's children."""

from __future__ import annotations

from perdure.worker.domain.record import GROUPS, Record
from perdure.worker.domain.run import Page, Run
from perdure.worker.errors import DamagedRun
from perdure.worker.operations import validation
from perdure.worker.operations.run_list import RunFilter
from perdure.worker.operations.session import Session


def read_children(
    session: Session,
    run_id: str,
    wanted: RunFilter,
    limit: int,
    look: int | None,
    cursor: str | None,
) -> Page:
    """Return a page of a run's matching children, in the order of their start.

    Deleted children are left out. The ids of children that cannot be read are in ``damaged`` of the
    page.

    Args:
        wanted: The filter.
        limit: Maximum number of children on the page.
        look: Maximum number of children to read. None: all remaining children.
        cursor: Cursor of the previous page. None: the first page.

    Raises:
        RunNotFound: No run has this id.
        InvalidInput: The cursor is not valid.
    """
    place, last = validation.offset(cursor)
    parent = session.record(run_id).fields
    groups = parent.get(GROUPS, "").split()
    ids = session.store.family.children(run_id, parent.get("nonce", ""), groups)
    if last and ids[place - 1 : place] != [last]:
        # The oldest children are gone with the events of their start, and the others have moved
        # up. If the last one is gone too, so are all before it.
        place = ids.index(last) + 1 if last in ids else 0
    end = len(ids) if look is None else min(len(ids), place + look)
    found: list[Run] = []
    damaged: list[str] = []
    while place < end and len(found) < limit:
        page = ids[place : min(end, place + limit - len(found))]
        place += len(page)
        for child_id, fields in zip(page, session.store.reads.records(page), strict=True):
            try:
                if fields is not None and wanted.fits(fields):
                    found.append(Run.of(Record(fields)))
            except DamagedRun:
                damaged.append(child_id)
    more = f"{place}:{ids[place - 1]}" if 0 < place < len(ids) else None
    return Page(found, more, tuple(damaged))
