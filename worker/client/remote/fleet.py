"""The fleet over HTTP: inbox, flows, workers, queues, and the doctor's findings."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

from perdure.worker.client import validation
from perdure.worker.client.api import ClientApi
from perdure.worker.client.remote.connection import RemoteConnection, not_here
from perdure.worker.domain.fleet import DeadLetter, FlowInfo, FlowPause, QueueInfo, WorkerStatus
from perdure.worker.domain.interrupt import Inbox
from perdure.worker.domain.verdict import Verdict

if TYPE_CHECKING:
    from perdure.worker.doctor import Finding

#: Maximum entries that the server returns at once.
PAGE = 1000


class RemoteFleet(RemoteConnection, ClientApi):
    """Reads inbox, flows, workers, queues and findings; pauses flows."""

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

    def stuck(self, limit: int = 50, submitted_by: str | None = None) -> list[Verdict]:
        validation.limit(limit)
        not_here(submitted_by=submitted_by)
        return [Verdict.from_dict(each) for each in self._ask("/stuck", limit=min(limit, PAGE))]

    def queues(self) -> list[QueueInfo]:
        return [QueueInfo.from_dict(each) for each in self._ask("/queues")]

    def dead_letters(self, limit: int = 20) -> list[DeadLetter]:
        validation.limit(limit)
        return list(self._ask("/dead-letters", limit=min(limit, PAGE)))

    def workers(self) -> list[WorkerStatus]:
        return list(self._ask("/workers"))

    def flows(self) -> dict[str, FlowInfo]:
        return dict(self._ask("/flows"))

    def pause_flow(
        self, flow: str, reason: str | None = None, requested_by: str | None = None
    ) -> bool:
        validation.text(flow, "flow")
        validation.notes(reason=reason)
        not_here(requested_by=requested_by)
        return bool(self._tell("PUT", _pause(flow), {"reason": reason})["new"])

    def unpause_flow(self, flow: str) -> int:
        validation.text(flow, "flow")
        return int(self._tell("DELETE", _pause(flow))["offered"])

    def paused_flows(self) -> dict[str, FlowPause]:
        return {
            flow: cast(FlowPause, {**info, "at": datetime.fromisoformat(info["at"])})
            for flow, info in self._ask("/paused").items()
        }

    def doctor(self) -> list[Finding]:
        from perdure.worker.doctor import Finding

        return [Finding.from_dict(each) for each in self._ask("/doctor")]


def _pause(flow: str) -> str:
    return f"/flows/{quote(flow, safe='')}/pause"
