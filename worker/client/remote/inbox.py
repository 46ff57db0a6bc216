"""The inbox over HTTP."""

from __future__ import annotations

from perdure.worker.client.api import ClientApi
from perdure.worker.client.remote.connection import RemoteConnection, not_here
from perdure.worker.domain.interrupt import Inbox
from perdure.worker.operations import validation

#: Maximum entries that the server returns at once.
PAGE = 1000


class RemoteInbox(RemoteConnection, ClientApi):
    """Reads the inbox."""

    def inbox(
        self,
        limit: int = 50,
        cursor: str | None = None,
        submitted_by: str | None = None,
        below: str | None = None,
    ) -> Inbox:
        validation.limit(limit)
        validation.inbox_cursor(cursor)
        validation.optional_texts(below=below)
        not_here(submitted_by=submitted_by)

        def ask(count: int, cursor: str | None) -> Inbox:
            return Inbox.from_dict(
                self._ask("/inbox", limit=min(count, PAGE), cursor=cursor, below=below)
            )

        page = ask(limit, cursor)
        while page.cursor is not None and len(page) < limit:
            more = ask(limit - len(page), page.cursor)
            page = Inbox(page.waiting + more.waiting, more.cursor, page.damaged + more.damaged)
        return page
