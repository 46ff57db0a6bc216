"""ClientApi: the contract of every client. Its docstrings document every client's methods."""

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
    from perdure.worker.domain.signal import SignalReceipt, SignalReply
    from perdure.worker.domain.stop import StopMode, StopReceipt


class ClientApi(ReadApi, Methods):
    """Operations of every client on the runs of one server.

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
            flow: Name of the flow of a new run. None for the flow of the thread's newest run.
            inputs, labels, budgets: Of a new run.
            key: Your own id of the message. Sent again under it, the message is stored once.
            submitted_by: Owner of the run, and author of the message.
            files: Pictures, documents and texts of a new run, as for ``submit``.

        Raises:
            UnknownFlow, InvalidInput, UnsafeServer: As for ``submit``. Nothing was stored.
            UnsupportedPart: The message has files, and the thread's live run accepts texts only.
            Conflict: The key belongs to another message.
            MailboxFull: As for ``signal``.
        """

    # Stop, continue and delete a run

    @abstractmethod
    def request_stop(
        self,
        run_id: str,
        mode: StopMode = "graceful",
        reason: str | None = None,
        requested_by: str | None = None,
        children: bool = True,
    ) -> StopReceipt:
        """Stop a run and its children.

        A run that has ended or does not exist is no error: the receipt reports it.

        Args:
            mode: With ``graceful``, the round in flight may finish. With ``now``, the run is
                stopped when this returns.
            children: If False, started children continue. Their answers are available when the run
                is resumed.
        """

    @abstractmethod
    def resume(
        self,
        run_id: str,
        answer: Any = None,
        add: Mapping[str, float] | None = None,
        interrupt: str | None = None,
        by: str | None = None,
    ) -> Run:
        """Continue an interrupted, stopped or unfinished run.

        An unfinished run has used up its cycles. A run that paused after its last node completes
        with this call.

        Args:
            answer: Any JSON. An approval takes "approve", "refuse", {"refuse": "why"} or {"edit":
                {...the arguments}}.
            add: Amounts to add to the limits of the run's budgets, by name. For a run that ended
                unfinished, ``cycles``.
            interrupt: Id of the question that is answered (``PendingInterrupt.id``). It prevents
                answering a newer question unseen.
            by: Who answers. It is stored with the run, and the run's node can read it.

        Raises:
            Forbidden: The flow needs the approval of another person than the submitter.
            InvalidTransition: The run is in none of these states.
            Stale: Another answer came first.
            RunNotFound: No run has this id.
            InvalidInput, UnstorableValue: The answer is too large, is not JSON, or does not fit the
                question, or a name in ``add`` has no limit.
        """

    @abstractmethod
    def add(self, /, run_id: str, *, by: str | None = None, **amounts: float) -> Run:
        """Add amounts to the limits of a run's budgets.

        Runs that wait for the budget continue. A run's budgets also count the spending of the runs
        below it, so these continue too if the limit held them up. A round in progress sees the new
        limit after it ends.

        Args:
            by: Who adds.
            amounts: The amounts by budget name, as in ``add(run_id, tokens=5000)``.

        Raises:
            RunNotFound: No run has this id.
            InvalidInput: The run has no such budget, or an amount is not above 0.
            InvalidTransition: The run has completed.
        """

    @abstractmethod
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
        """Send a signal to a run, or to a topic. Once this returns, the signal is stored.

        A node waits for it with ``context.wait_for``. Signals of one name are taken in order, each
        by one committed round. A node also gets signals that came before it waited.

        Args:
            run_id: The run. None: the run that holds ``topic``.
            name: Letters, digits, ``_``, ``.`` or ``-``.
            payload: JSON data.
            topic: A topic, see ``submit``. If no run holds it, the signal is kept for the run that
                takes it.
            key: Your own id of this signal. Sent again under it, the signal is stored once.
            by: Who sends it.
            keep: Seconds for which a topic keeps the signal until a run takes the topic. None: an
                hour. At most 30 days.

        Raises:
            RunNotFound: No run has this id.
            InvalidInput, UnstorableValue: The name or the payload is not acceptable.
            InvalidTransition: The run has completed.
            Conflict: The key belongs to a signal with another payload.
            MailboxFull: The run has 1,000 unread signals of this name, unread signals of 64 names,
                or 64 MiB of them. Or 100 signals, or 1 MiB of them, wait for a run to take the
                topic.
        """

    @abstractmethod
    def say(
        self, run_id: str, words: str, *, key: str | None = None, by: str | None = None
    ) -> SignalReceipt:
        """Send words to a working run, as signal ``say``.

        The next controller round of the run reads the words, as a turn of its history. The run does
        not finish with unread words, unless they would delay its end for the ninth time in a row.
        Then its event ``unread`` names them.

        Args:
            words: The text to send.
            key: Your own id of this signal. Sent again under it, the signal is stored once.
            by: Who sends it.

        Raises:
            RunNotFound: No run has this id.
            InvalidInput: The words are empty or too long.
            InvalidTransition: The run has completed.
            Conflict, MailboxFull: As for ``signal``.
        """

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
        """Ask a working run and return its reply.

        The question is a signal that expects a reply. A controller reads ``ask`` as it reads
        ``say``, and its model answers with the command ``reply``. Any other node takes the signal
        and calls ``context.reply``.

        Args:
            question: JSON data, usually a text.
            name: The name of the signal.
            timeout: Seconds to wait for the reply.
            key, by: As for ``signal``.

        Raises:
            TimeoutError: The run did not reply in time. It may reply later: see ``reply``.
            InvalidTransition: The run has completed, perhaps without a reply.
            RunNotFound, InvalidInput, UnstorableValue, Conflict, MailboxFull: As for ``signal``.
        """

    @abstractmethod
    def reply(
        self, run_id: str, number: int, name: str = "ask", timeout: float | timedelta = 0.0
    ) -> SignalReply:
        """Return a run's reply to a signal. The newest 100 replies of a name are kept.

        Args:
            number: The number of the signal, from its receipt.
            name: The name of the signal.
            timeout: Seconds to wait for a reply.

        Raises:
            InvalidTransition: The run has completed without a reply.
            InvalidInput: The run has received no such signal.
            RunNotFound: No run has this id.
        """

    @abstractmethod
    def retry(self, run_id: str, children: bool = True) -> Run:
        """Retry an errored run at its failed step.

        Args:
            children: First retry the errored children that this step waited for. Their completed
                siblings keep their answers. If False, the run sees its children as they are. If the
                run still waits for children that are held back (``on_failure``), only these are
                retried.

        Raises:
            InvalidTransition: The run is not errored.
            Stale: Another retry or round came first.
            RunNotFound: No run has this id.
        """

    @abstractmethod
    def delete(self, run_id: str, tree: bool = False) -> None:
        """Delete a run that has ended.

        A run that is too damaged to continue or to stop can be deleted too. The notes that it kept
        for later runs stay (``forget_notes``).

        Args:
            tree: Also delete the runs below it, deepest first. A call that failed midway can be
                repeated.

        Raises:
            InvalidTransition: The run is live, or a newer version wrote it. With ``tree``, also if
                a run below it is live. No run is deleted then.
            RunNotFound: No run has this id.
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

        The new run has the run's inputs, labels, budgets, model and files, unless you pass others.
        It uses the workers' current code.

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
            InvalidInput: The inputs do not fit the flow, or it does not allow the model.
        """
        from perdure.worker.client.again import changed_budgets

        run = self.get(run_id)
        name = flow or run.flow
        return self.submit(
            name,
            goal or run.goal or None,
            {**run.inputs, **(inputs or {})},
            labels=run.labels or None,
            budgets=changed_budgets(run, self.flows().get(name, {})) or None,
            model=model or run.details.get("model"),
            files=[self.file(run_id, each.name) for each in self.files(run_id)] or None,
            idempotency_key=idempotency_key,
            submitted_by=submitted_by,
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
            older_than: Only runs that have not changed for this long before ``now``.
            now: An aware datetime. None means this machine's time.
            query: A query line, as in ``runs``. Its order does not matter.
            limit: Maximum number of ids. None means all.

        Raises:
            InvalidInput: The query cannot be read.
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
            status: queued, running or interrupted.
            query: A query line, as in ``runs``.
            limit: Maximum number of runs to stop. None means all.

        Raises:
            InvalidInput: Neither flow, status nor query is given, or the query cannot be read.
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
        """Send a signal to all live runs that match.

        Args:
            name, payload: As in ``signal``.
            flow: Only runs of this flow.
            labels: Only runs with these labels.
            key: Your own id of this signal. With it, an aborted call can be repeated: each run
                stores the signal once.

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
            A result for each run. A run that changed meanwhile is left as it is, and its result
                says so. An aborted call can be repeated.
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
        """Delete all runs of an ended status.

        Args:
            status: completed, errored or stopped. It may be left out if there is a query.
            query: Only runs that match this query line, as in ``runs``.
            limit: Maximum number of runs to delete. None means all.

        Returns:
            A result for each run, as ``retry_many`` returns them.

        Raises:
            InvalidInput: Another status is given, or neither a status nor a query, or the query
                cannot be read.
        """
