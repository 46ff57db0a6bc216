"""Place: the inbox, the flows and the workers, and what is wrong with the place."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from worker.client import Inbox, arguments
from worker.remote.connection import Connected
from worker.remote.refusing import not_here

if TYPE_CHECKING:
    from worker.doctor import Finding

#: What waits for people, on one page.
PAGE = 1000


class Place(Connected):
    """Looks at what is there beside the runs; pauses flows."""

    def inbox(self, limit: int = 50, cursor: str | None = None, submitted_by: str | None = None) -> Inbox:
        """The runs that wait for a person, longest first; ``cursor`` continues where a page ended."""
        arguments.limit(limit)
        arguments.inbox_cursor(cursor)
        not_here(submitted_by=submitted_by)
        page = Inbox.from_dict(self._ask("/inbox", limit=min(limit, PAGE), cursor=cursor))
        while page.cursor is not None and len(page) < limit:
            more = Inbox.from_dict(self._ask("/inbox", limit=min(limit - len(page), PAGE), cursor=page.cursor))
            page = Inbox(page.waiting + more.waiting, more.cursor, page.damaged + more.damaged)
        return page

    def workers(self) -> list[dict[str, Any]]:
        """The workers that announced themselves lately."""
        return list(self._ask("/workers"))

    def flows(self) -> dict[str, dict[str, Any]]:
        """The flows that the server or a live worker knows."""
        return dict(self._ask("/flows"))

    def pause_flow(self, flow: str, reason: str | None = None, requested_by: str | None = None) -> bool:
        """Pause a flow, in the name of the token's owner; whether it was running until now. Raises UnknownFlow."""
        arguments.text(flow, "flow")
        arguments.notes(reason=reason)
        not_here(requested_by=requested_by)
        return bool(self._tell("PUT", _pause(flow), {"reason": reason})["new"])

    def unpause_flow(self, flow: str) -> int:
        """Let a paused flow go on; how many runs were held and are offered again. Raises UnknownFlow."""
        arguments.text(flow, "flow")
        return int(self._tell("DELETE", _pause(flow))["offered"])

    def paused_flows(self) -> dict[str, dict[str, Any]]:
        """The paused flows, each with ``at`` (datetime), ``by`` and ``reason``."""
        return {flow: {**info, "at": datetime.fromisoformat(info["at"])} for flow, info in self._ask("/paused").items()}

    def doctor(self) -> list[Finding]:
        """What voids or endangers the promises on the state server and in the server's process, each with its remedy."""
        from worker.doctor import Finding

        return [Finding.from_dict(each) for each in self._ask("/doctor")]


def _pause(flow: str) -> str:
    return f"/flows/{quote(flow, safe='')}/pause"
