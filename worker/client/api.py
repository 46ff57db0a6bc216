"""ClientApi: the methods of every client.

Some methods are derived from operations (``Methods``). Almost all others are abstract here.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from perdure.worker.client.methods import Methods
from perdure.worker.client.read_api import ReadApi

if TYPE_CHECKING:
    from perdure.flows.core.files import File
    from perdure.worker.domain.run import Done, Run, RunStatus
    from perdure.worker.domain.sent_message import SentMessage
    from perdure.worker.domain.stop import StopMode, StopReceipt


class ClientApi(ReadApi, Methods):
    """The methods of every client, for the runs of one server.

    ``Client`` talks to the state server, ``RemoteClient`` to a server of the HTTP API.
    ``AsyncClient`` has the same methods as coroutines.
    """

    # Submit

    @abstractmethod
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
        """Send a message to a thread: to its live run, or to a new run.

        A live run of the thread gets the message as the signal ``say``. Without a live run, a new
        run begins with the message as its goal. It can read the earlier messages
        (``RoundContext.conversation``). One run of a thread is live at a time. A run that is
        errored or stopped is not live.

        Args:
            thread: Your name for the conversation: letters, digits and ``_.:@+-``.
            text: The message.
            flow: Name of the flow of a new run. None means the flow of the thread's newest run.
            inputs, labels, budgets: For a new run, as for ``submit``. A live run does not get them.
            key: Your own id of the message. If a call with the same key is repeated, the message is
                stored once. None: each call stores a message.
            submitted_by: Owner of a new run, and author of the message.
            files: Pictures, documents and texts of a new run, as for ``submit``.

        Raises:
            UnknownFlow, InvalidInput, UnsafeServer: As for ``submit``. Nothing was stored.
                InvalidInput also if ``flow`` is None and the thread has no run.
            UnsupportedPart: The message has files, and the thread's live run accepts texts only.
            Conflict: The key belongs to another message.
            MailboxFull: As for ``signal``.
        """

    # Ask a run

    @abstractmethod
    def ask(
        self,
        run_id: str,
        question: Any,
        *,
        name: str = "ask",
        timeout: float | timedelta = 30.0,
        key: str | None = None,
        by: str | None = None,
    ) -> Any:
        """Ask a run, and return its reply.

        The question is a signal that expects a reply. A controller reads the signal ``ask`` as it
        reads ``say``, and its model answers with the command ``reply``. Any other node takes the
        signal and calls ``context.reply``.

        Args:
            question: JSON data, usually a text.
            name: The name of the signal.
            timeout: Seconds to wait for the reply.
            key, by: As for ``signal``.

        Raises:
            TimeoutError: The run did not reply in time. It may reply later: see ``reply``.
            InvalidTransition: The run had completed before the question, or it completed without a
                reply.
            RunNotFound, InvalidInput, UnstorableValue, Conflict, MailboxFull: As for ``signal``.
        """

    def again(
        self,
        run_id: str,
        *,
        flow: str | None = None,
        goal: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        model: str | None = None,
        idempotency_key: str | None = None,
        submitted_by: str | None = None,
    ) -> Run:
        """Submit a run once more, as a new run.

        The new run has the run's inputs, labels, model, submitted files, limits (``budgets``,
        ``max_rounds``, ``retry``) and pauses at nodes, unless you pass others. Limits and pauses
        that the submission did not choose come from the new run's flow. The limits include
        amounts that were added to them later. The new run does not take over start time,
        deadline, topic, thread, callback and mailbox. It uses the workers' current code.

        Args:
            flow: Another flow, such as a version that is registered beside the first one. None
                means the run's own.
            goal: Another goal. None means the run's own.
            inputs: Inputs that replace the run's inputs of the same names.
            model: Another model, one of the flow's ``allowed_models``. None means the run's own.
            idempotency_key, submitted_by: As in ``submit``.

        Raises:
            RunNotFound: No run has this id.
            UnknownFlow: Neither this client nor a live worker knows the flow.
            InvalidInput: The inputs do not fit the flow, or the flow does not allow the model, or
                the flow lacks a node at which the submission chose to pause.
        """
        from perdure.worker.client.again import check_pauses, options_again, submitted_files

        run, flows = self.get(run_id), self.flows()
        name = flow or run.flow
        options = options_again(run, flows, name)
        check_pauses(run, options, flows, name)
        if model:
            options["model"] = model
        return self.submit(
            name,
            goal or run.goal or None,
            {**run.inputs, **(inputs or {})},
            files=[self.file(run_id, file) for file in submitted_files(run)] or None,
            idempotency_key=idempotency_key,
            submitted_by=submitted_by,
            **options,
        )

    # Operations on all matching runs, as they were when the call began

    @abstractmethod
    def matching(
        self,
        status: RunStatus | str | None = None,
        flow: str | None = None,
        older_than: timedelta | None = None,
        now: datetime | None = None,
        submitted_by: str | None = None,
        labels: Mapping[str, str] | None = None,
        query: str | None = None,
        limit: int | None = None,
    ) -> list[str]:
        """Return the ids of all runs that match.

        All given filters must match. It is a dry run of the operations below.

        Args:
            older_than: Only runs whose last change is more than this time before ``now``.
            now: An aware datetime. None means this machine's time.
            query: A query line, as in ``runs``. ``sort:`` has no effect.
            limit: Maximum number of ids. None means all.

        Raises:
            InvalidInput: The query cannot be read or is empty. None means no query.
        """

    @abstractmethod
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
        """Stop the live runs that match all given filters.

        Child runs are stopped only with their parents, unless the query has ``children:yes``.

        Args:
            status: queued, running or interrupted. None means all three.
            mode, reason, requested_by: As for ``request_stop``.
            query: A query line, as in ``runs``.
            limit: Maximum number of runs to stop. None means all.

        Returns:
            A receipt for each run. The receipt of a damaged run says why the run was not stopped.

        Raises:
            InvalidInput: None of flow, status and query is given, or runs of this status have
                ended, or the query cannot be read or is empty.
        """

    @abstractmethod
    def signal_many(
        self,
        name: str,
        payload: Any = None,
        *,
        flow: str | None = None,
        labels: Mapping[str, str] | None = None,
        key: str | None = None,
        by: str | None = None,
        submitted_by: str | None = None,
    ) -> list[Done]:
        """Send a signal to all live runs that match all given filters.

        Args:
            name, payload, by: As in ``signal``.
            flow: Only runs of this flow.
            labels: Only runs with all these labels.
            key: Your own id of this signal. With a key, an aborted call can be repeated: each run
                stores the signal once.
            submitted_by: Only runs of this submitter.

        Returns:
            A result for each run. If a run did not store the signal, its result says why.

        Raises:
            InvalidInput: Neither flow nor labels are given.
        """

    @abstractmethod
    def retry_many(
        self,
        flow: str | None = None,
        submitted_by: str | None = None,
        query: str | None = None,
        limit: int | None = None,
    ) -> list[Done]:
        """Retry all errored runs at their failed steps.

        Child runs are retried only with their parents.

        Args:
            flow: Only runs of this flow.
            query: Only runs that match this query line, as in ``runs``.
            limit: Maximum number of runs to retry. None means all.

        Returns:
            A result for each run. A run that is no longer errored is left unchanged, and its result
                says why. An aborted call can be repeated.

        Raises:
            InvalidInput: The query cannot be read or is empty. None means no query.
        """

    @abstractmethod
    def delete_many(
        self,
        status: RunStatus | str | None = None,
        flow: str | None = None,
        older_than: timedelta | None = None,
        submitted_by: str | None = None,
        query: str | None = None,
        limit: int | None = None,
    ) -> list[Done]:
        """Delete all runs that have ended and match all given filters.

        Args:
            status: completed, errored or stopped. With a query, None means all three.
            older_than: Only runs whose last change is more than this time ago.
            query: Only runs that match this query line, as in ``runs``.
            limit: Maximum number of runs to delete. None means all.

        Returns:
            A result for each run, as ``retry_many`` returns them.

        Raises:
            InvalidInput: Another status is given, or status and query are both None, or the query
                cannot be read or is empty.
        """
