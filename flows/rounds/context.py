"""RoundContext: a node's view of its run, and its reports, during one round."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from perdure.flows.core.errors import (
    InvalidFlow,
    InvalidInput,
)
from perdure.flows.core.files import (
    BYTES,
    TYPE,
    File,
    FileReference,
    artifact_name,
    check_together,
    file_of,
    numbered,
)
from perdure.flows.core.json_values import canonical, storable
from perdure.flows.core.names import ONLY, is_name
from perdure.flows.core.outcomes import Command
from perdure.flows.rounds.child_runs import RoundWithChildren
from perdure.flows.rounds.facts import Deps
from perdure.flows.rounds.notes import Notes
from perdure.flows.rounds.wait_arguments import checked_signal, checked_topic, seconds_until
from perdure.flows.rounds.waits import ReceivedSignal


class RoundContext(RoundWithChildren[Deps]):
    """The view that a node has of its run.

    ``RoundContext[Deps]`` gives type checkers the type of ``deps``.

    Attributes:
        goal, inputs: as submitted; the inputs after validation.
        run_id, node, step, attempt: which attempt of which round this is. ``attempt`` begins at 1
            and never restarts within a step.
        history: the turns so far, loaded on demand.
        committed, remembered: named values as of the last commit, and those remembered in this
            round.
        values: the committed values, overridden by the remembered ones.
        answer: the answer that ``resume`` gave to this node's interrupt, else None.
        answered: whether there is an answer at all, because the answer itself may be None.
        answered_by: the author of ``answer``. ``deadline`` if it is the default, because
            there was no answer in time. None if not known.
        command: inside a command, the command that is being carried out, else None.
        signals: the exchange between the heartbeat and this round.
        reserved: names that the flow itself writes. They cannot be remembered.
        asked: the data of the interrupt that ``answer`` answers, else None.
        workspace: the directory in which this worker lets commands read and write, or None.
        sandbox: the container in which this worker runs shell commands, or None.
        endpoint: the default model of this worker, with its server and key.
        budgets: by name, the run's limits and its spending before this round.
        spent, told: the reports of this round through ``spend`` and ``tell``.
        traced: attributes of the round's span, named by OpenTelemetry's conventions. Never
            questions, answers or arguments, unless ``traces_content``.
        traces_content: whether spans may contain the inputs and outputs of the round.
        parts: the concurrent parts of the round, for its trace.
        journal: the records stored before the commit. See ``once``.
        mailbox: the signals that were sent to the run. See ``wait_for``.
        artifact: reads an artifact of the run by name. Raises KeyError for an unknown name.
        commands: in a controller's round, the commands to choose from (``finish`` included) as tool
            definitions with ``name``, ``description`` and ``parameters``.
        node_goal: the flow's description of this node's purpose, or an empty text.
        whole: the full history, including messages from people. None if ``history`` already
            contains them. See ``said``.
        providers: decides whether this round may ask a model provider that is busy or unreachable.
            See ``Providers``.
        retried: a text that changes with each retry of the run by a person. Empty before the first
            retry.
        may_retry: whether the retry policies of the round allow another attempt after an error. A
            second argument is the policy of a step, in place of the round's.
        kept: the objects that the flow keeps in this process between two rounds.
        live_text: where text is shown before the round is over. See ``stream``.
        earlier: the runs before this one in its thread. See ``conversation``.
        note_access: opens the notes for later runs. See ``notes``.
        model: the model that the submission chose for this run, or None.
        files: references to the files that were submitted with the run. See ``file``.
        attached: the files stored with ``attach`` in this round, by name.
        attaching: the names of the files stored by the step that has this context.
        scope: the prefix of the names recorded by a step that runs beside others.
        origins: in a fork, the runs that executed its first turns, oldest first. Each comes with
            the number of turns up to which it executed them.
        key_salt: part of the idempotency keys of a run whose id the caller chose. A later run of
            the same id has a different salt. Empty for all other runs.
        build: the build of the flow's code in this worker. Empty if it is not known.
        deps: the value that the flow's lifespan has opened in this process. See ``lifespan``.
        logger: a logger for the code of the flow.
    """

    def notes(self, namespace: str) -> Notes:
        """Return the notes under a namespace. Runs keep them for later runs.

        Args:
            namespace: letters, digits and ``_.:@+-``, at most 200. Names in braces are filled in:
                ``{submitted_by}``, ``{thread}``, ``{flow}`` or ``{labels.NAME}`` of the run.

        Raises:
            InvalidFlow: the namespace is not valid.
            FatalError: the run lacks a fact that the namespace names.
        """
        return self.note_access.open(namespace)

    def once(self, name: str, function: Callable[[], Any]) -> Any:
        """Return the result recorded under a name in this step.

        Without one, call the function and record its result. The result is recorded as soon as it
        is known. A later attempt of this round gets the recorded result without a call. The first
        recorded result wins.

        A result of more than ``max_addition_bytes`` is kept as an artifact, until the round is
        committed. A worker can die between the call and the record, and the function is then called
        again.
        Pass ``idempotency_key`` to a receiver that supports it.

        Args:
            name: name of the effect: letters, digits, '_', '.' or '-'.
            function: returns JSON data.

        Raises:
            InvalidFlow: ``name`` is not a valid name.
            UnstorableValue: the result is not JSON, or takes more than 16 MiB.
            RoundStopped: the run has left this step.
            FatalError: the step has recorded 64 results. The function is not called.
        """
        if not is_name(name):
            raise InvalidFlow(
                f"once({name!r}, ...): expected a name of letters, digits, '_', '.' or '-', "
                "at most 100"
            )
        own = f"{self.scope}{name}"
        text = self._recorded(name)
        if text is None:
            self.journal.check_room(own)
            attached = len(self.attaching)
            result = function()
            if len(self.attaching) > attached:
                raise InvalidFlow(
                    f"once({name!r}, ...): the function attached a file, which only the commit of "
                    "the round stores. Attach files outside of once"
                )
            text = self.journal.record(
                own, canonical(storable(result, f"the result recorded as {name!r}"))
            )
        return json.loads(text)

    def recorded(self, name: str, default: Any = None) -> Any:
        """Return the result that ``once`` recorded under a name in this step.

        Nothing is called, so a later attempt of the round can see how far an earlier one came.

        Returns:
            ``default`` if no attempt of the step has recorded a result under the name.
        """
        text = self._recorded(name)
        return default if text is None else json.loads(text)

    def _recorded(self, name: str) -> str | None:
        """Return the JSON text recorded under a name in this step. None without a record.

        A concurrent step of a workflow has a ``scope``. For such a step, a record without the scope
        counts, too, because workers of older releases wrote records in this way. But their record
        of the step itself (``"kind":"step"``) is no result of ``once`` and does not count.
        """
        text = self.journal.recorded.get(f"{self.scope}{name}")
        if text is None and self.scope:
            text = self.journal.recorded.get(name)
            if text is not None and '"kind":"step"' in text:
                return None
        return text

    def attach(self, file: File) -> dict[str, Any]:
        """Store a file with this round's commit. Return the reference to it, as JSON data.

        If the reference is in an observation, the flow's model sees the file in its next request.
        If it is in the answer, clients find the file by it (``Client.file``). A command may also
        return the file itself. The file's name in the run begins with the step.
        It is never the name of a submitted file.

        Raises:
            InvalidInput: the files of this round are too many or too large together.
        """
        if not isinstance(file, File):
            raise InvalidInput(f"context.attach: expected perdure.File, got {type(file).__name__}")
        files = list(self.attached.values())
        if file not in files:
            check_together([*files, file])
        submitted = {each.name for each in self.files}
        # Steps that run at once may attach files of one name.
        for number in count(1):
            name = numbered(self.step, number, file.name)
            if name in submitted:
                continue
            kept = self.attached.setdefault(name, file)
            if kept == file:
                break
        if kept is file and name not in self.attaching:
            self.attaching.append(name)
        if self.committed.get(ONLY):
            # It carries out a command of its parent, whose model reads the reference.
            name = f"{self.run_id}/{name}"
        return replace(file.reference, name=name).data

    def file(self, name: str | Mapping[str, Any]) -> File:
        """Return a file of the run. It was submitted with the run, or attached by a round.

        Args:
            name: its name in the run, or the reference to it.

        Raises:
            InvalidInput: the run has no such file.
        """
        reference = FileReference.of(name)
        wanted = name if reference is None else reference.name
        if not isinstance(wanted, str):
            raise InvalidInput(f"context.file: expected a name or a reference, got {name!r:.200}")
        own = wanted.removeprefix(f"{self.run_id}/")
        if own in self.attached:
            return self.attached[own]
        try:
            content = self.artifact(artifact_name(BYTES, wanted))
            media_type = self.artifact(artifact_name(TYPE, wanted))
        except KeyError as error:
            given = ", ".join(each.name for each in self.files) or "none"
            raise InvalidInput(
                f"run {self.run_id} has no file {wanted!r:.200}; it was submitted with: {given}. "
                "Files that commands returned are named in their results"
            ) from error
        return file_of(wanted, content, media_type)

    def hook(self, signal: str) -> str:
        """Return a URL for sending a signal to this run. A service needs no token to use it.

        A POST of any JSON to the URL sends the signal with that payload. The URL is a secret.
        Anyone who knows it can send this signal to this run, until the run has completed or is
        deleted. Every attempt and every step gets the same URL.

        Args:
            signal: the name of the signal, for ``wait_for``.

        Raises:
            InvalidFlow: the name is not valid.
            FatalError: the setting ``public_url`` is missing, or the run has 16 other hooks.
            RoundStopped: the run was deleted.
        """
        return self.mailbox.hook(checked_signal(signal))

    def listen(self, topic: str) -> None:
        """Take a topic for this run. ``Client.submit(topic=...)`` does so at the submission.

        Signals to the topic go to this run from here on. Waiting signals are in its mailbox when
        this returns, so ``wait_for`` and ``take`` find them. The run keeps the topic until it has
        ended. A run that has the topic already keeps it, so this line may run again.

        A stopped or errored run gives its topic to the next that takes it. A run that was submitted
        over HTTP takes the topic of its submitter.

        Args:
            topic: a name of your own, of an order for example (``order:4711``).

        Raises:
            TopicTaken: another live run holds the topic.
            FatalError: this run holds another topic. A run holds one.
            InvalidFlow: the topic is not valid.
            RoundStopped: the run goes on elsewhere, was stopped, or was deleted.
        """
        self.mailbox.listen(checked_topic(topic))

    def sleep(self, seconds: float | timedelta | str, *, name: str | None = None) -> None:
        """Pause the run for a duration, without occupying a worker.

        The round ends here and the run is parked. When the duration is over, this node runs again
        from its beginning, in the same step, and this call then returns. Wrap effects that must not
        happen twice in ``once``. Values that the node remembered before the wait are lost.

        Args:
            seconds: at most ten years; also a timedelta, or a text like ``7d``.
            name: the wait's name. Without one it is numbered, in the order of the waits in this
                step. Name a wait if the code may reach its waits in another order.

        Raises:
            InvalidFlow: the duration or the name is not valid.
            FatalError: this step has waited 64 times, or the command must not wait.
        """
        self.mailbox.sleep(seconds, name)

    def until(self, when: datetime, *, name: str | None = None) -> None:
        """Pause the run until ``when``, as ``sleep`` does. ``when`` must have a time zone."""
        self.mailbox.sleep(seconds_until(when, datetime.now(UTC)), name)

    def wait_for(
        self,
        *signals: str,
        timeout: float | timedelta | str | None = None,
        name: str | None = None,
    ) -> ReceivedSignal | None:
        """Pause the run until one of these signals arrives.

        The run waits as in ``sleep``. A signal that arrived before ends the wait at once. Each
        signal is used once: the commit of this round takes it. Every attempt of the round gets the
        same signal.

        Args:
            signals: up to 8 names.
            timeout: how long to wait; None waits for ever.

        Returns:
            The signal, or None if ``timeout`` is over.

        Raises:
            InvalidFlow: a name or the duration is not valid.
            FatalError: this step has waited 64 times, or the command must not wait.
        """
        return self.mailbox.wait_for(signals, timeout, name)

    def take(self, signal: str) -> ReceivedSignal | None:
        """Return the next unused signal of this name, without waiting.

        Another attempt of this round may find a signal where this attempt found none.

        Returns:
            None if the run has no such signal now.
        """
        return self.mailbox.take(signal)

    def reply(self, signal: ReceivedSignal, value: Any) -> None:
        """Reply to a signal of the run with JSON data. ``Client.ask`` returns the reply.

        The commit of this round stores the reply, so it is sent once however often this node runs.
        The first reply to a signal stands.

        Raises:
            UnstorableValue: the value would not read back equal.
        """
        self.mailbox.reply(signal, value)

    def carrying_out(self, command: Command) -> RoundContext[Deps]:
        """Return a copy of the context with the idempotency key of ``command``."""
        return altered(self, command=command)


def made(fields: dict[str, Any], kind: type[RoundContext] = RoundContext) -> RoundContext:
    """Create a ``RoundContext`` without its constructor, in a fifth of the time.

    The generated constructor of a frozen dataclass sets the many fields one by one.

    Args:
        fields: the values by field name. Only fields with a plain default may be missing. This dict
            becomes the ``__dict__`` of the context, so do not change it later.
        kind: the class to create.
    """
    context = object.__new__(kind)
    object.__setattr__(context, "__dict__", fields)
    return context


def altered(context: RoundContext, **fields: Any) -> RoundContext:
    """Return a copy of a context with some fields replaced.

    The copy shares the objects in all other fields. This is ten times as fast as
    ``dataclasses.replace``.
    """
    return made({**vars(context), **fields}, type(context))
