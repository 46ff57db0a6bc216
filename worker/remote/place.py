"""Place: the inbox, the flows, the workers and the queues, and what is wrong with the place."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from worker.client import Inbox, arguments
from worker.queues import QueueSeen
from worker.remote.connection import Connected
from worker.remote.refusing import not_here
from worker.verdict import Verdict

if TYPE_CHECKING:
    from worker.doctor import Finding

#: What the server tells of at once, at most.
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

    def stuck(self, limit: int = 50, submitted_by: str | None = None) -> list[Verdict]:
        """Why runs stand still that nobody waits for on purpose; ``details["run"]`` names each verdict's run."""
        arguments.limit(limit)
        not_here(submitted_by=submitted_by)
        return [Verdict.from_dict(each) for each in self._ask("/stuck", limit=min(limit, PAGE))]

    def queues(self) -> list[QueueSeen]:
        """The broker's queues: their lengths, and how long the next message's run has waited."""
        return [QueueSeen.from_dict(each) for each in self._ask("/queues")]

    def dead_letters(self, limit: int = 20) -> list[dict[str, Any]]:
        """The newest messages that workers refused."""
        arguments.limit(limit)
        return list(self._ask("/dead-letters", limit=min(limit, PAGE)))

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
