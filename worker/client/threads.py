"""The part of a client that sends messages to threads.

A thread is a sequence of runs. Its live run holds the topic ``thread:NAME``. A message is either
submitted as the goal of a new run that takes the topic, or sent with ``say`` to the run that holds
the topic. Both operations get the message's key, so a message that is sent again is stored once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any
from uuid import uuid4

from perdure.flows.core.errors import InvalidInput
from perdure.flows.core.files import File, files_of
from perdure.flows.core.json_values import canonical
from perdure.worker.client.api import ClientApi
from perdure.worker.client.run_waits import RunWaits
from perdure.worker.domain.run import Run
from perdure.worker.domain.sent_message import SentMessage
from perdure.worker.domain.submission import Submission
from perdure.worker.errors import Conflict, InvalidTransition, RunNotFound, Taken, UnsupportedPart
from perdure.worker.operations import validation
from perdure.worker.operations.arguments import check_words
from perdure.worker.operations.signals import digest_of_payload, stored_key
from perdure.worker.operations.submit import AlreadyHeard, checked_flow, make_run
from perdure.worker.operations.threads import topic_of
from perdure.worker.store import StoreUnavailable

#: Attempts to send a message. Each fails only if a run of the thread ends at that very moment.
ATTEMPTS = 20


class Threads(RunWaits, ClientApi):
    """The method ``send`` of the clients of a state server."""

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
        return self._send(
            topic_of(thread), thread, text, flow, inputs, key, labels, budgets, submitted_by,
            files=files_of(files),
        )  # fmt: skip

    def _send(
        self,
        topic: str,
        thread: str,
        text: str,
        flow: str | None,
        inputs: Mapping[str, Any] | None,
        key: str | None,
        labels: Mapping[str, str] | None,
        budgets: Mapping[str, float] | None,
        submitted_by: str | None,
        may_hear: Callable[[Run], bool] = lambda run: True,
        files: Sequence[File] = (),
        has_own_topics: bool = False,
    ) -> SentMessage:
        """Send a message to the thread with this topic.

        The arguments are those of ``send``, and these:

        Args:
            topic: The topic that the thread's live run holds.
            may_hear: Returns whether the run that holds the topic may get the message.
            files: Files of the run that the message starts.
            has_own_topics: Whether topics of this run belong to its submitter, as over HTTP.

        Raises:
            Taken: ``may_hear`` returned False for the run that holds the topic.
            UnsupportedPart: The message has files, but a live run of the thread would get it.
            Conflict: The key belongs to another message.
            StoreUnavailable: At each of ``ATTEMPTS`` attempts, the run that holds the topic ended.
        """
        validation.optional_texts(flow=flow)
        if not files:
            check_words(text, "text")
        validation.key(key, "key")
        validation.mapping(inputs, "inputs")
        validation.mapping(labels, "labels", of_texts=True)
        validation.submitter(submitted_by)
        validation.budgets(budgets, "budgets")
        self._session.check_durability()
        key = uuid4().hex if key is None else key
        flow = self._flow_of(topic, thread) if flow is None else flow
        description, accepted, checked = checked_flow(self._session, flow, dict(inputs or {}))
        submission = Submission(
            flow=flow,
            description=description,
            goal=text,
            inputs=accepted,
            checked=checked,
            thread_id=thread,
            labels=labels or {},
            given=inputs or {},
            budgets=budgets,
            submitted_by=submitted_by,
            topic=topic,
            files=tuple(files),
            has_own_topics=has_own_topics,
        )
        # The name of a thread may be long, and a key too.
        own = sha256(f"{topic}\n{key}".encode()).hexdigest()
        for _ in range(ATTEMPTS):
            try:
                run = make_run(
                    self._session,
                    submission,
                    idempotency_key=f"thread:{own}",
                    said=(stored_key(key), digest_of_payload(canonical(text))),
                )
                return SentMessage(run.id, True, thread)
            except Conflict as error:
                raise Conflict(
                    f"thread {thread}: the key {key!r:.80} is that of another message, which run "
                    f"{error.run_id} got; use another key",
                    error.run_id,
                ) from error
            except AlreadyHeard as heard:
                return SentMessage(heard.run_id, False, thread)
            except Taken as taken:
                with suppress(InvalidTransition, RunNotFound):  # It has completed meanwhile.
                    holder = self.get(taken.run_id)
                    if not may_hear(holder):
                        raise
                    if files:
                        _check_hears_no_files(holder, files[0], thread)
                        continue
                    receipt = self.say(holder.id, text, key=key, by=submitted_by)
                    if receipt.status not in ("errored", "stopped"):
                        return SentMessage(holder.id, False, thread)
        raise StoreUnavailable(
            f"thread {thread}: each of {ATTEMPTS} times, the run that should hear the message "
            "ended at that moment; send it again under the same key"
        )

    def _flow_of(self, topic: str, thread: str) -> str:
        """Return the flow of a thread's newest run.

        Raises:
            InvalidInput: the thread has no run.
        """
        newest = self._store.signals.newest_of_topic(topic)
        fields = {} if newest is None else self._store.reads.some_fields([newest], ["flow"])[0]
        if "flow" not in fields:
            raise InvalidInput(f"the thread {thread} has no run yet; name the flow of the first")
        return fields["flow"]


def _check_hears_no_files(holder: Run, file: File, thread: str) -> None:
    """Raise UnsupportedPart unless a run has ended, because a live run accepts texts only.

    Args:
        holder: The run that holds the topic of the thread.
        file: A file of the message, for the error text.
    """
    if not holder.status.ended:
        raise UnsupportedPart(
            f"run {holder.id} of thread {thread} works and hears texts only, but the message has "
            f"the file {file.name!r}. Send it when the run has ended, or stop the run"
        )
