"""The methods of RemoteClient that are not derived from operations, without events and waits.

A request that may have reached the server is sent again only if it cannot take effect twice. This
holds for reads, for requests with a key, and for repeatable operations (``Http.is_repeatable``).
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from perdure.flows.core.files import File, data_of, files_of, stored_file
from perdure.flows.core.outcomes import ASK
from perdure.worker.client.api import ClientApi
from perdure.worker.client.bulk import BulkOperations, ended_status, live_status
from perdure.worker.client.remote.connection import RemoteConnection, not_here, path_of
from perdure.worker.client.steer import Steering
from perdure.worker.domain.interrupt import Inbox
from perdure.worker.domain.query_line import QueryTerm
from perdure.worker.domain.run import Done, Page, Run, RunStatus
from perdure.worker.domain.run_query import SORTED_AFTER_READING, RunQuery
from perdure.worker.domain.sent_message import SentMessage
from perdure.worker.domain.signal import SignalReceipt, SignalReply
from perdure.worker.domain.stop import StopMode, StopReceipt
from perdure.worker.errors import RunNotFound, ValueNotFound
from perdure.worker.ids import RUN_ID
from perdure.worker.operations import validation
from perdure.worker.operations.arguments import check_words
from perdure.worker.operations.intervals import seconds_of

#: Seconds for which one request waits for a reply or a value; a proxy may cut longer ones.
WAIT = 10.0


def _seconds(left: float) -> str:
    return f"{max(0.0, min(WAIT, left)):.3f}"


#: Maximum entries on one page of the server.
PAGE = 1000


class RemoteReads(RemoteConnection, ClientApi):
    """Methods that read runs or the inbox, and need other requests than derived methods send."""

    def runs(
        self,
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
        validation.limit(limit)
        validation.flag(children, "children")
        validation.optional_texts(flow=flow, parent=parent, thread_id=thread_id, query=query)
        asked = RunQuery.of(query or "")
        validation.mapping(labels, "labels", of_texts=True)
        validation.look(look)
        not_here(submitted_by=submitted_by)
        wanted = validation.status(status)
        if parent is None:
            validation.cursor(cursor)
        else:
            validation.offset(cursor)
        told = [f"{name}={text}" for name, text in (labels or {}).items()]
        found: list[Run] = []
        damaged: tuple[str, ...] = ()
        while True:
            page = Page.from_dict(
                self._ask(
                    "/runs",
                    status=wanted and wanted.value,
                    flow=flow,
                    limit=min(PAGE, limit - len(found), look or PAGE),
                    cursor=cursor,
                    label=told,
                    children=True if children else None,
                    parent=parent,
                    thread_id=thread_id,
                    q=query or None,
                )
            )
            found += page.runs
            damaged += page.damaged
            cursor = page.cursor
            # The server looks at a limited number of runs for one page. The next page continues,
            # but a page that is sorted after reading is complete.
            is_whole = asked.sort in SORTED_AFTER_READING or look is not None
            if cursor is None or len(found) >= limit or is_whole:
                return Page(found, cursor, damaged)

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

    def ids_beginning(self, text: str) -> list[str]:
        validation.text(text, "text")
        if text and not RUN_ID.fullmatch(text):
            return []
        query = str(QueryTerm("id", text)) if text else None
        page = self.runs(limit=PAGE, look=PAGE, children=True, query=query)
        ids = (*(run.id for run in page), *page.damaged)
        return [run_id for run_id in ids if run_id.startswith(text)]

    def status_counts(self, submitted_by: str | None = None) -> dict[str, int]:
        not_here(submitted_by=submitted_by)
        return dict(self._ask("/runs", limit=1).get("counts") or {})

    def artifact(self, run_id: str, name: str) -> str:
        validation.text(name, "name")
        return self._sent("GET", path_of(run_id, "artifacts", name)).content.decode(
            "utf-8", "surrogateescape"
        )

    def file(self, run_id: str, name: str) -> File:
        validation.text(name, "name")
        answer = self._sent("GET", path_of(run_id, "files", name))
        media_type = answer.headers["content-type"].partition(";")[0]
        return stored_file(name, answer.content, media_type)

    def value(self, run_id: str, name: str, wait: float | timedelta = 0.0) -> Any:
        validation.text(name, "name")
        ends = time.monotonic() + seconds_of(wait)
        while True:
            left = ends - time.monotonic()
            try:
                found = self._ask(path_of(run_id, "values", name), wait=_seconds(left))
                return found["value"]
            except ValueNotFound:
                if left <= WAIT or self.get(run_id).phase == "completed":
                    raise


class RemoteControl(RemoteConnection, Steering):
    """Methods that send to or change a run, and need other requests than derived methods send."""

    def send(
        self,
        thread: str,
        text: str,
        *,
        flow: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        key: str | None = None,
        labels: Mapping[str, str] | None = None,
        budgets: Mapping[str, float] | None = None,
        submitted_by: str | None = None,
        files: Sequence[File | str | os.PathLike[str]] | None = None,
    ) -> SentMessage:
        not_here(submitted_by=submitted_by)
        validation.thread(thread)
        if not files:
            check_words(text, "text")
        validation.key_over_http(key, "key")
        validation.mapping(inputs, "inputs")
        validation.mapping(labels, "labels", of_texts=True)
        options: dict[str, Any] = {
            "inputs": None if inputs is None else dict(inputs),
            "labels": None if labels is None else dict(labels),
            "budgets": None if budgets is None else validation.budgets(budgets, "budgets"),
            "files": [data_of(each) for each in files_of(files)] or None,
        }
        validation.optional_texts(flow=flow)
        body: dict[str, Any] = {"text": text}
        body |= {} if flow is None else {"flow": flow}
        body |= {name: value for name, value in options.items() if value is not None}
        path = f"/threads/{quote(thread, safe='')}/messages"
        # The key makes a repetition safe.
        told = self._tell(
            "POST",
            path,
            body,
            repeat=True,
            idempotency_key=uuid.uuid4().hex if key is None else key,
        )
        return SentMessage.from_dict(told)

    # For a caller over HTTP, an unknown run is an error. For other clients, the receipt reports it.
    def request_stop(
        self,
        run_id: str,
        mode: StopMode = "graceful",
        reason: str | None = None,
        requested_by: str | None = None,
        children: bool = True,
    ) -> StopReceipt:
        try:
            return super().request_stop(run_id, mode, reason, requested_by, children)
        except RunNotFound:
            return StopReceipt.of(run_id, ["missing"], mode, None, reason)

    # A signal to a topic has another path than a signal to a run.
    def signal(
        self,
        run_id: str | None = None,
        name: str = "",
        payload: Any = None,
        *,
        topic: str | None = None,
        key: str | None = None,
        by: str | None = None,
        keep: float | None = None,
    ) -> SignalReceipt:
        not_here(by=by)
        validation.recipient(run_id, topic, keep)
        validation.topic(topic, over_http=True)
        validation.signal(name)
        validation.key_over_http(key, "key")
        if topic is None:
            path = path_of(str(run_id), "signals", name)
        else:
            path = f"/topics/{quote(topic, safe='')}/signals/{name}"
            # The format "g" would round, and write 1e+06. In a query, "+" is a space.
            path += "" if keep is None else f"?keep={float(keep)}"
        told = self._tell(
            "POST", path, {"payload": payload}, repeat=key is not None, Idempotency_Key=key
        )
        return SignalReceipt.from_dict(told)

    # One request waits for at most ``WAIT`` seconds, so that no proxy cuts it.
    def reply(
        self, run_id: str, number: int, name: str = ASK, timeout: float | timedelta = 0.0
    ) -> SignalReply:
        ends = time.monotonic() + seconds_of(timeout)
        while True:
            left = ends - time.monotonic()
            reply = super().reply(run_id, number, name, min(WAIT, left))
            if reply.replied or left <= WAIT:
                return reply


class RemoteBulk(RemoteReads, BulkOperations):
    """Operations on all runs that match.

    Without a query and a limit, one request stops, retries or deletes all runs. Otherwise there is
    one request for each run. A call that failed midway can be repeated, because runs that were
    stopped, retried or deleted no longer match.
    """

    def request_stop_many(
        self,
        flow: str | None = None,
        status: RunStatus | str | None = None,
        mode: StopMode = "graceful",
        reason: str | None = None,
        requested_by: str | None = None,
        submitted_by: str | None = None,
        query: str | None = None,
        limit: int | None = None,
    ) -> list[StopReceipt]:
        not_here(requested_by=requested_by, submitted_by=submitted_by)
        if query is not None or limit is not None:  # One request for each run, so none takes long.
            return super().request_stop_many(flow, status, mode, reason, query=query, limit=limit)
        validation.mode(mode)
        validation.notes(reason=reason)
        wanted = live_status(status)
        body = {"flow": flow, "status": wanted and wanted.value, "mode": mode, "reason": reason}
        return [StopReceipt.from_dict(each) for each in self._tell("POST", "/stops", body)]

    def retry_many(
        self,
        flow: str | None = None,
        submitted_by: str | None = None,
        query: str | None = None,
        limit: int | None = None,
    ) -> list[Done]:
        not_here(submitted_by=submitted_by)
        if query is not None or limit is not None:
            return super().retry_many(flow, query=query, limit=limit)
        return _done(self._tell("POST", "/retries", {"flow": flow}))

    def delete_many(
        self,
        status: RunStatus | str | None = None,
        flow: str | None = None,
        older_than: timedelta | None = None,
        submitted_by: str | None = None,
        query: str | None = None,
        limit: int | None = None,
    ) -> list[Done]:
        not_here(submitted_by=submitted_by)
        if query is not None or limit is not None:
            return super().delete_many(status, flow, older_than, query=query, limit=limit)
        validation.moment_before(older_than, None)
        wanted = ended_status(status)
        seconds = None if older_than is None else older_than.total_seconds()
        return _done(
            self._tell(
                "POST",
                "/deletions",
                {"status": wanted and wanted.value, "flow": flow, "older_than_seconds": seconds},
            )
        )


def _done(told: list[dict[str, Any]]) -> list[Done]:
    return [Done.from_dict(each) for each in told]
