"""The client limited to a caller's rights, and ``Runs``, by which a route gets it.

A route names it as a parameter: ``def get(run_id: str, runs: Runs)``. The route must have the
dependency ``perdure.worker.web.services.authorize``, which makes the client.

Scopes and owners are enforced here and in ``caller_rights``, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Annotated, Any

from fastapi import Depends, Request

from perdure.flows.core.files import BYTES, File, artifact_name
from perdure.flows.core.outcomes import Turn
from perdure.flows.core.thread_messages import ThreadMessage
from perdure.worker.client.methods import Methods
from perdure.worker.client.read_methods import ReadMethods
from perdure.worker.client.tokens import SavedFilters
from perdure.worker.domain.event import Event
from perdure.worker.domain.fleet import WorkerStatus
from perdure.worker.domain.run import Done, Page, Run, RunStatus
from perdure.worker.domain.sent_message import SentMessage
from perdure.worker.domain.stop import StopMode, StopReceipt
from perdure.worker.domain.stream import StreamItem, StreamReader
from perdure.worker.domain.turn_texts import unpack_turns
from perdure.worker.errors import DamagedRun, RunNotFound
from perdure.worker.features.clients import CallerFeatures
from perdure.worker.metrics.exposition import exposition
from perdure.worker.operations.event_batches import read_stream
from perdure.worker.operations.threads import messages_of, topic_of
from perdure.worker.web.auth.authenticate import Scope
from perdure.worker.web.auth.caller_rights import CallerRights
from perdure.worker.web.auth.own_names import errors_name

#: Maximum number of runs to read for one page (``python -m benchmarks search``). So the cost of a
#: page does not depend on the number of runs, or of matching runs.
RUNS_READ_PER_PAGE = 1500
#: Maximum number of runs to read to find all that match a query.
RUNS_READ_FOR_ALL = 15_000
#: Largest page size that a request may ask for.
MAX_PAGE_SIZE = 1000


class AuthorizedClient(CallerRights, ReadMethods, Methods, CallerFeatures):
    """A client limited to the rights of its caller.

    Every method can raise these errors, in addition to the errors of Client.

    Raises:
        Forbidden: The caller lacks the scope that the method needs.
        RunNotFound: The run belongs to another owner. The error is the same as for a run that does
            not exist.
    """

    # read

    def metrics(self, accept: str = "") -> tuple[bytes, str]:
        """Return the metrics for Prometheus and their content type.

        They cover the runs of all owners. They name flows but no runs.

        Args:
            accept: The header ``Accept`` of the request, which chooses the format.
        """
        self.caller.require(Scope.READ)
        return exposition(self.client, accept)

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
        """Return a page of the runs that the caller may see.

        At most ``look`` runs are read, but never more than RUNS_READ_PER_PAGE or ``limit``,
        whichever is larger. So a page may hold fewer than ``limit`` runs and yet have a cursor.
        """
        most = max(RUNS_READ_PER_PAGE, limit)
        return super().runs(
            status, flow, limit, cursor, labels=labels, submitted_by=submitted_by,
            look=min(look or most, most),
            children=children, parent=parent, thread_id=thread_id, query=query,
        )  # fmt: skip

    def events(
        self, run_id: str, after: str | None = None, follow: bool = False
    ) -> Iterator[Event]:
        """Return a run's stored events after an event.

        ``after`` is the id of that event. None: all stored events are returned. ``follow`` is
        ignored: this client never waits for new events.
        """
        return super().events(run_id, after, follow=False)

    def workers(self) -> list[WorkerStatus]:
        """Return the workers. ``holds`` of each has only runs that the caller may see."""
        workers, owner = super().workers(), self.caller.sees_only
        if owner is None:
            return workers
        ids = list({run_id for worker in workers for run_id in worker.get("holds", ())})
        submitters = self._session.store.reads.some_fields(ids, ["submitted_by"])
        own = {
            run_id
            for run_id, fields in zip(ids, submitters, strict=True)
            if fields.get("submitted_by") == owner
        }
        for worker in workers:
            if "holds" in worker:
                worker["holds"] = [run_id for run_id in worker["holds"] if run_id in own]
        return workers

    def waits_for_people(self) -> int:
        """Return the number of runs that wait for people.

        The runs of all owners count. For a caller who sees only their own runs, the result is
        always 0.
        """
        self.caller.require(Scope.READ)
        return 0 if self.caller.sees_only else self._session.store.lists.interrupted_count()

    def ended_counts(self, seconds: int, buckets: int) -> dict[str, list[int]]:
        """Return how many runs of all owners ended in the last ``seconds``, by status.

        Each list has one number for each of ``buckets`` equal parts of this time, oldest first.
        """
        self.require_read_all()
        return self._session.store.lists.ended_counts(seconds, buckets)

    def metric_totals(self) -> Mapping[str, str]:
        """Return the metrics totals that all workers stored.

        They are the fields of a Redis hash.
        """
        self.require_read_all()
        return self._session.store.figures.look().rounds

    def several(self, run_ids: Iterable[str]) -> list[Run]:
        """Return the runs with these ids.

        Runs that do not exist, cannot be read, or that the caller may not see are left out.
        """
        self.caller.require(Scope.READ)
        found: list[Run] = []
        for run_id in run_ids:
            with suppress(RunNotFound, DamagedRun):
                found.append(self.get(run_id))
        return found

    def all_runs(self, query: str, statuses: Collection[RunStatus], limit: int) -> list[Run]:
        """Return runs that match a query line and statuses.

        At most ``limit`` runs are returned. At most RUNS_READ_FOR_ALL runs are read, so some
        matching runs may be missing.

        Args:
            query: The query line. '' matches all runs.
        """
        found: list[Run] = []
        cursor: str | None = None
        for _ in range(RUNS_READ_FOR_ALL // RUNS_READ_PER_PAGE):
            page = self.runs(limit=limit, cursor=cursor, query=query or None)
            found += [run for run in page if run.status in statuses]
            cursor = page.cursor
            if cursor is None or len(found) >= limit:
                break
        return found[:limit]

    def read_stream(self, run_id: str, reader: StreamReader) -> list[StreamItem]:
        """Return the stored items of a run's stream that ``reader`` has not read yet.

        This advances the position of ``reader``.
        """
        self._owned(run_id, Scope.READ)
        return read_stream(self._session, run_id, reader)

    def turns(self, run_id: str, start: int = 0) -> list[Turn]:
        """Return stored turns from position ``start`` on.

        Positions count from the oldest stored turn of the run's history, which is 0.
        """
        self._owned(run_id, Scope.READ)
        return unpack_turns(run_id, self._session.store.reads.memory(run_id, start))

    def turns_between(self, run_id: str, start: int, stop: int) -> list[Turn]:
        """Return stored turns of a run's history.

        They are those from position ``start`` up to before ``stop``. Positions count from the
        oldest stored turn, which is 0.
        """
        self._owned(run_id, Scope.READ)
        return unpack_turns(run_id, self._session.store.reads.memory(run_id, start, stop))

    def stored_events(
        self, run_id: str, after: str | None, limit: int
    ) -> list[tuple[str, dict[str, str]]]:
        """Return a run's events as stored: pairs of id and fields.

        They are the ``limit`` oldest events after the event with the id ``after``, or the
        ``limit`` oldest of all if ``after`` is None. The oldest comes first.
        """
        self._owned(run_id, Scope.READ)
        return self._session.store.events.read(run_id, after, count=limit)

    def run_of_topic(self, topic: str) -> str | None:
        """Return the id of the run that holds a topic.

        The topic is one of the caller. None if no run holds it.
        """
        self.caller.require(Scope.READ)
        return self._session.store.signals.run_of_topic(self._own(topic))

    def file(self, run_id: str, name: str) -> File:
        """Return a file of a run. ``RUN/NAME`` names a file of a run below it.

        If the run is a fork with its own copy of that file, return the copy, even after the run
        below was deleted.
        """
        self._owned(run_id, Scope.READ)
        child = name.rpartition("/")[0]
        if child and artifact_name(BYTES, name) not in self.client.artifacts(run_id):
            self._owned(child, Scope.READ)
        return self.client.file(run_id, name)

    def titles(self, run_ids: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Return the title and the flow of each run.

        The result is by run id, and needs one request to Redis. Runs that do not exist, cannot be
        read, or that the caller may not see are left out.
        """
        self.caller.require(Scope.READ)
        return self._session.titles(run_ids, self.caller.sees_only)

    def saved_filters(self) -> dict[str, str]:
        """Return the caller's saved filters: queries by name."""
        self.caller.require(Scope.READ)
        return SavedFilters(self.client, self.caller.name).all()

    def save_filter(self, name: str, query: str) -> None:
        """Save a filter of the runs table under a name."""
        self.caller.require(Scope.READ)
        SavedFilters(self.client, self.caller.name).save(name, query)

    def forget_filter(self, name: str) -> None:
        """Delete a saved filter of the runs table."""
        self.caller.require(Scope.READ)
        SavedFilters(self.client, self.caller.name).forget(name)

    # submit

    def send(
        self,
        thread: str,
        text: str,
        flow: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        key: str | None = None,
        labels: Mapping[str, str] | None = None,
        budgets: Mapping[str, float] | None = None,
        files: Sequence[File] = (),
    ) -> SentMessage:
        """Send a message to a thread of the caller.

        The thread's live run gets the message. Without a live run, the message is the goal of a new
        run. A new run belongs to the caller. ``flow``, ``inputs``, ``labels``, ``budgets`` and
        ``files`` are those of a new run.

        Raises:
            UnsupportedPart: The message has files, and the thread has a live run, which takes only
                a text.
        """
        self.caller.require(Scope.SUBMIT)
        name = self.caller.name
        return self.client._send(
            topic_of(thread, name), thread, text, flow, inputs, key, labels, budgets, name,
            files=files, has_own_topics=True,
        )  # fmt: skip

    def send_to_chat(
        self,
        topic: str,
        chat: str,
        text: str,
        flow: str,
        inputs: Mapping[str, Any] | None,
        key: str,
        files: Sequence[File] = (),
    ) -> SentMessage:
        """Send a message to a chat of the caller.

        The chat's active run gets the message. Without an active run, the message is the goal of a
        new run. An active run is queued or running.

        Args:
            topic: The topic that a run of the chat holds.
            flow: The flow of a new run. An active run must be of the same flow.
            inputs: The inputs of a new run.
            key: The idempotency key of the message.
            files: The files of a new run.

        Raises:
            Taken: The live run of the chat waits for a person, or is of another flow.
            UnsupportedPart: The message has files, and the chat has a live run, which takes only a
                text.
        """
        self.caller.require(Scope.SUBMIT)
        name = self.caller.name
        with errors_name({self._own(topic): chat, self._own(key): key}):
            return self.client._send(
                self._own(topic), chat, text, flow, inputs, self._own(key), None, None, name,
                lambda run: run.flow == flow and run.status is not RunStatus.INTERRUPTED, files,
                has_own_topics=True,
            )  # fmt: skip

    # A caller's threads have the caller's name in their topics, so this method is not derived.
    def conversation(self, thread: str) -> list[ThreadMessage]:
        """Return the messages of a thread of the caller, oldest first."""
        self.caller.require(Scope.READ)
        return messages_of(self.client._session, topic_of(thread, self.caller.name))

    def retry_many(
        self, flow: str | None = None, query: str | None = None, limit: int | None = None
    ) -> list[Done]:
        """Retry the errored runs that the caller may retry. Return the outcome for each run.

        Args:
            flow: Only runs of this flow. None: all flows.
            query: Only runs that match this query line. None: all runs.
            limit: Maximum number of runs. None: no maximum.
        """
        self.caller.require(Scope.SUBMIT)
        return self.client.retry_many(flow, self.caller.limited_to(Scope.SUBMIT), query, limit)

    # stop

    def request_stop_many(
        self,
        flow: str | None = None,
        status: RunStatus | str | None = None,
        mode: StopMode = "graceful",
        reason: str | None = None,
        query: str | None = None,
        limit: int | None = None,
    ) -> list[StopReceipt]:
        """Stop the live runs that the caller may stop. Return a receipt for each run.

        Args:
            flow: Only runs of this flow. None: all flows.
            status: Only runs of this status. None: all live runs.
            query: Only runs that match this query line. None: all runs.
            limit: Maximum number of runs. None: no maximum.
        """
        self.caller.require(Scope.STOP)
        return self.client.request_stop_many(
            flow,
            status,
            mode,
            reason,
            self.caller.name,
            self.caller.limited_to(Scope.STOP),
            query,
            limit,
        )

    # admin

    def delete_many(
        self,
        status: RunStatus | str | None = None,
        flow: str | None = None,
        older_than: timedelta | None = None,
        query: str | None = None,
        limit: int | None = None,
    ) -> list[Done]:
        """Delete ended runs by status, query line, or both. Only an admin may.

        Args:
            flow: Only runs of this flow. None: all flows.
            older_than: Only runs that have not changed for this time. None: all runs.
            limit: Maximum number of runs. None: no maximum.
        """
        self.caller.require(Scope.ADMIN)
        return self.client.delete_many(status, flow, older_than, query=query, limit=limit)


def _authorized_client(request: Request) -> AuthorizedClient:
    authorized_client = request.state.authorized_client
    assert isinstance(authorized_client, AuthorizedClient)
    return authorized_client


Runs = Annotated[AuthorizedClient, Depends(_authorized_client)]
