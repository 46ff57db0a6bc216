"""ClientApi: the contract of every client. Its docstrings document the methods of all of them."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from perdure.worker.client.read_api import ReadApi

if TYPE_CHECKING:
    from perdure.flows.core.files import File
    from perdure.flows.core.retry import Retry
    from perdure.flows.core.thread_messages import ThreadMessage
    from perdure.flows.rounds.notes import Note
    from perdure.worker.domain.fleet import DeadLetter, FlowInfo, FlowPause, QueueInfo, WorkerStatus
    from perdure.worker.domain.note_namespace import NoteNamespace
    from perdure.worker.domain.run import Done, Run, RunStatus
    from perdure.worker.domain.sent_message import SentMessage
    from perdure.worker.domain.signal import SignalReceipt, SignalReply
    from perdure.worker.domain.stop import StopMode, StopReceipt
    from perdure.worker.domain.submission import When
    from perdure.worker.domain.verdict import Finding, Verdict


class ClientApi(ReadApi):
    """What every client can do with the runs of one server.

    ``Client`` asks the state server, ``RemoteClient`` a server of the HTTP API. ``AsyncClient`` has
    the same methods as coroutines.
    """

    # Submit

    @abstractmethod
    def submit(
        self,
        flow: str,
        goal: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        idempotency_key: str | None = None,
        interrupt_before: Sequence[str] | None = None,
        interrupt_after: Sequence[str] | None = None,
        max_rounds: int | None = None,
        not_before: When | None = None,
        deadline: When | None = None,
        thread_id: str | None = None,
        labels: Mapping[str, str] | None = None,
        budgets: Mapping[str, float] | None = None,
        retry: Retry | Mapping[str, Any] | None = None,
        submitted_by: str | None = None,
        on_end: Mapping[str, Any] | str | None = None,
        nonce: str | None = None,
        topic: str | None = None,
        model: str | None = None,
        files: Sequence[File | str | os.PathLike[str]] | None = None,
    ) -> Run:
        """Submit a goal. Once this returns, the run is stored and will not be lost.

        Args:
            flow: Name of a flow that this client or a live worker knows.
            goal: The goal. None is for a flow that needs none, such as a workflow without a
                parameter ``goal``. The goal is empty then.
            inputs: Further inputs of the flow.
            run_id: An id of your own. None makes a new one.
            idempotency_key: An equal key with equal content returns the existing run. The content
                is flow, goal, inputs and options as passed here. So a duration is equal however
                late the call is repeated, and defaults do not count.
            interrupt_before, interrupt_after: Nodes to pause at. None means the flow's own.
            max_rounds: Maximum number of cycles. None means the flow's own.
            not_before, deadline: An aware datetime, or a duration (timedelta, seconds) from now.
            thread_id: Your name for the conversation that the run belongs to.
            labels: Texts by name.
            budgets: Limits of what the run may spend (``tokens``, ``money``, ``seconds``,
                ``cycles``, ``commands.NAME``). They override the flow's own.
            retry: Tightens the flow's retry policies: ``max_attempts``, ``within``, ``not_on``. See
                ``perdure.Retry``.
            submitted_by: Owner of the run: a person or a service, by a name of yours. It is not
                part of an idempotency key's content.
            on_end: A Celery signature (an object, its dict or JSON), called at least once when the
                run has completed, errored or stopped. Its first argument is a dict: ``run_id``,
                ``flow``, ``status``, ``finished``, ``answer``, ``output``, ``error``, ``labels``,
                ``epoch``. The signature's own arguments follow. An immutable signature gets no
                dict. A run that continues after its end calls again at its next end. Perdure's own
                workers need ``queue`` in the signature's options (docs/guides/celery.md).
            nonce: A text for this call alone, of letters and digits, that cannot be guessed. If the
                reply is lost and the call is sent again with an equal ``run_id`` and nonce, it
                returns the run that it made. None makes a new nonce.
            topic: A name of your own, of an order for example, for which the run gets signals. One
                live run holds a topic. Signals that wait there are in the new run's mailbox.
            model: The model that the run asks, one of the flow's ``allowed_models``. None means the
                flow's own.
            files: Pictures, documents and texts, as ``File`` or paths. A model sees them with the
                goal, and the run's code reads them with ``context.file``. At most 20, of 8 MiB each
                and 16 MiB together.

        Raises:
            UnknownFlow, InvalidInput, UnstorableValue: The submission is not acceptable. Nothing
                was stored.
            UnsafeServer: The server could lose the run (see the setting ``durability``). Nothing
                was stored.
            RunExists: Another submission used the run id.
            Conflict: The idempotency key was used with different content.
            Taken: Another live run holds the topic.
        """

    @abstractmethod
    def fork(
        self,
        run: Run | str,
        at: int,
        *,
        goal: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        values: Mapping[str, Any] | None = None,
        run_id: str | None = None,
        idempotency_key: str | None = None,
        interrupt_before: Sequence[str] | None = None,
        interrupt_after: Sequence[str] | None = None,
        max_rounds: int | None = None,
        not_before: When | None = None,
        deadline: When | None = None,
        thread_id: str | None = None,
        labels: Mapping[str, str] | None = None,
        budgets: Mapping[str, float] | None = None,
        retry: Retry | Mapping[str, Any] | None = None,
        submitted_by: str | None = None,
        on_end: Mapping[str, Any] | str | None = None,
        nonce: str | None = None,
        model: str | None = None,
    ) -> Run:
        """Submit a run that begins with the rounds of another run before a step.

        The fork has the turns of these rounds. It plays the step anew, and all that follows. What
        the rounds before did is not done again, and the other run does not change. The code is that
        of the workers now.

        Labels, limits, pauses, model and files are those of the other run, unless they are given.
        Its deadline, topic, thread, callback, mailbox and parent are not taken over. Budgets and
        ``max_rounds`` count what the fork itself plays.

        Args:
            run: The other run, or its id. It may be live, or have ended.
            at: The step that is played anew. In a flow with a Controller it must be a round of it.
            goal: Of the fork. None: that of the other run.
            inputs: They replace those of the same names.
            values: What the run's code had remembered before the step. Needed if the run remembers
                values and the step is not its newest.
            run_id, idempotency_key, interrupt_before, interrupt_after, max_rounds, not_before,
                deadline, thread_id, labels, budgets, retry, submitted_by, on_end, nonce, model:
                As for ``submit``.

        Raises:
            NotForkable: The run cannot be forked there. The message says where it can be.
            RunNotFound: No run has this id.
            InvalidInput: The run has no such step, or values are missing.
            UnknownFlow, UnstorableValue, UnsafeServer, RunExists, Conflict: As for ``submit``.
        """

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
        """Send a message to a thread: to the run that works on it, or to a new run.

        A live run of the thread hears the message (``say``). If there is none, a new run begins,
        with the message as its goal. It knows the messages before (``RoundContext.conversation``).
        One run of a thread is live at a time. A run that is errored or stopped is not live.

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
            UnsupportedPart: It has files, and a run of the thread is live, which hears texts only.
            Conflict: The key is that of another message.
            MailboxFull: As for ``signal``.
        """

    @abstractmethod
    def conversation(self, thread: str) -> list[ThreadMessage]:
        """Return the messages of a thread, oldest first: what was sent to it, and the answers.

        They are those of its runs that are still there, up to the newest 100 runs. A thread that
        nothing was sent to has none.
        """

    # Runs that are stuck

    @abstractmethod
    def stuck(self, limit: int = 50, submitted_by: str | None = None) -> list[Verdict]:
        """Return why runs stand still that do not wait on purpose.

        That is, runs without a worker, damaged, paused, errored, or lost again and again. It checks
        the ``limit`` most overdue runs, as many of the oldest live ones, and as many of the last
        errored ones. So the cost does not depend on the number of runs. ``details["run"]`` names
        each verdict's run.
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
        """Stop a run, and its children with it.

        It is no error if the run has ended or does not exist. The receipt says so.

        Args:
            mode: With ``graceful``, the round in flight may finish. With ``now``, the run is
                stopped when this returns.
            children: If False, the children that have been started go on. What they answer is there
                when the run is resumed.
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
        """Continue a run that is interrupted, is stopped, or used up its cycles.

        A run that paused after its last node completes with this call.

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
        """Add to the limits of a run's budgets. What waits for that goes on.

        A run's budgets count what the runs below it spend too. If they are held up by its limit,
        they go on as well. A round that is in progress sees the new limit when it is over.

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

        A node waits for it with ``context.wait_for``. Signals of one name are taken in their
        order, each by one committed round, also those that came before the node waited.

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
            Conflict: The key is that of a signal with another payload.
            MailboxFull: The run has 1,000 unread signals of this name, unread signals of 64 names,
                or 64 MiB of them. Or 100 signals, or 1 MiB of them, wait for a run to take the
                topic.
        """

    @abstractmethod
    def say(
        self, run_id: str, words: str, *, key: str | None = None, by: str | None = None
    ) -> SignalReceipt:
        """Send words to a run that works, as the signal ``say``.

        A run with a controller hears it in its next controller round: the words are a turn of its
        history. It does not finish before it has heard them, unless that would put its end off for
        the ninth time in a row. Then its event ``unread`` names them.

        Args:
            words: What to say.
            key: Your own id of this signal. Sent again under it, the signal is stored once.
            by: Who says it.

        Raises:
            RunNotFound: No run has this id.
            InvalidInput: There are no words, or they are too long.
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
        """Ask a run that works, wait for its reply and return it.

        The question is a signal that wants a reply. A run with a controller hears ``ask`` as it
        hears what is said, and a model answers it with the command ``reply``. Another node takes
        the signal, and calls ``context.reply``.

        Args:
            question: JSON data, usually a text.
            name: The name of the signal.
            timeout: Seconds to wait for the reply.
            key, by: As for ``signal``.

        Raises:
            TimeoutError: There is no reply in time. The run may reply later: see ``reply``.
            InvalidTransition: The run has completed, perhaps without a reply.
            RunNotFound, InvalidInput, UnstorableValue, Conflict, MailboxFull: As for ``signal``.
        """

    @abstractmethod
    def reply(
        self, run_id: str, number: int, name: str = "ask", timeout: float | timedelta = 0.0
    ) -> SignalReply:
        """Return what a run has replied to a signal. The newest 100 replies of a name are kept.

        Args:
            number: The number of the signal, from its receipt.
            name: The name of the signal.
            timeout: Seconds to wait for a reply.

        Raises:
            InvalidTransition: The run has completed without a reply.
            InvalidInput: The run has got no such signal.
            RunNotFound: No run has this id.
        """

    @abstractmethod
    def retry(self, run_id: str, children: bool = True) -> Run:
        """Retry an errored run at its failed step.

        Args:
            children: Retry first those of its children that errored and that this step waited for.
                Their completed siblings keep their answers. If False, the run finds them as they
                are. If the run still waits for children that are held back (``on_failure``), only
                these are retried.

        Raises:
            InvalidTransition: The run is not errored.
            Stale: Another retry or round came first.
            RunNotFound: No run has this id.
        """

    @abstractmethod
    def delete(self, run_id: str, tree: bool = False) -> None:
        """Delete a run that has ended, or that is too damaged to continue or to be stopped.

        The notes that it has kept for later runs stay (``forget_notes``).

        Args:
            tree: The runs below it too, the deepest first. A call that failed midway can be
                repeated.

        Raises:
            InvalidTransition: The run is live, or a newer version wrote it. With ``tree``, one of
                the runs below it is live. Then none is deleted.
            RunNotFound: No run has this id.
        """

    # Notes, what runs keep for later runs

    @abstractmethod
    def note_namespaces(
        self, prefix: str = "", limit: int = 100, after: str | None = None
    ) -> list[NoteNamespace]:
        """Return the namespaces that have notes, in the order of their names.

        These methods have the notes on the server of the runs. Those of a flow with a
        ``note_store`` of its own are elsewhere.

        Args:
            prefix: Only those that begin with this text.
            limit: The most namespaces.
            after: The last namespace of the page before.
        """

    @abstractmethod
    def notes(self, namespace: str, words: str = "", limit: int = 50) -> list[Note]:
        """Return the notes of a namespace that fit the words, or the newest.

        Args:
            namespace: Its stored name, with the facts of the runs filled in.
            words: Those with most of these words come first. Empty: the newest first.
            limit: The most notes.
        """

    @abstractmethod
    def put_note(
        self, namespace: str, text: str, *, key: str | None = None, value: Any = None
    ) -> Note:
        """Keep a note for later runs, in place of one with the same key.

        If the namespace is full (``max_notes``), its oldest note makes room.

        Args:
            text: What it says, and what searches find.
            key: Its name. None derives it from the text.
            value: JSON data or a pydantic model beside the text.

        Raises:
            UnstorableValue: It is too long (``max_note_bytes``), or not JSON.
        """

    @abstractmethod
    def forget_notes(self, namespace: str, key: str | None = None) -> int:
        """Delete a note, or all notes of a namespace, and return how many there were.

        The deletion of runs deletes no notes. What a run has read of them stays in its history.
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
        """Submit a run once more, as a new run, with its inputs, labels, budgets, model and files.

        The new run uses the code that the workers have now.

        Args:
            flow: Another flow, such as a version that is registered beside the first one. None
                means the run's own.
            goal: Another goal. None means the run's own.
            inputs: Inputs that take the place of those of the same name.
            model: Another model, one of the flow's ``allowed_models``. None means the run's own.
            idempotency_key, submitted_by: As in ``submit``.

        Raises:
            RunNotFound: There is no such run.
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
        """Return the ids of the runs of this status, flow and submitter, with these labels.

        It is a dry run of the operations below.

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
        """Stop the live runs of a flow, of a status, or that match a query; all that is given.

        Child runs are stopped with their parents, not by themselves, unless the query has
        ``children:yes``.

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
        """Send a signal to all live runs of a flow, with these labels, or both.

        Args:
            name, payload: As in ``signal``.
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
        """Retry all errored runs (of one flow, if given) at their failed step.

        Child runs are retried with their parents, not by themselves.

        Args:
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
        """Delete all runs of an ended status (completed, errored or stopped).

        Args:
            query: Only runs that match this query line, as in ``runs``. With a query, ``status``
                may be left out.
            limit: Maximum number of runs to delete. None means all.

        Returns:
            A result for each run, as ``retry_many`` returns them.

        Raises:
            InvalidInput: Another status is given, or neither a status nor a query, or the query
                cannot be read.
        """

    # Flows, workers and the server

    @abstractmethod
    def flows(self) -> dict[str, FlowInfo]:
        """Return the flows that this client or a live worker knows.

        Each has its description, nodes, limits, input schema and the workers that run it.
        """

    @abstractmethod
    def pause_flow(
        self, flow: str, reason: str | None = None, requested_by: str | None = None
    ) -> bool:
        """Pause a flow: no further round of its runs is claimed.

        Rounds in flight finish, and new runs may be submitted.

        Returns:
            True if the flow was not paused before, else False.

        Raises:
            UnknownFlow: Neither this client nor a live worker knows the flow. Its name may be
                mistyped.
        """

    @abstractmethod
    def unpause_flow(self, flow: str) -> int:
        """Unpause a flow and requeue its held runs. Do nothing if it is not paused.

        Returns:
            The number of runs that were held.

        Raises:
            UnknownFlow: The flow is not paused, and neither this client nor a live worker knows it.
                Its name may be mistyped.
        """

    @abstractmethod
    def paused_flows(self) -> dict[str, FlowPause]:
        """Return the paused flows, each with ``at`` (datetime), ``by`` and ``reason``."""

    @abstractmethod
    def workers(self) -> list[WorkerStatus]:
        """Return the workers that announced themselves lately.

        Each has ``name``, ``alive``, ``silent`` (seconds since its last heartbeat) and the data of
        its announcement, for example ``draining``.
        """

    @abstractmethod
    def queues(self) -> list[QueueInfo]:
        """Return the broker's queues, with their lengths.

        For each, ``oldest`` says how long the next message's run has waited.
        """

    @abstractmethod
    def dead_letters(self, limit: int = 20) -> list[DeadLetter]:
        """Return the newest messages that workers refused.

        Each has ``at`` (s since 1970), ``list``, ``why``, ``bytes`` and ``message`` (its
        beginning).
        """

    @abstractmethod
    def doctor(self) -> list[Finding]:
        """Check server, settings and process for anything that breaks the guarantees.

        Returns:
            The findings, each with its remedy.
        """
